/// \file
/// Stacks for fibers. Pages are allocated when they are first touched; the lowest ones are a guard, so that
/// an overrun faults instead of writing over a neighbour.
///
///   a slab, one mapping:   | guard | stack, grows downwards <- | guard | stack <- | guard | ...
///
/// Where the kernel has MADV_GUARD_INSTALL (Linux 6.13) a guard costs no mapping, so stacks are limited by
/// memory alone; elsewhere a guard is mprotect'ed and splits the slab: two mappings a stack, of
/// vm.max_map_count (65530) in all.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "fiber/sanitizer.hpp"

namespace craton::fiber {

struct StackOptions {
  std::size_t stack_bytes = 64 * 1024;  ///< usable, rounded up to whole pages
  /// Below each stack, rounded up to whole pages. A function whose frame is larger can step over it, unless
  /// compiled with -fstack-clash-protection.
  std::size_t guard_bytes = 16 * 1024;
};

namespace detail {

inline std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}
inline std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

/// What std::system_error says, with the limit that was hit and what to do.
[[noreturn]] inline void throw_no_stacks(const char* asked, std::size_t bytes, int errno_value) {
  throw std::system_error(
      errno_value, std::generic_category(),
      std::string("cannot ") + asked + " " + std::to_string(bytes) +
          " bytes of fiber stacks (limits: sysctl vm.max_map_count, ulimit -v); use fewer or "
          "smaller stacks");
}

/// Makes `bytes` from `lowest` up fault when touched. \returns errno
inline int install_guard(std::byte* lowest, std::size_t bytes) noexcept {
  constexpr int guard_install = 102;  // MADV_GUARD_INSTALL, which older headers do not have
  if (bytes == 0 || ::madvise(lowest, bytes, guard_install) == 0) return 0;
  return ::mprotect(lowest, bytes, PROT_NONE) == 0 ? 0 : errno;
}

inline std::byte* map_stacks(std::size_t bytes) {
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED) throw_no_stacks("map", bytes, errno);
  // A huge page would hold many stacks that touch one small page each.
  ::madvise(mapped, bytes, MADV_NOHUGEPAGE);
  return static_cast<std::byte*>(mapped);
}

inline void unmap_stacks(std::byte* lowest, std::size_t bytes) noexcept {
#if defined(CRATON_FIBER_ASAN)
  // The frames that a fiber left for good are still marked, and whatever is mapped here next would inherit
  // that.
  __asan_unpoison_memory_region(lowest, bytes);
#endif
  ::munmap(lowest, bytes);
}

}  // namespace detail

/// One stack, with a mapping of its own.
class Stack {
 public:
  /// \throws std::system_error
  explicit Stack(std::size_t usable_bytes)
      : guard_bytes_(detail::page_bytes()),
        mapped_bytes_(detail::whole_pages(usable_bytes) + guard_bytes_),
        lowest_(detail::map_stacks(mapped_bytes_)) {
    if (const int error = detail::install_guard(lowest_, guard_bytes_); error != 0) {
      detail::unmap_stacks(lowest_, mapped_bytes_);
      detail::throw_no_stacks("guard", mapped_bytes_, error);
    }
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() { detail::unmap_stacks(lowest_, mapped_bytes_); }

  std::byte* bottom() const noexcept { return lowest_ + guard_bytes_; }
  std::size_t bytes() const noexcept { return mapped_bytes_ - guard_bytes_; }
  /// One past the highest byte; aligned to a page.
  std::byte* top() const noexcept { return lowest_ + mapped_bytes_; }

 private:
  std::size_t guard_bytes_;
  std::size_t mapped_bytes_;
  std::byte* lowest_;
};

/// Many stacks of one size, carved from slabs. Any thread; make() takes a lock and, where no stack was given
/// back, a system call or two, so workers take and give back many at a time. Stacks keep their memory until
/// the pool ends.
class StackPool {
 public:
  explicit StackPool(StackOptions options)
      : stack_bytes_(detail::whole_pages(std::max<std::size_t>(options.stack_bytes, 1))),
        guard_bytes_(detail::whole_pages(options.guard_bytes)),
        slab_stacks_(std::clamp<std::size_t>(slab_bytes / pitch(), 1, 4096)) {}
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (Slab* slab = newest_.load(); slab != nullptr;) {
      Slab* const older = slab->older;
      detail::unmap_stacks(slab->lowest, slab_stacks_ * pitch());
      delete slab;
      slab = older;
    }
  }

  std::size_t stack_bytes() const noexcept { return stack_bytes_; }
  /// The lowest byte of the stack with this top.
  std::byte* bottom(std::byte* top) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(top);
    return top + (detail::whole_pages(address) - address) - stack_bytes_;
  }

  /// Appends the tops (one past the highest byte to use, aligned to 128) of `count` stacks that were never
  /// used or were given back. \throws std::system_error, std::bad_alloc
  void take(std::size_t count, std::vector<std::byte*>& tops) {
    const std::lock_guard lock(lock_);
    tops.reserve(tops.size() + count);
    for (; count != 0; --count) {
      if (!free_.empty()) {
        tops.push_back(free_.back());
        free_.pop_back();
      } else {
        tops.push_back(carve());
      }
    }
  }
  /// Takes the last `count` of `tops` back.
  void give_back(std::size_t count, std::vector<std::byte*>& tops) {
    const std::lock_guard lock(lock_);
    free_.insert(free_.end(), tops.end() - static_cast<std::ptrdiff_t>(count), tops.end());
    tops.resize(tops.size() - count);
  }

  /// The top of the stack whose guard holds `address`; null if none does. Async-signal-safe.
  std::byte* overrun(const void* address) const noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    for (const Slab* slab = newest_.load(std::memory_order_acquire); slab != nullptr; slab = slab->older) {
      const auto begin = reinterpret_cast<std::uintptr_t>(slab->lowest);
      if (at < begin || at >= begin + slab_stacks_ * pitch()) continue;
      const std::size_t offset = (at - begin) % pitch();
      const std::size_t stack = (at - begin) / pitch();
      if (offset < guard_bytes_) return slab->lowest + (stack + 1) * pitch() - colour(stack);
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t slab_bytes = std::size_t{64} << 20;
  struct Slab {
    std::byte* lowest;
    Slab* older;
  };

  std::size_t pitch() const noexcept { return stack_bytes_ + guard_bytes_; }

  std::byte* carve() {
    if (newest_.load(std::memory_order_relaxed) == nullptr || carved_ == slab_stacks_) {
      auto slab = std::make_unique<Slab>(Slab{nullptr, newest_.load(std::memory_order_relaxed)});
      slab->lowest = detail::map_stacks(slab_stacks_ * pitch());
      newest_.store(slab.release(), std::memory_order_release);
      carved_ = 0;
    }
    std::byte* const lowest = newest_.load(std::memory_order_relaxed)->lowest + carved_ * pitch();
    if (const int error = detail::install_guard(lowest, guard_bytes_); error != 0)
      detail::throw_no_stacks("guard", pitch(), error);
    return lowest + pitch() - colour(carved_++);
  }
  /// Stacks that begin at the same place in their pages compete for the same lines of the first-level cache.
  static std::size_t colour(std::size_t stack) noexcept { return stack % 20 * 128; }

  const std::size_t stack_bytes_;
  const std::size_t guard_bytes_;
  const std::size_t slab_stacks_;
  std::mutex lock_;
  std::atomic<Slab*> newest_{nullptr};
  std::size_t carved_ = 0;  ///< stacks of the newest slab
  std::vector<std::byte*> free_;
};

}  // namespace craton::fiber
