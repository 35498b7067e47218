#include "posix/signals.hpp"

#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/assert.hpp"
#include "base/signal_section.hpp"
#include "posix/descriptors.hpp"
#include "posix/everywhere.hpp"
#include "posix/foreign_memory.hpp"
#include "posix/kernel_memory.hpp"
#include "vm/fault_dispatcher.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
using CratonSignalHandler = void (*)(int);
int __sigaction(int signal, const struct sigaction* action, struct sigaction* before);
CratonSignalHandler bsd_signal(int signal, CratonSignalHandler handler);
CratonSignalHandler __sysv_signal(int signal, CratonSignalHandler handler) noexcept;
}
// NOLINTEND(readability-identifier-naming)

namespace craton::posix {

namespace {

constexpr int on_stack = SA_ONSTACK;

/// What the program has set. Written with the lock, read in handlers.
struct Action {
  std::atomic<std::uint32_t> version{0};  ///< odd while the action changes
  struct sigaction action {};

  void set(const struct sigaction& next) noexcept {
    version.fetch_add(1, std::memory_order_acq_rel);
    action = next;
    version.fetch_add(1, std::memory_order_release);
  }
  struct sigaction get() const noexcept {
    for (;;) {
      const std::uint32_t seen = version.load(std::memory_order_acquire);
      const struct sigaction copy = action;
      std::atomic_thread_fence(std::memory_order_acquire);
      if (seen % 2 == 0 && version.load(std::memory_order_relaxed) == seen) return copy;
    }
  }
};
/// Of a signal that the runtime keeps.
struct Kept : Action {
  std::atomic<int> signal{0};
};
std::array<Kept, 4> kept;
/// Of signals whose handlers wait while their thread is in the runtime: the kernel has run_or_keep_back().
std::array<Action, NSIG> waiting;
std::atomic_flag kept_lock = ATOMIC_FLAG_INIT;

/// Signals for which the program itself has asked for SA_ONSTACK, and for which siginterrupt(signal, 1) was
/// called.
std::atomic<std::uint64_t> asked_on_stack{0};
std::atomic<std::uint64_t> interrupts{0};

/// Of signals that must not be: what this thread believes to have blocked.
constinit thread_local std::uint64_t believed_blocked = 0;
/// What the program has named by sigaltstack.
constinit thread_local stack_t named_stack{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
/// The runtime's, once the program has named one.
constinit thread_local stack_t runtime_stack{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};

/// See interruptions().
constinit thread_local volatile std::uint32_t handlers_that_interrupt = 0;

std::uint64_t bit_of(int signal) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(signal - 1);
}

Kept* find_kept(int signal) noexcept {
  for (Kept& each : kept) {
    if (each.signal.load(std::memory_order_acquire) == signal) return &each;
  }
  return nullptr;
}

bool must_stay_open(int signal) noexcept {
  return signal == SIGSEGV || signal == SIGBUS || find_kept(signal) != nullptr;
}

/// Those of the signals in `set` that must not be blocked, which are taken out of it.
std::uint64_t take_open_signals(sigset_t& set) noexcept {
  std::uint64_t taken = 0;
  for (int signal = 1; signal < 32; ++signal) {
    if (!must_stay_open(signal) || ::sigismember(&set, signal) != 1) continue;
    ::sigdelset(&set, signal);
    taken |= bit_of(signal);
  }
  return taken;
}

void add(sigset_t& set, std::uint64_t signals) noexcept {
  for (int signal = 1; signal < 32; ++signal) {
    if ((signals & bit_of(signal)) != 0) ::sigaddset(&set, signal);
  }
}

/// Every signal of the thread waits: a handler may set handlers, too.
class AllBlocked {
 public:
  AllBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    static_cast<void>(take_open_signals(all));
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  AllBlocked(const AllBlocked&) = delete;
  AllBlocked& operator=(const AllBlocked&) = delete;
  ~AllBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// With all signals blocked.
class ActionLock {
 public:
  ActionLock() noexcept {
    while (kept_lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ActionLock(const ActionLock&) = delete;
  ActionLock& operator=(const ActionLock&) = delete;
  ~ActionLock() { kept_lock.clear(std::memory_order_release); }

 private:
  const AllBlocked blocked_;
};

/// What an instruction causes cannot wait for anything.
bool may_wait(int signal) noexcept {
  constexpr std::array cannot{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGKILL, SIGSTOP};
  return signal >= 1 && signal < NSIG && std::find(cannot.begin(), cannot.end(), signal) == cannot.end();
}

/// For the kernel, in place of the program's handler, in which the thread may be cancelled.
void run_or_keep_back(int signal, siginfo_t* info, void* context) {
  if (signal_section::keep_signal_back(signal, info, context)) return;
  const struct sigaction action = waiting[static_cast<std::size_t>(signal)].get();
  if ((static_cast<unsigned>(action.sa_flags) & static_cast<unsigned>(SA_RESETHAND)) != 0) {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    CRATON_REAL(sigaction)(signal, &usual, nullptr);
  }
  if ((action.sa_flags & SA_RESTART) == 0) handlers_that_interrupt = handlers_that_interrupt + 1;
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  action.sa_handler(signal);
}

bool is_handler(const struct sigaction& action) noexcept {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

int exchange_waiting(int signal, const struct sigaction* next, struct sigaction* before) noexcept {
  Action& own = waiting[static_cast<std::size_t>(signal)];
  const ActionLock lock;
  const struct sigaction old = own.get();
  struct sigaction now {};
  if (next != nullptr) {
    now = *next;
    if (is_handler(now)) {
      own.set(*next);
      now.sa_sigaction = &run_or_keep_back;
      now.sa_flags = static_cast<int>((static_cast<unsigned>(now.sa_flags) | unsigned{SA_SIGINFO}) &
                                      ~static_cast<unsigned>(SA_RESETHAND));
    }
  }
  struct sigaction was {};
  if (CRATON_REAL(sigaction)(signal, next == nullptr ? nullptr : &now, &was) != 0) {
    own.set(old);
    return -1;
  }
  const bool was_ours = (was.sa_flags & SA_SIGINFO) != 0 && was.sa_sigaction == &run_or_keep_back;
  if (before != nullptr) *before = was_ours ? old : was;
  return 0;
}

int exchange(int signal, const struct sigaction* next, struct sigaction* before) noexcept {
  if (signal == SIGSEGV || signal == SIGBUS) {
    if (vm::exchange_next_action(signal, next, before)) return 0;
  } else if (Kept* const own = find_kept(signal); own != nullptr) {
    const ActionLock lock;
    if (before != nullptr) *before = own->get();
    if (next != nullptr) own->set(*next);
    return 0;
  }
  if (may_wait(signal)) return exchange_waiting(signal, next, before);
  return CRATON_REAL(sigaction)(signal, next, before);
}

bool is_same(const struct sigaction& one, const struct sigaction& other) noexcept {
  constexpr int restorer = 0x04000000;                       // SA_RESTORER, the C library's own
  constexpr std::size_t mask_bytes = sizeof(std::uint64_t);  // that the kernel knows
  return one.sa_handler == other.sa_handler && (one.sa_flags & ~restorer) == (other.sa_flags & ~restorer) &&
         std::memcmp(&one.sa_mask, &other.sa_mask, mask_bytes) == 0;
}

/// Threads of all ranks raise what the program handles, and send it to themselves. Not so where a fault is
/// handled: the dispatcher's chain of handlers is not for messages to change.
int exchange_everywhere(int signal, const struct sigaction& next, struct sigaction* before) noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr || signal == SIGSEGV || signal == SIGBUS || signal == SIGCHLD)
    return exchange(signal, &next, before);
  // What is there already is often set again.
  if (exchange(signal, nullptr, before) == 0 && is_same(*before, next)) return 0;
  int result = 0;
  in_one_order([&] {
    result = exchange(signal, &next, before);
    if (result != 0 || is_same(*before, next)) return;
    const ActionChange change{.signal = signal, .action = next};
    others->make(Everywhere::Kind::action, &change, sizeof change);
  });
  return result;
}

int set_action(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
  if (shared_program() == nullptr) return CRATON_REAL(sigaction)(signal, action, before);
  struct sigaction next {};
  struct sigaction old {};
  if (action != nullptr) {
    next = *action;
    static_cast<void>(take_open_signals(next.sa_mask));
    next.sa_flags |= on_stack;
    put_explanation(signal, next);
  }
  if (action == nullptr) {
    if (exchange(signal, nullptr, &old) != 0) return -1;
  } else if (exchange_everywhere(signal, next, &old) != 0) {
    return -1;
  }
  const std::uint64_t bit = bit_of(signal);
  const bool asked = (asked_on_stack.load() & bit) != 0;
  if (action != nullptr) {
    if ((action->sa_flags & on_stack) != 0) {
      asked_on_stack.fetch_or(bit);
    } else {
      asked_on_stack.fetch_and(~bit);
    }
  }
  if (before != nullptr) {
    hide_explanation(signal, old);
    if (!asked) old.sa_flags &= ~on_stack;
    *before = old;
  }
  return 0;
}

CratonSignalHandler set_handler(int signal, CratonSignalHandler handler, int flags) noexcept {
  if (signal < 1 || signal >= NSIG || handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  if ((flags & SA_RESTART) != 0) ::sigaddset(&action.sa_mask, signal);
  return set_action(signal, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

int change_mask(int how, const sigset_t* set, sigset_t* before) noexcept {
  if (shared_program() == nullptr) return CRATON_REAL(pthread_sigmask)(how, set, before);
  sigset_t next;
  sigset_t old;
  std::uint64_t taken = 0;
  if (set != nullptr) {
    next = *set;
    taken = take_open_signals(next);
  }
  const int error = CRATON_REAL(pthread_sigmask)(how, set == nullptr ? nullptr : &next, &old);
  if (error != 0) return error;
  const std::uint64_t believed = believed_blocked;
  if (set != nullptr) {
    believed_blocked = how == SIG_BLOCK ? believed | taken : how == SIG_UNBLOCK ? believed & ~taken : taken;
  }
  if (before != nullptr) {
    add(old, believed);
    *before = old;
  }
  return 0;
}

/// Of sigsetmask() and sigblock(), which know no others. \returns those that were blocked
int change_bits(int how, int mask) noexcept {
  sigset_t next;
  sigset_t before;
  ::sigemptyset(&next);
  add(next, static_cast<std::uint32_t>(mask));
  if (const int error = change_mask(how, &next, &before); error != 0) {
    errno = error;
    return -1;
  }
  std::uint32_t blocked = 0;
  for (int signal = 1; signal < 32; ++signal)
    if (::sigismember(&before, signal) == 1) blocked |= static_cast<std::uint32_t>(bit_of(signal));
  return static_cast<int>(blocked);
}

}  // namespace

void keep_signal(int signal) noexcept {
  for (Kept& each : kept) {
    if (each.signal.load() != 0) continue;
    each.action.sa_handler = SIG_DFL;
    each.signal.store(signal);
    return;
  }
  CRATON_ASSERT(false);
}

bool set_action_as_told(const ActionChange& change) noexcept {
  return exchange(change.signal, &change.action, nullptr) == 0;
}

struct sigaction program_action(int signal) noexcept {
  const Kept* const own = find_kept(signal);
  struct sigaction none {};
  return own == nullptr ? none : own->get();
}

std::uint32_t interruptions() noexcept {
  return handlers_that_interrupt;
}

bool is_in_handler() noexcept {
  stack_t now{};
  return CRATON_REAL(sigaltstack)(nullptr, &now) != 0 || (now.ss_flags & SS_ONSTACK) != 0;
}

void begin_with_mask(const sigset_t& mask) noexcept {
  static_cast<void>(change_mask(SIG_SETMASK, &mask, nullptr));
}

Mask::Mask(const sigset_t* original) noexcept : used_(original) {
  if (original == nullptr || shared_program() == nullptr) return;
  copy_ = *original;
  static_cast<void>(take_open_signals(copy_));
  used_ = &copy_;
}

}  // namespace craton::posix

using craton::posix::Mask;
using craton::posix::may_fault;
using craton::posix::Result;
using craton::posix::shared_program;
using craton::posix::Value;

extern "C" {

// ---- Actions

[[gnu::visibility("default")]] int sigaction(int signal, const struct sigaction* action,
                                             struct sigaction* before) {
  return craton::posix::set_action(signal, action, before);
}
[[gnu::visibility("default")]] int __sigaction(int signal, const struct sigaction* action,
                                               struct sigaction* before) {
  return craton::posix::set_action(signal, action, before);
}

[[gnu::visibility("default")]] CratonSignalHandler signal(int signal, CratonSignalHandler handler) {
  const bool is_one = signal >= 1 && signal < NSIG;
  const bool interrupted = is_one && (craton::posix::interrupts.load() & craton::posix::bit_of(signal)) != 0;
  return craton::posix::set_handler(signal, handler, interrupted ? 0 : SA_RESTART);
}
[[gnu::visibility("default")]] CratonSignalHandler bsd_signal(int number, CratonSignalHandler handler) {
  return signal(number, handler);
}
[[gnu::visibility("default")]] CratonSignalHandler ssignal(int number, CratonSignalHandler handler) {
  return signal(number, handler);
}
// NOLINTNEXTLINE(readability-identifier-naming)
[[gnu::visibility("default")]] CratonSignalHandler __sysv_signal(int signal,
                                                                 CratonSignalHandler handler) noexcept {
  return craton::posix::set_handler(signal, handler, static_cast<int>(SA_RESETHAND) | SA_NODEFER);
}
[[gnu::visibility("default")]] CratonSignalHandler sysv_signal(int signal, CratonSignalHandler handler) {
  return __sysv_signal(signal, handler);
}

[[gnu::visibility("default")]] int siginterrupt(int signal, int interrupt) {
  struct sigaction action {};
  if (craton::posix::set_action(signal, nullptr, &action) != 0) return -1;
  if (interrupt != 0) {
    craton::posix::interrupts.fetch_or(craton::posix::bit_of(signal));
    action.sa_flags &= ~SA_RESTART;
  } else {
    craton::posix::interrupts.fetch_and(~craton::posix::bit_of(signal));
    action.sa_flags |= SA_RESTART;
  }
  return craton::posix::set_action(signal, &action, nullptr);
}

[[gnu::visibility("default")]] int sigignore(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_IGN;
  return craton::posix::set_action(signal, &action, nullptr);
}

[[gnu::visibility("default")]] CratonSignalHandler sigset(int number, CratonSignalHandler handler) {
  sigset_t one;
  sigset_t before;
  ::sigemptyset(&one);
  if (::sigaddset(&one, number) != 0) return SIG_ERR;
  struct sigaction old {};
  if (craton::posix::set_action(number, nullptr, &old) != 0) return SIG_ERR;
  if (handler != SIG_HOLD && craton::posix::set_handler(number, handler, 0) == SIG_ERR) return SIG_ERR;
  craton::posix::change_mask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &one, &before);
  return ::sigismember(&before, number) == 1 ? SIG_HOLD : old.sa_handler;
}

// ---- Masks

[[gnu::visibility("default")]] int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) {
  return craton::posix::change_mask(how, set, before);
}
[[gnu::visibility("default")]] int sigprocmask(int how, const sigset_t* set, sigset_t* before) {
  const int error = craton::posix::change_mask(how, set, before);
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}
[[gnu::visibility("default")]] int sighold(int signal) {
  sigset_t one;
  ::sigemptyset(&one);
  return ::sigaddset(&one, signal) != 0 ? -1 : sigprocmask(SIG_BLOCK, &one, nullptr);
}
[[gnu::visibility("default")]] int sigrelse(int signal) {
  sigset_t one;
  ::sigemptyset(&one);
  return ::sigaddset(&one, signal) != 0 ? -1 : sigprocmask(SIG_UNBLOCK, &one, nullptr);
}
/// Of signals that are a bit each.
[[gnu::visibility("default")]] int sigsetmask(int mask) {
  return craton::posix::change_bits(SIG_SETMASK, mask);
}
[[gnu::visibility("default")]] int sigblock(int mask) {
  return craton::posix::change_bits(SIG_BLOCK, mask);
}
CRATON_CALL(int, sigsuspend, (const sigset_t* mask), (Mask(mask)))
CRATON_CALL(int, sigpending, (sigset_t * set), (Result(set)))
CRATON_CALL(int, sigwait, (const sigset_t* set, int* signal), (Value(set), Result(signal)))
CRATON_CALL(int, sigwaitinfo, (const sigset_t* set, siginfo_t* information),
            (Value(set), Result(information)))
CRATON_CALL(int, sigtimedwait, (const sigset_t* set, siginfo_t* information, const timespec* timeout),
            (Value(set), Result(information), Value(timeout)))
[[gnu::visibility("default")]] int signalfd(int fd, const sigset_t* mask, int flags) {
  if (fd == -1) return craton::posix::descriptor_made(CRATON_REAL(signalfd)(fd, Value(mask), flags));
  // One that is there gets another mask, and keeps its number.
  const int here = craton::posix::descriptor_here(fd, "signalfd");
  return CRATON_REAL(signalfd)(here, Value(mask), flags) < 0 ? -1 : fd;
}

// ---- Stacks

[[gnu::visibility("default")]] int sigaltstack(const stack_t* stack, stack_t* before) {
  if (shared_program() == nullptr) return CRATON_REAL(sigaltstack)(stack, before);
  stack_t now{};
  if (CRATON_REAL(sigaltstack)(nullptr, &now) != 0) return -1;
  const bool is_on_it = (now.ss_flags & SS_ONSTACK) != 0;
  const stack_t named = craton::posix::named_stack;
  if (stack != nullptr) {
    constexpr int auto_disarm = static_cast<int>(1U << 31U);
    constexpr int known_flags = SS_DISABLE | SS_ONSTACK | auto_disarm;
    const bool is_none = (stack->ss_flags & SS_DISABLE) != 0;
    if ((stack->ss_flags & ~known_flags) != 0) {
      errno = EINVAL;
      return -1;
    }
    if (is_on_it) {
      errno = EPERM;
      return -1;
    }
    if (!is_none && stack->ss_size < static_cast<std::size_t>(MINSIGSTKSZ)) {
      errno = ENOMEM;
      return -1;
    }
    stack_t& runtime = craton::posix::runtime_stack;
    if (runtime.ss_sp == nullptr) runtime = now;
    const bool is_better = !is_none && stack->ss_size > runtime.ss_size && !may_fault(stack->ss_sp);
    if (CRATON_REAL(sigaltstack)(is_better ? stack : &runtime, nullptr) != 0) return -1;
    craton::posix::named_stack = *stack;
  }
  if (before != nullptr) {
    *before = named;
    if (is_on_it && (named.ss_flags & SS_DISABLE) == 0) before->ss_flags |= SS_ONSTACK;
  }
  return 0;
}

}  // extern "C"
