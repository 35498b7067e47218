#include "posix/atomics/trap.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace craton::posix {
namespace {

/// The sites of one object, by address. A list that only grows, read by signal handlers.
struct Sites {
  std::vector<const SiteRecord*> records;
  const Sites* next = nullptr;
};
constinit std::atomic<const Sites*> all_sites{nullptr};
struct sigaction before {};
std::atomic<struct sigaction (*)(int)> kept_action{nullptr};  ///< see pass_traps_on_to

const SiteRecord* find_site(std::uintptr_t address) noexcept {
  for (const Sites* sites = all_sites.load(std::memory_order_acquire); sites != nullptr;
       sites = sites->next) {
    const auto found = std::lower_bound(
        sites->records.begin(), sites->records.end(), address,
        [](const SiteRecord* record, std::uintptr_t value) { return record->address < value; });
    if (found != sites->records.end() && (*found)->address == address) return *found;
  }
  return nullptr;
}

/// Where the kernel saves the registers, by their numbers in instructions.
constexpr std::array<int, general_registers> saved_at = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                                         REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                         REG_R12, REG_R13, REG_R14, REG_R15};

void serve(const SiteRecord& site, gregset_t& saved) noexcept {
  Registers registers{};
  for (std::size_t i = 0; i < general_registers; ++i)
    registers.general[i] = static_cast<std::uint64_t>(saved[saved_at[i]]);
  registers.flags = static_cast<std::uint64_t>(saved[REG_EFL]);
  if (site.kind == SiteKind::look) {
    serve_look(site, registers);
    if (site.perform == nullptr) {
      saved[REG_RIP] = static_cast<greg_t>(site.copy);
      return;
    }
  } else if (site.kind == SiteKind::flush) {
    site.shared->hooks.flush();
    if (site.perform == nullptr) {
      __builtin_ia32_mfence();
    } else {
      PerformState state{.before = registers, .after = registers};
      site.perform(&state, reinterpret_cast<void*>(address_of(site.operand, registers)));
      registers = state.after;
    }
  } else {
    serve_atomic(site, registers);
  }
  for (std::size_t i = 0; i < general_registers; ++i)
    saved[saved_at[i]] = static_cast<greg_t>(registers.general[i]);
  saved[REG_EFL] = static_cast<greg_t>(registers.flags);
  const std::uintptr_t next = site.address + site.length;
  saved[REG_RIP] = static_cast<greg_t>(next);
}

void pass_on(int signal, siginfo_t* info, ucontext_t* context) {
  const auto kept = kept_action.load(std::memory_order_acquire);
  const struct sigaction next = kept != nullptr ? kept(signal) : before;
  const bool takes_info = (next.sa_flags & SA_SIGINFO) != 0;
  if (!takes_info && next.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (!takes_info && (next.sa_handler == SIG_DFL || next.sa_handler == SIG_IGN)) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
    ::raise(signal);  // a breakpoint does not come again by itself
    return;
  }
  // With the mask with which the kernel would have called it.
  sigset_t blocked = next.sa_mask;
  if ((next.sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, signal);
  sigset_t mask;
  ::pthread_sigmask(SIG_BLOCK, &blocked, &mask);
  if (takes_info) {
    next.sa_sigaction(signal, info, context);
  } else {
    next.sa_handler(signal);
  }
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

void on_trap(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  auto* const user = static_cast<ucontext_t*>(context);
  gregset_t& saved = user->uc_mcontext.gregs;
  // Behind the breakpoint, which is one byte.
  const SiteRecord* const site =
      info->si_code > 0 ? find_site(static_cast<std::uintptr_t>(saved[REG_RIP]) - 1) : nullptr;
  if (site != nullptr) {
    // As it was, in case that a handler above ours (a sanitizer's, say) was installed with another mask. The
    // kernel's own call, which takes its part of the set. Returning from the signal sets the mask anyway.
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &user->uc_sigmask, nullptr, sizeof(std::uint64_t));
    serve(*site, saved);
  } else {
    pass_on(signal, info, user);
  }
  errno = error;
}

void install() {
  struct sigaction now {};
  if (::sigaction(SIGTRAP, nullptr, &now) != 0)
    throw Error::from_errno("cannot look at the handler of SIGTRAP", errno);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_trap) return;
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  before = now;
  if (::sigaction(SIGTRAP, &action, nullptr) != 0)
    throw Error::from_errno("cannot install a handler of SIGTRAP", errno);
}

}  // namespace

void pass_traps_on_to(struct sigaction (*action)(int signal)) {
  kept_action.store(action, std::memory_order_release);
}

void catch_traps(std::vector<const SiteRecord*> sites) {
  std::sort(sites.begin(), sites.end(),
            [](const SiteRecord* left, const SiteRecord* right) { return left->address < right->address; });
  install();
  // Never destroyed: the breakpoints stay.
  all_sites.store(new Sites{std::move(sites), all_sites.load(std::memory_order_relaxed)},
                  std::memory_order_release);
}

}  // namespace craton::posix
