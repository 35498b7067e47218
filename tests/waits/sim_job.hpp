/// \file
/// A simulated job whose threads wait for each other through monitors. Messages overtake each other. Who is
/// inside for an object learns what those knew that were inside before.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "posix/waits/host.hpp"
#include "posix/waits/monitor.hpp"
#include "sim_threads.hpp"

namespace craton::posix::test {

using craton::test::Known;
using craton::test::Random;
using craton::test::Rank;
using craton::test::SimThread;
using craton::test::SimThreads;

/// What ends a thread that has been cancelled.
struct Cancelled {};

class SimJob : public SimThreads {
 public:
  SimJob(std::uint64_t seed, Rank ranks);
  ~SimJob();
  SimJob(const SimJob&) = delete;
  SimJob& operator=(const SimJob&) = delete;

  /// At some time the thread is cancelled, or a handler of a signal runs in it, if it has not ended. Before
  /// run().
  void cancel_later(SimThread& thread);
  void interrupt_later(SimThread& thread);
  SimThread& spawn(Rank rank, std::function<void()> body);

  // ---- From inside threads

  Monitor& monitor() { return *monitors_[current().rank]; }
  pthread_t self() { return id_of(current()); }
  std::uint32_t interruptions() { return state_of_current().interruptions; }

 private:
  class Host;
  /// Of an object.
  struct Lock {
    bool is_held = false;
    Known known;
    std::vector<fabric::sim::Fiber*> waiting;
  };
  struct ThreadState {
    const std::atomic<std::uint32_t>* word = nullptr;  ///< on which it sleeps
    bool is_cancelled = false;
    std::uint32_t interruptions = 0;
    ThreadWaits waits;
  };

  static pthread_t id_of(const SimThread& thread) { return thread.number + 1; }
  ThreadState& state_of_current() { return states_[current().number]; }
  Lock& lock_of(const void* object);
  void enter(Lock& lock);
  void leave(Lock& lock);

  const bool one_lock_;  ///< all objects lie in a page
  const TimeNs latency_ns_;
  const Rank ranks_a_node_;
  std::map<const void*, Lock> locks_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Monitor>> monitors_;
  std::vector<Known> published_;
  std::vector<SimThread*> threads_;
  std::deque<ThreadState> states_;  ///< by number; their threads refer to them
};

}  // namespace craton::posix::test
