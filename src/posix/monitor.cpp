#include "posix/monitor.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"
#include "posix/remote_files.hpp"
#include "posix/signals.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId monitor_handler = fabric::max_handlers - 3;
/// A wake-up is never lost; this is for ranks that die meanwhile.
constexpr TimeNs longest_sleep_ns = 100'000'000;

std::atomic<Monitor*> running_monitor{nullptr};
constinit thread_local ThreadWaits waits_of_thread;

/// Objects lie in the space, whose mutexes order the program's memory; messages are the fabric's. While no
/// other rank runs code of the program, nothing is released and nobody told.
class ProgramHost final : public WaitHost {
 public:
  explicit ProgramHost(SharedProgram& program) noexcept : program_(program) {}

  fabric::Rank rank() const noexcept override { return program_.rank(); }
  fabric::Rank ranks() const noexcept override { return program_.fabric().size(); }
  bool is_near(fabric::Rank rank) const noexcept override {
    const fabric::Fabric& fabric = program_.fabric();
    return fabric.node_of(rank) == fabric.node_of(fabric.rank());
  }
  TimeNs now_ns() const noexcept override { return program_.fabric().clock().now_ns(); }

  void inside(const void* object, FunctionRef<void()> step) override {
    const KeptErrno kept;
    const SignalSection section;
    guarded(program_, [&] {
      const space::MutexId mutex = program_.mutex_of(object);
      send_what_waits();
      program_.space().mutexes().lock(mutex);
      step();
      program_.unlock(mutex);
    });
  }

  void learn_from(fabric::Rank rank) override {
    const KeptErrno kept;
    const SignalSection section;
    guarded(program_, [&] { program_.space().protocol().acquire(rank); });
  }

  void tell_others(const WaitMessage& message, FunctionRef<bool(fabric::Rank)> chosen) noexcept override {
    if (!program_.others_run()) return;
    fabric::Fabric& fabric = program_.fabric();
    for (fabric::Rank each = 0; each < fabric.size(); ++each)
      if (each != fabric.rank() && chosen(each))
        static_cast<void>(fabric.send(each, monitor_handler, &message, sizeof message));
  }

  void sleep(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
             TimeNs deadline_ns) noexcept override {
    const KeptErrno kept;
    futex_wait(word, expected, std::min(deadline_ns, now_ns() + longest_sleep_ns));
  }
  void wake(const std::atomic<std::uint32_t>& word) noexcept override { futex_wake(word, 1); }

  void look_for_lost_ranks() override {
    if (program_.fabric().lost_ranks() != 0)
      program_.fail("a rank is gone while threads of others wait for it");
  }

  pthread_t self() noexcept override { return ::pthread_self(); }
  void test_cancellation() override { ::pthread_testcancel(); }
  std::uint32_t interruptions() noexcept override { return posix::interruptions(); }
  ThreadWaits& of_thread() noexcept override { return waits_of_thread; }

 private:
  SharedProgram& program_;
};

void message_arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  WaitMessage message{};
  if (bytes != sizeof message) return;
  std::memcpy(&message, payload, sizeof message);
  static_cast<Monitor*>(self)->arrived(message, source);
}

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
  if (program.fabric().size() == 1) return;
  auto* const started = new Monitor(*new ProgramHost(program));
  program.fabric().set_handler(monitor_handler, &message_arrived, started);
  running_monitor.store(started, std::memory_order_release);
}

}  // namespace craton::posix
