#include "posix/waits/semaphores.hpp"

#include <semaphore.h>

#include <cerrno>
#include <cstdint>

#include "base/scope_exit.hpp"
#include "posix/waits/taking.hpp"

namespace craton::posix {

namespace {

struct Semaphore {
  std::uint32_t value;    ///< where sem_init puts it
  std::uint32_t waiting;  ///< ranks, as WaitingTake has them
};

bool try_take(Semaphore& semaphore) {
  if (semaphore.value == 0) return false;
  --semaphore.value;
  return true;
}

}  // namespace

int take(Monitor& monitor, sem_t* object, TimeNs deadline_ns) {
  monitor.host().test_cancellation();
  const std::uint32_t interruptions_before = monitor.host().interruptions();
  auto& semaphore = state_of<Semaphore>(object);
  WaitingTake step(
      monitor, object, semaphore.waiting, [&] { return try_take(semaphore); },
      [&] { return semaphore.value != 0; });
  const ScopeExit end([&] {
    if (step.waits()) monitor.inside(object, [&] { step.stop(); });
    step.wake_next();
  });
  for (;;) {
    const Monitor::Slept slept = monitor.wait_once(object, step, deadline_ns);
    if (slept != Monitor::Slept::woken) return slept == Monitor::Slept::holds ? 0 : ETIMEDOUT;
    monitor.host().test_cancellation();
    if (monitor.host().interruptions() != interruptions_before) return EINTR;
  }
}

int take_if_there(Monitor& monitor, sem_t* object) {
  bool taken = false;
  monitor.inside(object, [&] { taken = try_take(state_of<Semaphore>(object)); });
  return taken ? 0 : EAGAIN;
}

int give(Monitor& monitor, sem_t* object) {
  auto& semaphore = state_of<Semaphore>(object);
  bool given = false;
  change_and_wake(monitor, object, semaphore.waiting, [&] {
    given = semaphore.value < SEM_VALUE_MAX;
    if (given) ++semaphore.value;
    return given ? Wakes::one : Wakes::nobody;
  });
  return given ? 0 : EOVERFLOW;
}

int value_of(Monitor& monitor, sem_t* object) {
  int value = 0;
  monitor.inside(object, [&] { value = static_cast<int>(state_of<Semaphore>(object).value); });
  return value;
}

}  // namespace craton::posix
