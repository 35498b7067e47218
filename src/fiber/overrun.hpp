/// \file
/// Naming the fiber that overran its stack. The process-wide part (SIGSEGV has one handler) is here; it
/// forwards to the stack pools of the runtimes that there are, and what is no overrun to the handler that was
/// there before.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "fiber/stack.hpp"

namespace craton::fiber {

struct OverrunDescription {
  const char* name;  ///< null if it has none
  std::uint64_t id;
};

namespace detail {

struct OverrunSource {
  const StackPool* pool = nullptr;
  OverrunDescription (*describe)(std::byte* top) noexcept = nullptr;
};

inline constexpr std::size_t max_overrun_sources = 64;  ///< runtimes; more are not looked at
struct OverrunState {
  std::array<std::atomic<const OverrunSource*>, max_overrun_sources> sources;
  struct sigaction before;
};
inline OverrunState& overrun_state() noexcept {
  static OverrunState state{};
  return state;
}

/// A line put together without allocation.
class OverrunLine {
 public:
  OverrunLine& operator<<(const char* text) noexcept {
    while (*text != '\0' && used_ < sizeof text_) text_[used_++] = *text++;
    return *this;
  }
  OverrunLine& operator<<(std::uint64_t number) noexcept {
    char digits[21];
    char* at = digits + 20;
    *at = '\0';
    do {
      *--at = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return *this << at;
  }
  void write() const noexcept { [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_, used_); }

 private:
  char text_[256];
  std::size_t used_ = 0;
};

inline void on_fault(int signal, siginfo_t* info, void* context) {
  OverrunState& state = overrun_state();
  for (const auto& each : state.sources) {
    const OverrunSource* const source = each.load(std::memory_order_acquire);
    if (source == nullptr) continue;
    std::byte* const top = source->pool->overrun(info->si_addr);
    if (top == nullptr) continue;
    const OverrunDescription fiber = source->describe(top);
    OverrunLine line;
    line << "fiber " << fiber.id;
    if (fiber.name != nullptr) line << " (" << fiber.name << ")";
    line << " overran its stack of " << source->pool->stack_bytes()
         << " bytes; raise StackOptions::stack_bytes\n";
    line.write();
    break;
  }
  if ((state.before.sa_flags & SA_SIGINFO) != 0) {
    state.before.sa_sigaction(signal, info, context);
  } else if (state.before.sa_handler != SIG_DFL && state.before.sa_handler != SIG_IGN) {
    state.before.sa_handler(signal);
  } else {
    // Where the instruction is done again it faults again, and the kernel does what it would have done.
    ::sigaction(signal, &state.before, nullptr);
    if (info->si_code <= 0) ::raise(signal);  // somebody sent it: no instruction will
  }
}

}  // namespace detail

/// While one exists, an overrun of a stack of the pool prints a line on standard error that names the fiber;
/// then the signal goes where it went before, which ends the program.
class OverrunReport {
 public:
  OverrunReport(const StackPool& pool, OverrunDescription (*describe)(std::byte* top) noexcept)
      : source_(std::make_unique<detail::OverrunSource>(detail::OverrunSource{&pool, describe})) {
    install();
    for (auto& each : detail::overrun_state().sources) {
      const detail::OverrunSource* none = nullptr;
      if (each.compare_exchange_strong(none, source_.get(), std::memory_order_release)) return;
    }
  }
  OverrunReport(const OverrunReport&) = delete;
  OverrunReport& operator=(const OverrunReport&) = delete;
  ~OverrunReport() {
    for (auto& each : detail::overrun_state().sources) {
      const detail::OverrunSource* own = source_.get();
      if (each.compare_exchange_strong(own, nullptr)) return;
    }
  }

 private:
  static void install() noexcept {
    static const bool once = [] {
      struct sigaction action {};
      action.sa_sigaction = &detail::on_fault;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      ::sigemptyset(&action.sa_mask);
      return ::sigaction(SIGSEGV, &action, &detail::overrun_state().before) == 0;
    }();
    static_cast<void>(once);
  }

  std::unique_ptr<detail::OverrunSource> source_;
};

/// A stack for signal handlers on the calling kernel thread, since the one that overran has no room, if there
/// is none.
class AlternateStack {
 public:
  explicit AlternateStack(bool wanted) {
    stack_t before{};
    if (!wanted || ::sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
    memory_ = std::make_unique<std::byte[]>(bytes);
    stack_t own{};
    own.ss_sp = memory_.get();
    own.ss_size = bytes;
    ::sigaltstack(&own, nullptr);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;
  ~AlternateStack() {
    if (memory_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
  }

 private:
  static constexpr std::size_t bytes = std::size_t{64} * 1024;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace craton::fiber
