/// \file
/// What a kernel thread needs to touch segments at its best: a stack of its own for the handler of faults.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace craton::vm {

/// While one exists, faults of the calling kernel thread are handled on an alternate stack with a guard page
/// below it. Without one they are handled on the stack that the thread is on: that works too, unless that
/// stack lies in a segment itself (the kernel cannot deliver the signal there, and kills) or has little room
/// left. Scopes nest. A scope that another thread ends leaves its thread the stack, for the life of the
/// process; fibers that move between threads hold none.
class ThreadScope {
 public:
  /// Room for fault_depth_most nested signal frames and the protocol's calls in each, 256 KiB, and for the
  /// program's own handlers, which run there too. What is not used costs addresses only.
  static constexpr std::size_t stack_bytes = std::size_t{2} * 1024 * 1024;

  /// \throws Error out_of_resources
  ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  /// The alternate stack is again what it was before, unless somebody has replaced ours meanwhile.
  ~ThreadScope();

 private:
  pid_t thread_ = 0;             // whose it is, as the kernel counts
  std::byte* memory_ = nullptr;  // null: there was a stack that is large enough
  std::size_t memory_bytes_ = 0;
  void* before_ = nullptr;
  std::size_t before_bytes_ = 0;
  int before_flags_ = 0;
};

}  // namespace craton::vm
