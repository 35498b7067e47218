/// \file
/// What the kernel has had since its headers were those of Debian 12 (Linux 6.1). Its numbers never change.
#pragma once

#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace craton::vm::kernel {

inline constexpr std::uint64_t uffd_continue_mode_wp = 1U << 1U;   // Linux 6.4
inline constexpr std::uint64_t uffd_feature_wp_async = 1U << 15U;  // Linux 6.7
inline constexpr std::size_t vector_length = 256;  // of process_madvise; the kernel takes 1024

inline std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace craton::vm::kernel
