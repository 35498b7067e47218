#include "vm/reservation.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "vm/fault_dispatcher.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

constexpr std::uintptr_t tib = std::uintptr_t{1} << 40U;
constexpr std::uintptr_t gib = std::uintptr_t{1} << 30U;

// Linux puts programs that are not position independent below 4 GiB, others and their heaps (x86-64) at
// 0x55.. to 0x56.. TiB-wise above 84 TiB, libraries and stacks below 128 TiB. The address sanitizer's shadow
// ends at 16 TiB and its heap begins at 96 TiB. The thread sanitizer (GCC 12) allows 84 to 86 TiB, 122 TiB
// and more, and what lies below 512 GiB; so do kernels with 39 bits of addresses.
constexpr std::uintptr_t bases[] = {32 * tib, 48 * tib,  64 * tib,  24 * tib, 40 * tib,
                                    64 * gib, 128 * gib, 256 * gib, 16 * gib};

/// Why the addresses are not to be had: who has them, as /proc/self/maps names it.
std::string occupant(std::uintptr_t base, std::size_t bytes) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return "they are in use";
  std::string found = "the kernel or a sanitizer allows no mapping there";
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    // NOLINTNEXTLINE(cert-err34-c): the kernel writes well-formed lines, and others match nothing
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2) continue;
    if (begin < base + bytes && end > base) {
      line[std::strcspn(line, "\n")] = '\0';
      found = std::string("in use: ") + line;
      break;
    }
  }
  static_cast<void>(std::fclose(maps));
  return found;
}

bool is_whole_pages(std::size_t number) {
  return number % kernel::page_bytes() == 0;
}

}  // namespace

AddressRange::AddressRange(AddressRange&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      begin_(std::exchange(other.begin_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

AddressRange& AddressRange::operator=(AddressRange&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AddressRange::~AddressRange() {
  if (owner_ != nullptr) owner_->give_back(begin_, bytes_);
}

std::span<const std::uintptr_t> Reservation::candidate_bases() noexcept {
  return bases;
}

Reservation::Reservation(std::uintptr_t base, std::size_t bytes, Claim claim)
    : base_(reinterpret_cast<std::byte*>(base)), bytes_(bytes) {
  if (base == 0 || bytes == 0 || !is_whole_pages(base) || !is_whole_pages(bytes) || base + bytes < base) {
    throw Error(
        ErrorCode::invalid_argument,
        {.asked = fmt::format("cannot reserve {} bytes of addresses at {:#x}", bytes, base),
         .happened = fmt::format("both have to be multiples of {} other than 0", kernel::page_bytes()),
         .limit = {},
         .remedy = {}});
  }
  // As a wish, not with MAP_FIXED_NOREPLACE: the kernel grants it if the addresses are free, and the thread
  // sanitizer, which makes address 0 of a place that it does not allow, is not led to map there.
  const int forced = claim == Claim::replace ? MAP_FIXED : 0;
  void* const got =
      ::mmap(base_, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | forced, -1, 0);
  if (got == MAP_FAILED) {
    throw Error::from_errno(fmt::format("cannot reserve {} bytes of addresses at {:#x}", bytes, base), errno,
                            "ulimit -v; sysctl vm.overcommit_memory vm.max_map_count",
                            "ulimit -v unlimited, sysctl -w vm.overcommit_memory=0, or reserve less");
  }
  if (got != base_) {
    ::munmap(got, bytes);
    throw Error(ErrorCode::out_of_resources,
                {.asked = fmt::format("cannot reserve {} bytes of addresses at {:#x}", bytes, base),
                 .happened = occupant(base, bytes),
                 .limit = "/proc/self/maps",
                 .remedy = "try another base, or fewer bytes"});
  }
  free_.emplace(0, bytes);
  if (claim == Claim::replace) return;  // for one segment, which fills it: no fault is outside of that
  try {
    add_reserved_addresses(base_, bytes_);
  } catch (...) {
    ::munmap(base_, bytes_);
    throw;
  }
}

Reservation::~Reservation() {
  CRATON_ASSERT(free_.size() == 1);  // every AddressRange has ended
  remove_reserved_addresses(base_);
  ::munmap(base_, bytes_);
}

AddressRange Reservation::take(std::size_t bytes, std::size_t alignment) {
  if (bytes == 0 || bytes > bytes_ || !std::has_single_bit(alignment) || !is_whole_pages(alignment)) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot take {} bytes, aligned to {}, of {} reserved", bytes, alignment,
                                      bytes_),
                 .happened = "that is none, or more than all, or no power of two of at least a page",
                 .limit = {},
                 .remedy = {}});
  }
  bytes = (bytes + kernel::page_bytes() - 1) / kernel::page_bytes() * kernel::page_bytes();
  const std::scoped_lock lock(mutex_);
  std::size_t longest = 0;
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    const auto begin = reinterpret_cast<std::uintptr_t>(base_) + piece->first;
    const std::size_t skipped = (alignment - begin % alignment) % alignment;
    if (skipped < piece->second && piece->second - skipped >= bytes)
      return cut(piece, piece->first + skipped, bytes);
    longest = piece->second > longest ? piece->second : longest;
  }
  throw Error(
      ErrorCode::out_of_resources,
      {.asked = fmt::format("cannot place {} bytes in the address space of Craton", bytes),
       .happened = fmt::format("of its {} bytes no more than {} are free in one piece", bytes_, longest),
       .limit = {},
       .remedy = "reserve more, or free segments"});
}

AddressRange Reservation::take_at(std::size_t offset, std::size_t bytes) {
  const auto refuse = [&](ErrorCode code, std::string happened) {
    throw Error(code, {.asked = fmt::format("cannot take {} bytes at offset {} of {} reserved", bytes, offset,
                                            bytes_),
                       .happened = std::move(happened),
                       .limit = {},
                       .remedy = {}});
  };
  if (bytes == 0 || bytes > bytes_ || offset > bytes_ - bytes || !is_whole_pages(offset) ||
      !is_whole_pages(bytes))
    refuse(ErrorCode::invalid_argument, "that is outside, or no whole pages");
  const std::scoped_lock lock(mutex_);
  auto piece = free_.upper_bound(offset);
  if (piece == free_.begin() || (--piece)->first + piece->second < offset + bytes)
    refuse(ErrorCode::out_of_resources, "some of it is taken");
  return cut(piece, offset, bytes);
}

AddressRange Reservation::cut(std::map<std::size_t, std::size_t>::iterator piece, std::size_t offset,
                              std::size_t bytes) {
  const std::size_t before = offset - piece->first;
  const std::size_t after = piece->second - before - bytes;
  if (after != 0) free_.emplace(offset + bytes, after);
  if (before != 0) {
    piece->second = before;
  } else {
    free_.erase(piece);
  }
  return {*this, base_ + offset, bytes};
}

void Reservation::give_back(std::byte* begin, std::size_t bytes) noexcept {
  const auto offset = static_cast<std::size_t>(begin - base_);
  const std::scoped_lock lock(mutex_);
  auto piece = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(piece); next != free_.end() && next->first == offset + bytes) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece != free_.begin()) {
    const auto previous = std::prev(piece);
    if (previous->first + previous->second == offset) {
      previous->second += piece->second;
      free_.erase(piece);
    }
  }
}

}  // namespace craton::vm
