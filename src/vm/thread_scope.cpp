#include "vm/thread_scope.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {

ThreadScope::ThreadScope() {
  stack_t before{};
  if (::sigaltstack(nullptr, &before) != 0)
    throw Error::from_errno("cannot look at the stack for signal handlers", errno);
  const bool there = (before.ss_flags & SS_DISABLE) == 0;
  // A handler that is on it cannot exchange it.
  if (there && (before.ss_size >= stack_bytes || (before.ss_flags & SS_ONSTACK) != 0)) return;
  const std::size_t guard_bytes = kernel::page_bytes();
  memory_bytes_ = guard_bytes + stack_bytes;
  void* const memory = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error::from_errno("cannot make a stack for the handler of faults", errno,
                            "sysctl vm.max_map_count; ulimit -v", "use fewer threads");
  }
  static_cast<void>(::madvise(memory, memory_bytes_, MADV_NOHUGEPAGE));  // which would be of 2 MiB at once
  memory_ = static_cast<std::byte*>(memory);
  stack_t own{};
  own.ss_sp = memory_ + guard_bytes;
  own.ss_size = stack_bytes;
  if (::mprotect(memory_, guard_bytes, PROT_NONE) != 0 || ::sigaltstack(&own, nullptr) != 0) {
    const int error = errno;
    ::munmap(memory_, memory_bytes_);
    throw Error::from_errno("cannot install a stack for the handler of faults", error,
                            "sysctl vm.max_map_count; getconf MINSIGSTKSZ");
  }
  thread_ = ::gettid();
  before_ = before.ss_sp;
  before_bytes_ = before.ss_size;
  before_flags_ = before.ss_flags;
}

ThreadScope::~ThreadScope() {
  if (memory_ == nullptr || thread_ != ::gettid()) return;  // only that thread could be given another one
  stack_t now{};
  ::sigaltstack(nullptr, &now);
  if (now.ss_sp == memory_ + kernel::page_bytes()) {
    stack_t before{};
    before.ss_sp = before_;
    before.ss_size = before_bytes_;
    before.ss_flags = before_flags_;
    if (::sigaltstack(&before, nullptr) != 0) return;  // this runs on it: keep it rather than crash
  }
  ::munmap(memory_, memory_bytes_);
}

}  // namespace craton::vm
