/// \file
/// Synchronisation objects of the program (mutexes, conditions, semaphores, ...) that lie in memory which all
/// ranks share: each is a few words of state, in the object itself, that one thread of all ranks changes at a
/// time.
///
///     enter(object): a mutex of the space, by the object's address ─▶ look at the state, change it ─▶ leave
///     it does not hold yet: leave, sleep, and look again when somebody has said that the object changed
///
/// The space's mutex is what orders the program's memory: what a thread wrote before it left, the next one to
/// enter sees. Costs two atomic instructions and a release where the rank had the mutex last, else a
/// hand-over; wake-ups are a message to each rank, only where somebody waits. While no other rank runs code
/// of the program, nothing is released.
///
/// Threads: any of the program, not in signal handlers. Blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

class Monitor {
 public:
  /// Before the program starts. \param handler the same on all ranks
  Monitor(SharedProgram& program, fabric::HandlerId handler);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Calls `step` while no other thread of any rank is inside for the same object.
  void inside(const void* object, FunctionRef<void()> step);
  /// Calls `step` likewise until it returns true, sleeping in between until changed() is called.
  /// \param deadline_ns of the fabric's clock. \returns false if it has passed
  bool wait(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns = no_deadline);
  enum class Slept { holds, woken, timed_out };
  /// As wait(), but sleeps at most once: until the next changed(), or for no reason, for what is not only a
  /// matter of the object's state.
  Slept wait_once(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns);
  /// Who waits for anything looks again. After inside() has changed something that others wait for.
  void changed();

  TimeNs now_ns() const { return program_.fabric().clock().now_ns(); }

 private:
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void wake_here() noexcept;

  SharedProgram& program_;
  const fabric::HandlerId handler_;
  std::atomic<std::uint32_t> changes_{0};  ///< a futex
};

/// Of this process; null before the program has started, and where it has one rank only.
Monitor* monitor() noexcept;
/// Of the fabric's clock, where the program names a time of another. There must be a monitor.
TimeNs deadline_of(clockid_t clock, const timespec* until) noexcept;
/// The same, where it names a length of time from now on. More than the clock can count is no_deadline.
TimeNs deadline_after(const timespec& length) noexcept;
/// \throws Error
void start_monitor(SharedProgram& program);

}  // namespace craton::posix
