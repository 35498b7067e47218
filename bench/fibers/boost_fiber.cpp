// Boost.Fiber. On one kernel thread its own scheduler; on two its work stealing, which may be set up once a
// process (its other way, algo::shared_work, has one queue under a lock).
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "fibers/workloads.hpp"

namespace craton::bench {
namespace {

namespace fibers = boost::fibers;

class BoostBarrier {
 public:
  explicit BoostBarrier(unsigned count) : barrier_(count) {}
  void arrive_and_wait() { barrier_.wait(); }

 private:
  fibers::barrier barrier_;
};

struct BoostFibers {
  using Thread = fibers::fiber;
  using Barrier = BoostBarrier;
  template <typename Body>
  static Thread spawn(const Body& body) {
    return fibers::fiber(body);
  }
  static void yield() { boost::this_fiber::yield(); }
};

constexpr std::size_t small_stack_bytes = 16 * 1024;

/// For one kernel thread only: the pool has no lock.
struct PooledStacks {
  static fibers::pooled_fixedsize_stack& allocator() {
    static fibers::pooled_fixedsize_stack pool(small_stack_bytes);
    return pool;
  }
};
/// So small that malloc() gives them without a system call.
struct AllocatedStacks {
  static fibers::fixedsize_stack allocator() { return fibers::fixedsize_stack(small_stack_bytes); }
};

/// Child first, as ours.
template <typename Stacks>
class BoostFork {
 public:
  template <typename Body>
  explicit BoostFork(Body&& body)
      : fiber_(fibers::launch::dispatch, std::allocator_arg, Stacks::allocator(), std::forward<Body>(body)) {}
  void join() { fiber_.join(); }

 private:
  fibers::fiber fiber_;
};

/// What `turn()` returns as the main fiber of the calling thread, beside which the other workers steal.
template <typename Turn>
Sample inside(const Load& load, const Turn& turn) {
  if (load.workers == 1) return turn();
  fibers::mutex mutex;
  fibers::condition_variable_any ended_changed;
  bool ended = false;
  std::vector<std::thread> others;
  for (unsigned i = 1; i < load.workers; ++i) {
    others.emplace_back([&] {
      fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(load.workers);
      std::unique_lock lock(mutex);
      ended_changed.wait(lock, [&ended] { return ended; });
    });
  }
  fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(load.workers);
  const Sample sample = turn();
  {
    const std::lock_guard lock(mutex);
    ended = true;
  }
  ended_changed.notify_all();
  for (std::thread& other : others) other.join();
  return sample;
}

Sample fork_join_turn(const Load& load) {
  constexpr int n = 18;
  return inside(load, [&load] {
    return load.workers == 1 ? time_fib<BoostFork<PooledStacks>>(load.turn_ns, n)
                             : time_fib<BoostFork<AllocatedStacks>>(load.turn_ns, n);
  });
}

template <std::uint64_t YieldsEvery>
Sample mutex_turn(const Load& load) {
  return inside(load, [&load] {
    return time_mutex<fibers::mutex, YieldsEvery>(BoostFibers{}, load.turn_ns, sections_of_fibers);
  });
}

Sample barrier_turn(const Load& load) {
  return inside(load, [&load] { return time_barrier(BoostFibers{}, load.turn_ns, 500); });
}

Sample yield_turn(const Load& load) {
  return inside(load, [&load] { return time_yield(BoostFibers{}, load.turn_ns); });
}

Sample uncontended_mutex_turn(const Load& load) {
  return inside(load, [&load] { return time_uncontended_mutex<fibers::mutex>(load.turn_ns); });
}

}  // namespace

std::vector<Way> boost_fiber_ways() {
  constexpr std::string_view variant = "boost.fiber";
  return {
      {Workload::fork_join, variant, fork_join_turn},
      {Workload::mutex, variant, mutex_turn<0>},
      {Workload::yielding_mutex, variant, mutex_turn<yields_every>},
      {Workload::barrier, variant, barrier_turn},
      {Workload::yield, variant, yield_turn},
      {Workload::uncontended_mutex, variant, uncontended_mutex_turn},
  };
}

std::string boost_version() {
  return std::to_string(BOOST_VERSION / 100'000) + "." + std::to_string(BOOST_VERSION / 100 % 1000);
}

}  // namespace craton::bench
