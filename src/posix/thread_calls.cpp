// What programs call for threads, of this rank or another (threads.hpp). The stacks of threads are free again
// when these have been joined.
#include <pthread.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/processors.hpp"
#include "omp/runtime.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/monitor.hpp"
#include "posix/needs.hpp"
#include "posix/real.hpp"
#include "posix/synchronised.hpp"
#include "posix/threads.hpp"

namespace {

using craton::no_deadline;
using craton::TimeNs;
using craton::posix::are_processors_of_others;
using craton::posix::deadline_of;
using craton::posix::is_time;
using craton::posix::monitor;
using craton::posix::Name;
using craton::posix::Results;
using craton::posix::shared_program;
using craton::posix::Threads;
using craton::posix::threads;
using craton::posix::Value;
using craton::posix::Values;
using Kind = Threads::Kind;

int let_go(pthread_t thread, int error) noexcept {
  if (error == 0 && shared_program() != nullptr) shared_program()->stacks().let_go(thread);
  return error;
}

/// Asks the rank of a thread, where that is another one.
std::optional<Threads::Answer> ask_owner(pthread_t thread, Threads::Request request) noexcept {
  Threads* const running = threads();
  const auto owner = running == nullptr ? std::nullopt : running->other_owner(thread);
  if (!owner) return std::nullopt;
  request.thread = thread;
  return running->ask(*owner, request);
}

/// \param ask has its rank join a thread of another rank
/// \param real the C library's function, for a thread of this rank
template <typename Ask, typename Real>
int join(pthread_t thread, void** result, Ask ask, Real real) {
  Threads* const running = threads();
  const auto owner = running == nullptr ? std::nullopt : running->other_owner(thread);
  if (!owner) return let_go(thread, real());
  const Threads::Answer answer = ask(*running, *owner);
  if (answer.error != 0) return answer.error;
  monitor()->inside(reinterpret_cast<const void*>(thread), [] {});  // learns what the thread wrote
  if (result != nullptr) *result = reinterpret_cast<void*>(answer.result);
  return 0;
}

template <typename Real>
int join_until(pthread_t thread, void** result, clockid_t clock, const timespec* until, Real real) {
  const auto ask = [&](Threads& running, craton::fabric::Rank owner) -> Threads::Answer {
    TimeNs patience_ns = no_deadline;
    if (until != nullptr) {
      if (!is_time(clock, *until)) return {.error = EINVAL};
      const TimeNs deadline_ns = deadline_of(clock, until);
      if (deadline_ns != no_deadline) patience_ns = std::max<TimeNs>(deadline_ns - monitor()->now_ns(), 0);
    }
    return running.ask_to_join(owner, {.kind = Kind::join, .thread = thread, .number = patience_ns});
  };
  return join(thread, result, ask, real);
}

/// How many threads run at a time, where those that the program starts run on all ranks; else 0.
long processors_of_all() noexcept {
  Threads* const running = threads();
  if (running == nullptr || !running->is_spread()) return 0;
  return static_cast<long>(craton::omp::runtime()->default_threads());
}

/// Programs also count the processors that they may use. Those of other ranks have numbers that none has
/// here.
int first_processor_of_others() noexcept {
  static const int first = CRATON_REAL(get_nprocs_conf)();
  return first;
}

/// To what a thread may use that is not bound to some. \param mask of so many bytes
void add_processors_of_others(std::size_t bytes, cpu_set_t* mask) noexcept {
  const int own = CPU_COUNT_S(bytes, mask);
  long missing = processors_of_all() - own;
  if (missing <= 0 || static_cast<std::size_t>(own) < craton::processors().size()) return;
  for (auto number = static_cast<std::size_t>(first_processor_of_others()); number < bytes * 8; ++number) {
    CPU_SET_S(number, bytes, mask);
    if (--missing == 0) return;
  }
}

}  // namespace

namespace craton::posix {

bool are_processors_of_others(std::size_t bytes, const cpu_set_t* mask) noexcept {
  const auto first = static_cast<std::size_t>(first_processor_of_others());
  bool has_some = false;
  for (std::size_t number = 0; number < bytes * 8; ++number) {
    if (!CPU_ISSET_S(number, bytes, mask)) continue;
    if (number < first) return false;
    has_some = true;
  }
  return has_some && processors_of_all() != 0;
}

int bind_thread(pthread_t thread, std::size_t bytes, const cpu_set_t* mask) noexcept {
  const int error = CRATON_REAL(pthread_setaffinity_np)(thread, bytes, mask);
  return error == EINVAL && are_processors_of_others(bytes, mask) ? 0 : error;
}

}  // namespace craton::posix

