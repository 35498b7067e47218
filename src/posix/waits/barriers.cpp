#include "posix/waits/barriers.hpp"

#include <cstdint>

#include "posix/waits/taking.hpp"

namespace craton::posix {

namespace {

struct Barrier {
  std::uint32_t arrived;
  std::uint32_t unused;
  std::uint32_t count;  ///< where pthread_barrier_init puts it
  std::uint32_t unused_too[3];
  std::uint64_t round;  ///< set by who comes first; before that any number
};

}  // namespace

// Who is let on looks at the barrier no more: it may be gone by then.
int wait(Monitor& monitor, pthread_barrier_t* object) {
  auto& barrier = state_of<Barrier>(object);
  Monitor::Turn turn(monitor, object);
  bool last = false;
  std::uint64_t round = 0;
  monitor.inside(object, [&] {
    if (barrier.arrived == 0) barrier.round = monitor.fresh_number();
    round = barrier.round;
    last = ++barrier.arrived == barrier.count;
    if (last)
      barrier.arrived = 0;
    else
      turn.enter(round);
  });
  if (last) {
    monitor.let_on(object, round, round + 1);
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  while (turn.sleep(no_deadline) == Monitor::Slept::woken) continue;
  turn.learn();
  return 0;
}

}  // namespace craton::posix
