#include "vm/segment_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

/// So that the sizes are right before memory is asked for.
AddressRange checked(AddressRange range, std::size_t block_bytes) {
  check_block_bytes(block_bytes);
  if (range.bytes() == 0 || range.bytes() % block_bytes != 0) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot make a segment of {} bytes", range.bytes()),
                 .happened = fmt::format("it has to be a multiple of its blocks of {} bytes", block_bytes),
                 .limit = {},
                 .remedy = {}});
  }
  return range;
}

/// The addresses stay reserved: what still points there must fault, not find somebody else's bytes.
void unmap(const AddressRange& range) noexcept {
  static_cast<void>(::mmap(range.begin(), range.bytes(), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
}

}  // namespace

void check_block_bytes(std::size_t block_bytes) {
  const std::size_t page_bytes = kernel::page_bytes();
  if (block_bytes != 0 && block_bytes % page_bytes == 0 && block_bytes <= block_bytes_most) return;
  throw Error(
      ErrorCode::invalid_argument,
      {.asked = fmt::format("cannot divide a segment into blocks of {} bytes", block_bytes),
       .happened = fmt::format("a block has to be a multiple of the page size, {}, and at most {} bytes",
                               page_bytes, block_bytes_most),
       .limit = "getconf PAGESIZE",
       .remedy = fmt::format("choose {}", page_bytes)});
}

SegmentMemory::SegmentMemory(const std::string& name, AddressRange range, std::size_t block_bytes,
                             Contents contents)
    : name_(name),
      range_(checked(std::move(range), block_bytes)),
      block_bytes_(block_bytes),
      contents_(contents),
      memory_(name, range_.bytes()) {
  void* const view = ::mmap(range_.begin(), range_.bytes(), PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
                            memory_.fd(), 0);
  if (view == MAP_FAILED || ::madvise(view, range_.bytes(), MADV_DONTFORK) != 0) {
    const int error = errno;
    unmap(range_);
    throw Error::from_errno(
        fmt::format("cannot map {} bytes of segment \"{}\" for the program", range_.bytes(), name), error,
        "sysctl vm.max_map_count; ulimit -v", "raise the limit that is hit");
  }
}

SegmentMemory::~SegmentMemory() {
  unmap(range_);
}

}  // namespace craton::vm
