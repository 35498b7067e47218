#include "posix/monitor.hpp"

#include <algorithm>
#include <climits>

#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/signal_section.hpp"
#include "posix/remote_files.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId monitor_handler = fabric::max_handlers - 3;
/// A wake-up is never lost; this is for ranks that die meanwhile.
constexpr TimeNs longest_sleep_ns = 100'000'000;

std::atomic<Monitor*> running_monitor{nullptr};

}  // namespace

Monitor* monitor() noexcept {
  return running_monitor.load(std::memory_order_acquire);
}

TimeNs deadline_after(const timespec& length) noexcept {
  TimeNs deadline_ns = 0;
  if (__builtin_mul_overflow(length.tv_sec, TimeNs{1'000'000'000}, &deadline_ns) ||
      __builtin_add_overflow(deadline_ns, length.tv_nsec, &deadline_ns) ||
      __builtin_add_overflow(deadline_ns, monitor()->now_ns(), &deadline_ns))
    return length.tv_sec < 0 ? 0 : no_deadline;  // for ever, as programs say it
  return deadline_ns;
}

TimeNs deadline_of(clockid_t clock, const timespec* until) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  timespec left{.tv_sec = 0, .tv_nsec = until->tv_nsec - now.tv_nsec};
  if (__builtin_sub_overflow(until->tv_sec, now.tv_sec, &left.tv_sec)) return 0;
  return deadline_after(left);
}

void start_monitor(SharedProgram& program) {
  if (program.fabric().size() > 1)
    running_monitor.store(new Monitor(program, monitor_handler), std::memory_order_release);
}

Monitor::Monitor(SharedProgram& program, fabric::HandlerId handler) : program_(program), handler_(handler) {
  program_.fabric().set_handler(handler_, &Monitor::arrived, this);
}

void Monitor::inside(const void* object, FunctionRef<void()> step) {
  const SignalSection section;
  try {
    space::Mutexes& mutexes = program_.space().mutexes();
    const space::MutexId mutex = program_.mutex_of(object);
    send_what_waits();
    mutexes.lock(mutex);
    step();
    if (program_.others_run()) return mutexes.unlock(mutex);
    mutexes.unlock_unpublished(mutex);
  } catch (const Error& error) {
    program_.fail(error.what());
  }
}

bool Monitor::wait(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns) {
  for (;;) {
    const Slept slept = wait_once(object, step, deadline_ns);
    if (slept != Slept::woken) return slept == Slept::holds;
  }
}

Monitor::Slept Monitor::wait_once(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns) {
  const std::uint32_t seen = changes_.load(std::memory_order_acquire);
  bool holds = false;
  inside(object, [&] { holds = step(); });
  if (holds) return Slept::holds;
  const TimeNs now = now_ns();
  if (now >= deadline_ns) return Slept::timed_out;
  futex_wait(changes_, seen, std::min(deadline_ns, now + longest_sleep_ns));
  return Slept::woken;
}

void Monitor::changed() {
  wake_here();
  if (!program_.others_run()) return;
  fabric::Fabric& fabric = program_.fabric();
  for (fabric::Rank rank = 0; rank < fabric.size(); ++rank) {
    if (rank != fabric.rank()) static_cast<void>(fabric.send(rank, handler_, nullptr, 0));
  }
}

void Monitor::wake_here() noexcept {
  changes_.fetch_add(1, std::memory_order_acq_rel);
  futex_wake(changes_, INT_MAX);
}

void Monitor::arrived(void* self, fabric::Rank /*source*/, const std::byte* /*payload*/,
                      std::size_t /*bytes*/) noexcept {
  static_cast<Monitor*>(self)->wake_here();
}

}  // namespace craton::posix
