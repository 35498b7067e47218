#include "vm/view_page_table.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/futex.hpp"
#include "vm/fault_state.hpp"

namespace craton::vm {

ViewPageTable::ViewPageTable(const SegmentMemory& memory)
    : PageTable(memory.system_view(), memory.block_bytes(), memory.blocks()),
      memory_(memory),
      mark_(mark_process()) {
  static_assert(static_cast<std::uint8_t>(Access::none) == 0);  // what fresh memory holds
  static_assert(sizeof(std::atomic<std::uint8_t>) == 1);
  // Not from the heap: of a large segment only what is used of it is to cost memory.
  void* const states =
      ::mmap(nullptr, blocks(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (states == MAP_FAILED) {
    throw Error::from_errno(fmt::format("cannot keep the states of {} blocks", blocks()), errno,
                            "sysctl vm.max_map_count; ulimit -v", "choose larger blocks");
  }
  states_ = static_cast<std::atomic<std::uint8_t>*>(states);
}

ViewPageTable::~ViewPageTable() {
  ::munmap(states_, blocks());
}

Access ViewPageTable::access(BlockIndex block) const noexcept {
  return access_of(states_[block].load(std::memory_order_acquire));
}

std::optional<Access> ViewPageTable::settled_access(BlockIndex block) const noexcept {
  const std::uint8_t byte = states_[block].load(std::memory_order_acquire);
  if ((byte & changing) != 0) return std::nullopt;
  return access_of(byte);
}

Run ViewPageTable::same_access(BlockIndex first, BlockIndex end) const noexcept {
  const Access access = this->access(first);
  BlockIndex next = first + 1;
  while (next < end && this->access(next) == access) ++next;
  return {.first = first, .count = next - first};
}

void ViewPageTable::begin_change(const Run& run) noexcept {
  for (BlockIndex block = run.first; block < run.first + run.count; ++block) {
    // Another set_access() cannot be under way for this block (the caller sees to it), and reinstate() does
    // not wait for anything.
    while ((states_[block].fetch_or(changing, std::memory_order_acquire) & changing) != 0) spin_pause();
  }
}

void ViewPageTable::announce_change(const Run& run) noexcept {
  for (BlockIndex block = run.first; block < run.first + run.count; ++block) {
    const std::uint8_t byte = states_[block].load(std::memory_order_relaxed);
    states_[block].store(static_cast<std::uint8_t>(byte | changing), std::memory_order_relaxed);
  }
}

void ViewPageTable::settle(const Run& run, Access access) noexcept {
  for (BlockIndex block = run.first; block < run.first + run.count; ++block)
    states_[block].store(static_cast<std::uint8_t>(access), std::memory_order_release);
}

std::optional<Access> ViewPageTable::try_begin_reinstating(BlockIndex block) noexcept {
  std::uint8_t byte = states_[block].load(std::memory_order_relaxed);
  if ((byte & changing) != 0 || access_of(byte) == Access::none) return std::nullopt;
  if (!states_[block].compare_exchange_strong(byte, static_cast<std::uint8_t>(byte | changing),
                                              std::memory_order_acquire)) {
    return std::nullopt;
  }
  return access_of(byte);
}

void ViewPageTable::check_process() const noexcept {
  if (process_mark() != mark_) [[unlikely]]
    refuse_fault("a forked child has no segments; only the rank itself may change what its blocks allow");
}

}  // namespace craton::vm
