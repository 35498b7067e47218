#include "vm/saved_pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/unique_fd.hpp"
#include "base/zero_bytes.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {

namespace {

/// What an entry of /proc/self/pagemap says of a page: that it is in memory, or was and is in swap now.
constexpr std::uint64_t was_touched = std::uint64_t{3} << 62U;

/// Calls `action` with each run of pages in [begin, end) that may have been touched.
template <typename Action>
void for_touched(int pagemap, const std::byte* begin, const std::byte* end, const Action& action) {
  const std::size_t page_bytes = kernel::page_bytes();
  std::array<std::uint64_t, 4096> entries;
  while (begin < end) {
    const std::size_t wanted =
        std::min<std::size_t>(entries.size(), static_cast<std::size_t>(end - begin) / page_bytes);
    const auto first =
        static_cast<off_t>(reinterpret_cast<std::uintptr_t>(begin) / page_bytes * sizeof(entries[0]));
    const ssize_t got =
        pagemap < 0 ? -1 : ::pread(pagemap, entries.data(), wanted * sizeof(entries[0]), first);
    if (got < static_cast<ssize_t>(sizeof(entries[0]))) return action(begin, end);
    const std::size_t count = static_cast<std::size_t>(got) / sizeof(entries[0]);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* const page = begin + i * page_bytes;
      if ((entries[i] & was_touched) != 0) action(page, page + page_bytes);
    }
    begin += count * page_bytes;
  }
}

}  // namespace

SavedPages::SavedPages(std::span<const std::byte> memory,
                       std::span<const std::span<const std::byte>> zero_filled) {
  const std::byte* const end = memory.data() + memory.size();
  const std::size_t page_bytes = kernel::page_bytes();
  const auto note = [&](const std::byte* begin, const std::byte* run_end) {
    for (; begin < run_end; begin += page_bytes)
      if (!is_zero(begin, page_bytes)) pages_.push_back(const_cast<std::byte*>(begin));
  };
  const UniqueFd pagemap(zero_filled.empty() ? -1 : ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  for (const std::byte* at = memory.data(); at < end;) {
    std::span<const std::byte> next(end, 0);
    for (const std::span<const std::byte> zeros : zero_filled) {
      const std::byte* const first = std::max(zeros.data(), at);
      const std::byte* const last = std::min(zeros.data() + zeros.size(), end);
      if (first < last && first < next.data()) next = {first, last};
    }
    note(at, next.data());
    for_touched(pagemap.get(), next.data(), next.data() + next.size(), note);
    at = next.data() + next.size();
  }
  bytes_.reserve(pages_.size() * page_bytes);
  for (const std::byte* const page : pages_) bytes_.insert(bytes_.end(), page, page + page_bytes);
}

void SavedPages::restore() const noexcept {
  const std::size_t page_bytes = kernel::page_bytes();
  for (std::size_t i = 0; i < pages_.size(); ++i)
    std::memcpy(pages_[i], bytes_.data() + i * page_bytes, page_bytes);
}

}  // namespace craton::vm
