/// \file
/// What the waits of threads need of their job: memory that one thread of all ranks changes at a time,
/// messages, and sleep. A running program has it from the space, the fabric and the kernel
/// (posix/monitor.cpp), the schedules of tests/waits from the simulator.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/types.hpp"

namespace craton::posix {

struct WaitMessage {
  enum class Kind : std::uint32_t { one, all, let_on };

  Kind kind;
  std::uint64_t object;
  std::uint64_t first, end;  ///< of let_on: the numbers from the one up to the other
};

/// Of a thread, over all objects.
struct ThreadWaits {
  /// Robust mutexes that it has locked: null until it has, freed by leave_mutexes().
  std::vector<pthread_mutex_t*>* robust = nullptr;
  const void* mutex = nullptr;  ///< that it has locked last, unless it has unlocked that
  /// Who is let on by its signals, and wants that mutex, is told when it is unlocked, at other nodes. Null:
  /// nobody.
  struct {
    const void* condition = nullptr;
    std::uint64_t first = 0, end = 0;
    std::uint32_t ranks = 0;
  } signal;
};

class WaitHost {
 public:
  WaitHost() = default;
  WaitHost(const WaitHost&) = delete;
  WaitHost& operator=(const WaitHost&) = delete;
  virtual ~WaitHost() = default;

  virtual fabric::Rank rank() const noexcept = 0;
  virtual fabric::Rank ranks() const noexcept = 0;
  /// Whether a rank is of this one's node, where a look at an object costs little.
  virtual bool is_near(fabric::Rank rank) const noexcept = 0;
  virtual TimeNs now_ns() const noexcept = 0;
  /// Calls `step` while no other thread of any rank is inside for the same object; it sees what those wrote
  /// that were inside before it. Blocks.
  virtual void inside(const void* object, FunctionRef<void()> step) = 0;
  /// What a rank had written when it was inside last is there to be seen. Blocks.
  virtual void learn_from(fabric::Rank rank) = 0;
  /// Has other ranks' Monitor::arrived() called; does nothing while no other rank runs code of the program.
  /// \param chosen whether a rank is to be told
  virtual void tell_others(const WaitMessage& message, FunctionRef<bool(fabric::Rank)> chosen) noexcept = 0;

  /// As futex_wait(), but may end at any time.
  virtual void sleep(const std::atomic<std::uint32_t>& word, std::uint32_t expected, TimeNs deadline_ns) = 0;
  /// Who sleeps on the word. Also in handlers of messages.
  virtual void wake(const std::atomic<std::uint32_t>& word) noexcept = 0;
  /// Ends the job if a rank is gone: who waits might do so for ever.
  virtual void look_for_lost_ranks() = 0;

  /// The calling thread: no other of any rank is the same.
  virtual pthread_t self() noexcept = 0;
  /// As pthread_testcancel().
  virtual void test_cancellation() = 0;
  /// How often a handler of a signal has run in the calling thread.
  virtual std::uint32_t interruptions() noexcept = 0;
  /// The calling thread's.
  virtual ThreadWaits& of_thread() noexcept = 0;
};

}  // namespace craton::posix
