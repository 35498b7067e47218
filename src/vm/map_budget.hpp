/// \file
/// How many mappings the segments of a process may have together. The kernel allows a process
/// vm.max_map_count; at the limit every mmap of whatever library fails, so Craton stops at four fifths of it
/// and says why.
#pragma once

#include <atomic>
#include <cstdint>

namespace craton::vm {

class MapBudget {
 public:
  /// \param kernel_limit what vm.max_map_count says
  explicit MapBudget(std::int64_t kernel_limit) noexcept
      : kernel_limit_(kernel_limit), limit_(kernel_limit / 5 * 4) {}
  MapBudget(const MapBudget&) = delete;
  MapBudget& operator=(const MapBudget&) = delete;

  /// vm.max_map_count of this machine; the kernel's default where it cannot be read.
  static std::int64_t kernel_limit_here() noexcept;

  std::int64_t kernel_limit() const noexcept { return kernel_limit_; }
  std::int64_t limit() const noexcept { return limit_; }
  std::int64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

  /// Takes `maps` more. \returns false, and takes nothing, if there are not so many left. Async-signal-safe.
  bool take(std::int64_t maps) noexcept {
    if (used_.fetch_add(maps, std::memory_order_relaxed) + maps <= limit_) return true;
    give_back(maps);
    return false;
  }
  void give_back(std::int64_t maps) noexcept { used_.fetch_sub(maps, std::memory_order_relaxed); }

 private:
  const std::int64_t kernel_limit_;
  const std::int64_t limit_;
  std::atomic<std::int64_t> used_{0};
};

}  // namespace craton::vm
