// Ours.
#include "fiber/fiber.hpp"

#include <cstddef>
#include <utility>

#include "fibers/workloads.hpp"

namespace craton::bench {
namespace {

struct CratonFibers {
  using Thread = fiber::Join;
  using Barrier = fiber::Barrier;
  fiber::Runtime& runtime;

  template <typename Body>
  Thread spawn(const Body& body) const {
    return runtime.spawn(body);
  }
  static void yield() { fiber::yield(); }
};

class CratonFork {
 public:
  template <typename Body>
  explicit CratonFork(Body&& body) : join_(fiber::fork(std::forward<Body>(body))) {}
  void join() { join_.join(); }

 private:
  fiber::Join join_;
};

/// What `turn(fibers)` returns as a fiber of a runtime that this turn has for itself.
template <typename Turn>
Sample inside(const Load& load, const Turn& turn) {
  fiber::RuntimeOptions options;
  options.workers = load.workers;
  fiber::Runtime runtime(options);
  return runtime.run([&runtime, &turn] { return turn(CratonFibers{runtime}); });
}

struct PingPong {
  fiber::Continuation here;
  fiber::Continuation there;
};

[[noreturn]] void answer(void* /*value*/, void* argument) {
  auto& both = *static_cast<PingPong*>(argument);
  for (;;) {
    fiber::swap_context(both.here, [&both](fiber::Continuation saved) -> void* {
      both.there = saved;
      return &both;
    });
  }
}

Sample switch_turn(const Load& load) {
  constexpr std::size_t stack_bytes = 64 * 1024;
  const fiber::Stack stack(stack_bytes);
  PingPong both;
  both.there = fiber::make_context(stack.top(), &answer, &both);
  return time_batches(load.turn_ns, [&both](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      fiber::swap_context(both.there, [&both](fiber::Continuation saved) -> void* {
        both.here = saved;
        return &both;
      });
    }
  });
}

Sample fork_join_turn(const Load& load) {
  return inside(load, [&load](const CratonFibers&) {
    return time_fib<CratonFork>(load.turn_ns, fib_of_turn(load.turn_ns));
  });
}

template <typename Mutex, std::uint64_t YieldsEvery = 0>
Sample mutex_turn(const Load& load) {
  return inside(load, [&load](const CratonFibers& fibers) {
    return time_mutex<Mutex, YieldsEvery>(fibers, load.turn_ns, sections_of_fibers);
  });
}

Sample barrier_turn(const Load& load) {
  return inside(load,
                [&load](const CratonFibers& fibers) { return time_barrier(fibers, load.turn_ns, 500); });
}

Sample yield_turn(const Load& load) {
  return inside(load, [&load](const CratonFibers& fibers) { return time_yield(fibers, load.turn_ns); });
}

template <typename Mutex>
Sample uncontended_mutex_turn(const Load& load) {
  return inside(load, [&load](const CratonFibers&) { return time_uncontended_mutex<Mutex>(load.turn_ns); });
}

}  // namespace

std::vector<Way> craton_ways() {
  constexpr std::string_view mcs = "craton McsMutex";
  return {
      {Workload::context_switch, "craton", switch_turn},
      {Workload::fork_join, "craton", fork_join_turn},
      {Workload::mutex, "craton", mutex_turn<fiber::Mutex>},
      {Workload::mutex, mcs, mutex_turn<fiber::McsMutex>},
      {Workload::yielding_mutex, "craton", mutex_turn<fiber::Mutex, yields_every>},
      {Workload::yielding_mutex, mcs, mutex_turn<fiber::McsMutex, yields_every>},
      {Workload::barrier, "craton", barrier_turn},
      {Workload::yield, "craton", yield_turn},
      {Workload::uncontended_mutex, "craton", uncontended_mutex_turn<fiber::Mutex>},
      {Workload::uncontended_mutex, mcs, uncontended_mutex_turn<fiber::McsMutex>},
  };
}

}  // namespace craton::bench
