#include "posix/atomics/near_memory.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "base/error.hpp"
#include "posix/pages.hpp"
#include "vm/skipped_addresses.hpp"

namespace craton::posix {
namespace {

constexpr std::uintptr_t reach_bytes = (std::uintptr_t{1} << 31) - (1 << 20);  // with a margin for lengths
constexpr std::uintptr_t step_bytes = 64 << 10;
constexpr int steps_most = 4096;                    // in each direction
constexpr std::uintptr_t room_above = 512UL << 20;  // for a heap by brk

/// \param place MAP_FIXED where nobody else has it \returns 0 where it is not free
std::uintptr_t map_at(std::uintptr_t address, std::size_t bytes, int place) noexcept {
  void* const wish = reinterpret_cast<void*>(address);
  void* const got = ::mmap(wish, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | place, -1, 0);
  if (got == MAP_FAILED) return 0;
  if (got == wish) return address;
  ::munmap(got, bytes);  // a kernel before 4.17 takes the address for a wish
  return 0;
}

}  // namespace

std::uintptr_t map_near(const AddressRange& image, std::size_t bytes) {
  bytes = page_up(bytes);
  const std::uintptr_t begin = page_down(image.begin);
  const std::uintptr_t end = page_up(image.end);
  const std::uintptr_t lowest = end > reach_bytes ? end - reach_bytes : 0;
  const std::uintptr_t highest = begin + reach_bytes - bytes;
  std::uintptr_t skipped = vm::take_skipped(lowest, begin, bytes);
  if (skipped == 0) skipped = vm::take_skipped(end, highest + bytes, bytes);
  if (skipped != 0 && map_at(skipped, bytes, MAP_FIXED) != 0) return skipped;
  std::uintptr_t address = begin / step_bytes * step_bytes;
  for (int i = 0; i < steps_most && address >= bytes + step_bytes; ++i) {
    address -= step_bytes;
    if (address < lowest || address + bytes > begin) continue;
    if (const std::uintptr_t got = map_at(address, bytes, MAP_FIXED_NOREPLACE); got != 0) return got;
  }
  address = (end + room_above) / step_bytes * step_bytes;
  for (int i = 0; i < steps_most && address < highest; ++i, address += step_bytes)
    if (const std::uintptr_t got = map_at(address, bytes, MAP_FIXED_NOREPLACE); got != 0) return got;
  void* const got = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) throw Error::from_errno("cannot map memory for software atomics", errno);
  return reinterpret_cast<std::uintptr_t>(got);
}

}  // namespace craton::posix
