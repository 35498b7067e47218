#include "posix/joins.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/clock.hpp"
#include "posix/monitor.hpp"
#include "posix/own_thread.hpp"
#include "posix/real.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId joins_handler = fabric::max_handlers - 5;

std::atomic<Joins*> running_joins{nullptr};

Joins* joins() noexcept {
  return running_joins.load(std::memory_order_acquire);
}

const void* address_of(pthread_t thread) noexcept {
  return reinterpret_cast<const void*>(thread);
}

/// The real one. \returns 0 or an error number
int join_here(pthread_t thread, TimeNs patience_ns, void** result) noexcept {
  if (patience_ns == no_deadline) return CRATON_REAL(pthread_join)(thread, result);
  // Bounded, for the clock of the host that asks may be behind this one's.
  const TimeNs now_ns = SteadyClock().now_ns();
  const timespec until = timespec_of(now_ns + std::min(patience_ns, no_deadline - now_ns));
  return CRATON_REAL(pthread_clockjoin_np)(thread, result, CLOCK_MONOTONIC, &until);
}

}  // namespace

void start_joins(SharedProgram& program) {
  if (program.fabric().size() > 1)
    running_joins.store(new Joins(program, joins_handler), std::memory_order_release);
}

Joins::Joins(SharedProgram& program, fabric::HandlerId handler) : program_(program), handler_(handler) {
  program_.fabric().set_handler(handler_, &Joins::arrived, this);
}

std::optional<fabric::Rank> Joins::other_owner(pthread_t thread) const noexcept {
  const space::OwnedSegment& stacks = program_.stack_segment();
  if (!stacks.contains(address_of(thread))) return std::nullopt;
  const std::size_t offset = thread - reinterpret_cast<std::uintptr_t>(stacks.data());
  const auto owner = static_cast<fabric::Rank>(offset / stacks.part_bytes());
  return owner == program_.rank() ? std::nullopt : std::optional(owner);
}

int Joins::ask(fabric::Rank owner, Kind kind, pthread_t thread, TimeNs patience_ns, void** result) noexcept {
  Waiter waiter;
  const Message message{.kind = kind,
                        .error = 0,
                        .waiter = reinterpret_cast<std::uintptr_t>(&waiter),
                        .thread = thread,
                        .patience_ns = patience_ns,
                        .result = 0};
  fabric::Fabric& fabric = program_.fabric();
  static_cast<void>(fabric.send(owner, handler_, &message, sizeof message));
  const auto is_over = [&] { return waiter.is_answered.load() || fabric.lost_ranks() != 0; };
  static_cast<void>(fabric.wait_until(is_over, no_deadline));
  if (!waiter.is_answered.load()) program_.fail("the rank of a thread that is being joined is gone");
  if (waiter.error != 0) return waiter.error;
  monitor()->inside(address_of(thread), [] {});  // learns what the thread wrote
  if (result != nullptr) *result = waiter.result;
  return 0;
}

void Joins::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& here = *static_cast<Joins*>(self);
  Message message{};
  if (bytes != sizeof message) return;
  std::memcpy(&message, payload, sizeof message);
  if (message.kind != Kind::answer) return here.begin_to_serve(source, message);
  auto& waiter = *reinterpret_cast<Waiter*>(message.waiter);
  waiter.error = message.error;
  waiter.result = reinterpret_cast<void*>(message.result);
  waiter.is_answered.store(true);
  here.program_.fabric().notify();
}

/// On a thread of its own, since who calls a handler must not wait.
void Joins::begin_to_serve(fabric::Rank by, const Message& message) noexcept {
  auto asked = std::make_unique<Asked>(Asked{.self = *this, .by = by, .message = message});
  const int error = start_own_thread(&Joins::serve, asked.get());
  if (error != 0) return answer(by, message, error);
  static_cast<void>(asked.release());
}

void* Joins::serve(void* asked) noexcept {
  const std::unique_ptr<Asked> mine(static_cast<Asked*>(asked));
  Joins& self = mine->self;
  Message& message = mine->message;
  const auto thread = static_cast<pthread_t>(message.thread);
  void* result = nullptr;
  const int error = message.kind == Kind::detach ? CRATON_REAL(pthread_detach)(thread)
                                                 : join_here(thread, message.patience_ns, &result);
  if (error == 0) {
    self.program_.stacks().let_go(thread);
    monitor()->inside(address_of(thread), [] {});  // publishes what the thread wrote
  }
  message.result = reinterpret_cast<std::uintptr_t>(result);
  self.answer(mine->by, message, error);
  return nullptr;
}

void Joins::answer(fabric::Rank to, Message message, int error) noexcept {
  message.kind = Kind::answer;
  message.error = error;
  static_cast<void>(program_.fabric().send(to, handler_, &message, sizeof message));
}

}  // namespace craton::posix

// ---- What programs call. The stacks of threads are free again when these have been joined.

namespace {

using craton::no_deadline;
using craton::TimeNs;
using craton::posix::deadline_of;
using craton::posix::Joins;
using craton::posix::joins;
using craton::posix::monitor;
using craton::posix::shared_program;

int let_go(pthread_t thread, int error) noexcept {
  if (error == 0 && shared_program() != nullptr) shared_program()->stacks().let_go(thread);
  return error;
}

/// \param patience how long a join may take, asked only where there are other ranks
/// \param real the C library's function, for a thread of this rank
template <typename Patience, typename Real>
int join(pthread_t thread, void** result, Patience patience, Real real) {
  Joins* const running = joins();
  const auto owner = running == nullptr ? std::nullopt : running->other_owner(thread);
  if (!owner) return let_go(thread, real());
  return running->ask(*owner, Joins::Kind::join, thread, patience(), result);
}

TimeNs patience_until(clockid_t clock, const timespec* until) noexcept {
  if (until == nullptr) return no_deadline;
  const TimeNs deadline_ns = deadline_of(clock, until);
  if (deadline_ns == no_deadline) return no_deadline;
  return std::max<TimeNs>(deadline_ns - monitor()->now_ns(), 0);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int pthread_join(pthread_t thread, void** result) {
  return join(
      thread, result, [] { return no_deadline; }, [&] { return CRATON_REAL(pthread_join)(thread, result); });
}

[[gnu::visibility("default")]] int pthread_tryjoin_np(pthread_t thread, void** result) noexcept {
  const int error = join(
      thread, result, [] { return TimeNs{0}; },
      [&] { return CRATON_REAL(pthread_tryjoin_np)(thread, result); });
  return error == ETIMEDOUT ? EBUSY : error;
}

[[gnu::visibility("default")]] int pthread_timedjoin_np(pthread_t thread, void** result,
                                                        const timespec* until) {
  return join(
      thread, result, [&] { return patience_until(CLOCK_REALTIME, until); },
      [&] { return CRATON_REAL(pthread_timedjoin_np)(thread, result, until); });
}

[[gnu::visibility("default")]] int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock,
                                                        const timespec* until) {
  return join(
      thread, result, [&] { return patience_until(clock, until); },
      [&] { return CRATON_REAL(pthread_clockjoin_np)(thread, result, clock, until); });
}

[[gnu::visibility("default")]] int pthread_detach(pthread_t thread) noexcept {
  Joins* const running = joins();
  const auto owner = running == nullptr ? std::nullopt : running->other_owner(thread);
  if (!owner) return let_go(thread, CRATON_REAL(pthread_detach)(thread));
  return running->ask(*owner, Joins::Kind::detach, thread, no_deadline, nullptr);
}

}  // extern "C"
