/// \file
/// Stacks for fibers: anonymous mappings whose lowest page is a guard, so that an overrun faults instead of
/// writing over a neighbour. Pages are allocated when they are first touched.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "base/error.hpp"
#include "fiber/sanitizer.hpp"

#if defined(CRATON_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace craton::fiber {

///   lowest                                               highest
///   | guard page (no access) | usable, grows downwards <- |
class Stack {
 public:
  /// \param usable_bytes rounded up to whole pages
  /// \throws Error out_of_resources
  explicit Stack(std::size_t usable_bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t usable = (usable_bytes + page - 1) / page * page;
    mapped_bytes_ = usable + page;
    guard_bytes_ = page;
    void* mapped = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapped == MAP_FAILED) throw cannot_map(errno);
    lowest_ = static_cast<std::byte*>(mapped);
    if (::mprotect(lowest_, guard_bytes_, PROT_NONE) != 0) {
      const int errno_value = errno;
      ::munmap(lowest_, mapped_bytes_);
      throw cannot_map(errno_value);
    }
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() {
#if defined(CRATON_FIBER_ASAN)
    // The frames that a fiber left for good are still marked, and whatever is mapped here next would inherit
    // that.
    __asan_unpoison_memory_region(lowest_, mapped_bytes_);
#endif
    ::munmap(lowest_, mapped_bytes_);
  }

  std::byte* bottom() const noexcept {
    return lowest_ + guard_bytes_;
  }
  std::size_t bytes() const noexcept {
    return mapped_bytes_ - guard_bytes_;
  }
  /// One past the highest byte; aligned to a page.
  std::byte* top() const noexcept {
    return lowest_ + mapped_bytes_;
  }

 private:
  Error cannot_map(int errno_value) const {
    return Error::from_errno("cannot map a fiber's stack of " + std::to_string(mapped_bytes_) + " bytes",
                             errno_value, "sysctl vm.max_map_count; ulimit -v",
                             "use fewer or smaller fibers");
  }

  std::byte* lowest_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t guard_bytes_ = 0;
};

}  // namespace craton::fiber
