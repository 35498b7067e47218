// dladdr(3) is an extension.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "vm/fault_state.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/line_writer.hpp"
#include "base/ring_log.hpp"

namespace craton::vm {
namespace {

constexpr unsigned lookup_limit_s = 10;

void append_address(LineWriter& line, const void* address) noexcept {
  line.append("0x");
  line.append_unsigned(reinterpret_cast<std::uintptr_t>(address), 16);
}

void append_distance(LineWriter& line, const char* name, const void* from, const void* to) noexcept {
  line.append(name);
  line.append("+0x");
  line.append_unsigned(reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from), 16);
}

/// "main+0x1c (./program+0x11c4)"; an instruction in no module is an address.
void append_instruction(LineWriter& line, const void* instruction) noexcept {
  // Another thread may hold the loader's lock and wait for this one.
  ::signal(SIGALRM, SIG_DFL);
  sigset_t alarm_only;
  ::sigemptyset(&alarm_only);
  ::sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  ::alarm(lookup_limit_s);
  Dl_info info{};
  const bool found = ::dladdr(instruction, &info) != 0;
  ::alarm(0);
  if (!found) {
    append_address(line, instruction);
    return;
  }
  if (info.dli_sname != nullptr) {
    append_distance(line, info.dli_sname, info.dli_saddr, instruction);
    line.append(" (");
  }
  append_distance(line, info.dli_fname, info.dli_fbase, instruction);
  if (info.dli_sname != nullptr) line.append(")");
}

void append_fault(LineWriter& line, const FaultRecord& record) noexcept {
  line.append(record.executes ? "jump to " : record.write ? "write to " : "read of ");
  append_address(line, record.address);
  if (record.segment == nullptr) {
    line.append(", which is in the address space of Craton but in no segment");
    return;
  }
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(record.address) -
                                reinterpret_cast<std::uintptr_t>(record.segment_begin);
  line.append(", segment \"");
  line.append(record.segment);
  line.append("\", offset ");
  line.append_unsigned(offset);
  line.append(", block ");
  line.append_unsigned(offset / record.block_bytes);
}

/// By the signal, as if nobody handled it. A core dump shows the fault below the frames of the handler.
[[noreturn]] void die_by(int signal) noexcept {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
  sigset_t mask;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), signal);
  ::_exit(128 + signal);
}

/// One thread prints and dies; the others die with it.
void claim_the_end() noexcept {
  static std::atomic<bool> dying{false};
  if (!dying.exchange(true)) return;
  for (;;) ::pause();
}

}  // namespace

ThreadFaults& thread_faults() noexcept {
  static thread_local ThreadFaults faults [[gnu::tls_model("initial-exec")]];
  return faults;
}

bool in_fault_handler() noexcept {
  return thread_faults().depth > 0;
}

void die_of_fault(const FaultRecord& record, std::string_view why) noexcept {
  claim_the_end();
  char buffer[1024];
  LineWriter line(buffer, sizeof buffer - 1);
  line.append("craton: ");
  if (record.rank >= 0) {
    line.append("rank ");
    line.append_signed(record.rank);
    line.append(": ");
  }
  append_fault(line, record);
  if (!why.empty()) {
    line.append(": ");
    line.append(why);
  }
  line.append("; by ");
  append_instruction(line, record.instruction);
  process_log().write({line.text()});
  buffer[line.text().size()] = '\n';
  write_fully(STDERR_FILENO, {buffer, line.text().size() + 1});
  die_by(record.signal);
}

void refuse_fault(std::string_view why) noexcept {
  const FaultRecord* const record = thread_faults().current;
  if (record != nullptr) die_of_fault(*record, why);
  claim_the_end();
  write_fully(STDERR_FILENO, "craton: ");
  write_fully(STDERR_FILENO, why);
  write_fully(STDERR_FILENO, "\n");
  std::abort();
}

}  // namespace craton::vm