extern "C" {

[[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                  void* (*body)(void*), void* argument) {
  if (shared_program() == nullptr) return CRATON_REAL(pthread_create)(thread, attributes, body, argument);
  if (attributes != nullptr) shared_program()->stacks().tell_smaller(*attributes);
  Threads* const running = threads();
  if (running == nullptr) return shared_program()->stacks().start(thread, attributes, body, argument);
  return running->create(thread, attributes, body, argument);
}

[[gnu::visibility("default")]] int pthread_join(pthread_t thread, void** result) {
  return join_until(thread, result, CLOCK_MONOTONIC, nullptr,
                    [&] { return CRATON_REAL(pthread_join)(thread, result); });
}

[[gnu::visibility("default")]] int pthread_tryjoin_np(pthread_t thread, void** result) noexcept {
  const auto ask = [&](Threads& running, craton::fabric::Rank owner) {
    return running.ask(owner, {.kind = Kind::join, .thread = thread, .number = 0});
  };
  const int error =
      join(thread, result, ask, [&] { return CRATON_REAL(pthread_tryjoin_np)(thread, result); });
  return error == ETIMEDOUT ? EBUSY : error;
}

[[gnu::visibility("default")]] int pthread_timedjoin_np(pthread_t thread, void** result,
                                                        const timespec* until) {
  return join_until(thread, result, CLOCK_REALTIME, until,
                    [&] { return CRATON_REAL(pthread_timedjoin_np)(thread, result, until); });
}

[[gnu::visibility("default")]] int pthread_clockjoin_np(pthread_t thread, void** result, clockid_t clock,
                                                        const timespec* until) {
  return join_until(thread, result, clock, until,
                    [&] { return CRATON_REAL(pthread_clockjoin_np)(thread, result, clock, until); });
}

[[gnu::visibility("default")]] int pthread_detach(pthread_t thread) noexcept {
  if (const auto answer = ask_owner(thread, {.kind = Kind::detach})) return answer->error;
  return let_go(thread, CRATON_REAL(pthread_detach)(thread));
}

[[gnu::visibility("default")]] int pthread_cancel(pthread_t thread) {
  if (const auto answer = ask_owner(thread, {.kind = Kind::cancel})) return answer->error;
  return craton::posix::cancel_here(thread);
}

[[gnu::visibility("default")]] int pthread_kill(pthread_t thread, int signal) {
  if (const auto answer = ask_owner(thread, {.kind = Kind::signal, .number = signal})) return answer->error;
  return CRATON_REAL(pthread_kill)(thread, signal);
}

[[gnu::visibility("default")]] int pthread_sigqueue(pthread_t thread, int signal, const sigval value) {
  Threads::Request request{.kind = Kind::queue, .number = signal};
  Threads::put(request.bytes, value);
  if (const auto answer = ask_owner(thread, request)) return answer->error;
  return CRATON_REAL(pthread_sigqueue)(thread, signal, value);
}

[[gnu::visibility("default")]] int pthread_setname_np(pthread_t thread, const char* name) {
  Threads::Request request{.kind = Kind::name};
  std::strncpy(reinterpret_cast<char*>(request.bytes.data()), name, request.bytes.size() - 1);
  if (const auto answer = ask_owner(thread, request)) return answer->error;
  return CRATON_REAL(pthread_setname_np)(thread, Name(name));
}

[[gnu::visibility("default")]] int pthread_getname_np(pthread_t thread, char* name, std::size_t bytes) {
  const auto answer = ask_owner(thread, {.kind = Kind::get_name});
  if (!answer) return CRATON_REAL(pthread_getname_np)(thread, name, bytes);
  if (answer->error != 0) return answer->error;
  const char* const found = reinterpret_cast<const char*>(answer->bytes.data());
  if (std::strlen(found) >= bytes) return ERANGE;
  std::memcpy(name, found, std::strlen(found) + 1);
  return 0;
}

/// The guards of stacks are Craton's, and the C library knows of none. Rust's library does not run without.
[[gnu::visibility("default")]] int pthread_getattr_np(pthread_t thread, pthread_attr_t* attributes) noexcept {
  const int error = CRATON_REAL(pthread_getattr_np)(thread, attributes);
  if (error != 0 || shared_program() == nullptr) return error;
  void* begin = nullptr;
  std::size_t bytes = 0;
  ::pthread_attr_getstack(attributes, &begin, &bytes);
  if (shared_program()->stack_segment().contains(begin))
    ::pthread_attr_setguardsize(attributes, craton::posix::guard_bytes);
  return 0;
}

[[gnu::visibility("default")]] int pthread_setaffinity_np(pthread_t thread, std::size_t bytes,
                                                          const cpu_set_t* mask) {
  Threads::Request request{.kind = Kind::affinity};
  std::memcpy(request.bytes.data(), mask, std::min(bytes, sizeof(cpu_set_t)));
  if (const auto answer = ask_owner(thread, request)) return answer->error;
  return craton::posix::bind_thread(thread, bytes, Values(mask, bytes));
}

[[gnu::visibility("default")]] int pthread_getaffinity_np(pthread_t thread, std::size_t bytes,
                                                          cpu_set_t* mask) {
  const auto answer = ask_owner(thread, {.kind = Kind::get_affinity});
  const Results here(mask, bytes);
  int error = 0;
  if (!answer) {
    error = CRATON_REAL(pthread_getaffinity_np)(thread, bytes, here);
  } else {
    error = answer->error;
    if (error == 0) {
      std::memset(static_cast<void*>(here), 0, bytes);
      std::memcpy(static_cast<void*>(here), answer->bytes.data(), std::min(bytes, sizeof(cpu_set_t)));
    }
  }
  if (error == 0) add_processors_of_others(bytes, here);
  return error;
}

[[gnu::visibility("default")]] int sched_getaffinity(pid_t process, std::size_t bytes,
                                                     cpu_set_t* mask) noexcept {
  const Results here(mask, bytes);
  const int result = CRATON_REAL(sched_getaffinity)(process, bytes, here);
  if (result == 0 && (process == 0 || process == ::getpid() || process == ::gettid()))
    add_processors_of_others(bytes, here);
  return result;
}

[[gnu::visibility("default")]] int sched_setaffinity(pid_t process, std::size_t bytes,
                                                     const cpu_set_t* mask) noexcept {
  const Values here(mask, bytes);
  const int before = errno;
  const int result = CRATON_REAL(sched_setaffinity)(process, bytes, here);
  if (result == 0 || errno != EINVAL || !are_processors_of_others(bytes, here)) return result;
  errno = before;
  return 0;
}

[[gnu::visibility("default")]] int pthread_setschedparam(pthread_t thread, int policy,
                                                         const sched_param* parameters) {
  Threads::Request request{.kind = Kind::schedule, .number = policy};
  Threads::put(request.bytes, *parameters);
  if (const auto answer = ask_owner(thread, request)) return answer->error;
  return CRATON_REAL(pthread_setschedparam)(thread, policy, Value(parameters));
}

[[gnu::visibility("default")]] int pthread_getschedparam(pthread_t thread, int* policy,
                                                         sched_param* parameters) {
  const auto answer = ask_owner(thread, {.kind = Kind::get_schedule});
  if (!answer) return CRATON_REAL(pthread_getschedparam)(thread, policy, parameters);
  if (answer->error != 0) return answer->error;
  *policy = static_cast<int>(answer->result);
  *parameters = Threads::get<sched_param>(answer->bytes);
  return 0;
}

[[gnu::visibility("default")]] int pthread_setschedprio(pthread_t thread, int priority) {
  if (const auto answer = ask_owner(thread, {.kind = Kind::priority, .number = priority}))
    return answer->error;
  return CRATON_REAL(pthread_setschedprio)(thread, priority);
}

// ---- How many threads programs start is often what they find here.

[[gnu::visibility("default")]] long sysconf(int name) {
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) {
    if (const long all = processors_of_all(); all != 0) return all;
  }
  return CRATON_REAL(sysconf)(name);
}

[[gnu::visibility("default")]] int get_nprocs() {
  const long all = processors_of_all();
  return all != 0 ? static_cast<int>(all) : CRATON_REAL(get_nprocs)();
}

[[gnu::visibility("default")]] int get_nprocs_conf() {
  const long all = processors_of_all();
  return all != 0 ? static_cast<int>(all) : CRATON_REAL(get_nprocs_conf)();
}

}  // extern "C"
