#include "vm/skipped_addresses.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>

#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

struct Span {
  std::uintptr_t begin;
  std::uintptr_t end;
};

/// What is skipped and not taken, the large span first.
std::array<Span, 256> spans;
std::size_t span_count = 0;

/// \returns where the kernel put it; 0 if nowhere
std::uintptr_t reserve(std::size_t bytes) noexcept {
  void* const got = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(got);
}

void unreserve(const Span& span) noexcept {
  ::munmap(reinterpret_cast<void*>(span.begin), span.end - span.begin);
}

}  // namespace

void skip_addresses(std::size_t bytes) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return;
  const std::uintptr_t large = bytes == 0 ? 0 : reserve(bytes);
  if (large == 0) return;
  spans[span_count++] = {large, large + bytes};
  // As much again fits into no gap either, so it lies on the side to which the kernel proceeds.
  const std::uintptr_t next = reserve(bytes);
  if (next == 0) return;
  unreserve({next, next + bytes});
  const bool is_downward = next < large;
  // What the kernel prefers to that side are gaps. From the longest down to a page: halving leaves none.
  const std::uintptr_t page = kernel::page_bytes();
  for (std::size_t length = std::bit_floor(bytes); length >= page && span_count < spans.size();) {
    const std::uintptr_t got = reserve(length);
    if (got == 0) return;
    const Span span{got, got + length};
    if (is_downward ? got > large : got < large) {
      spans[span_count++] = span;
    } else {
      unreserve(span);
      length /= 2;
    }
  }
}

void end_brk() noexcept {
  const std::uintptr_t page = kernel::page_bytes();
  const std::uintptr_t brk_end = (reinterpret_cast<std::uintptr_t>(::sbrk(0)) + page - 1) / page * page;
  static_cast<void>(::mmap(reinterpret_cast<void*>(brk_end), page, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0));
}

bool is_skipped(std::uintptr_t address) noexcept {
  for (std::size_t i = 0; i < span_count; ++i) {
    if (address >= spans[i].begin && address < spans[i].end) return true;
  }
  return false;
}

std::uintptr_t take_skipped(std::uintptr_t lowest, std::uintptr_t end, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < span_count; ++i) {
    const std::uintptr_t first = std::max(spans[i].begin, lowest);
    const std::uintptr_t last = std::min(spans[i].end, end);
    if (last < first || last - first < bytes) continue;
    spans[i].end = last - bytes;
    return last - bytes;
  }
  return 0;
}

}  // namespace craton::vm
