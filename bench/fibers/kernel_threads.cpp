// What the kernel and the C library give: std::thread, std::mutex, pthread_barrier_t.
#include <pthread.h>

#include <mutex>
#include <thread>

#include "fibers/workloads.hpp"

namespace craton::bench {
namespace {

class KernelBarrier {
 public:
  explicit KernelBarrier(unsigned count) { ::pthread_barrier_init(&barrier_, nullptr, count); }
  KernelBarrier(const KernelBarrier&) = delete;
  KernelBarrier& operator=(const KernelBarrier&) = delete;
  ~KernelBarrier() { ::pthread_barrier_destroy(&barrier_); }
  void arrive_and_wait() { ::pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

struct KernelThreads {
  using Thread = std::thread;
  using Barrier = KernelBarrier;
  template <typename Body>
  static Thread spawn(const Body& body) {
    return std::thread(body);
  }
  static void yield() { std::this_thread::yield(); }
};

class KernelFork {
 public:
  template <typename Body>
  explicit KernelFork(Body&& body) : thread_(std::forward<Body>(body)) {}
  void join() { thread_.join(); }

 private:
  std::thread thread_;
};

Sample fork_join_turn(const Load& load) {
  return time_fib<KernelFork>(load.turn_ns, 9);
}

template <std::uint64_t YieldsEvery>
Sample mutex_turn(const Load& load) {
  return time_mutex<std::mutex, YieldsEvery>(KernelThreads{}, load.turn_ns, sections_of_kernel_threads);
}

Sample barrier_turn(const Load& load) {
  return time_barrier(KernelThreads{}, load.turn_ns, 50);
}

Sample yield_turn(const Load& load) {
  return time_yield(KernelThreads{}, load.turn_ns);
}

Sample uncontended_mutex_turn(const Load& load) {
  return time_uncontended_mutex<std::mutex>(load.turn_ns);
}

}  // namespace

std::vector<Way> kernel_thread_ways() {
  constexpr std::string_view variant = "kernel threads";
  return {
      {Workload::fork_join, variant, fork_join_turn},
      {Workload::mutex, variant, mutex_turn<0>},
      {Workload::yielding_mutex, variant, mutex_turn<yields_every>},
      {Workload::barrier, variant, barrier_turn},
      {Workload::yield, variant, yield_turn},
      {Workload::uncontended_mutex, variant, uncontended_mutex_turn},
  };
}

}  // namespace craton::bench
