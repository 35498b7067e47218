#include "vm/sim/sim_page_table.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace craton::vm {
namespace {

constexpr std::size_t word_bytes = 8;

}  // namespace

SimPageTable::SimPageTable(std::byte* memory, std::size_t block_bytes, std::uint64_t blocks)
    : PageTable(memory, block_bytes, blocks), access_(blocks, Access::none) {
  CRATON_ASSERT(block_bytes % word_bytes == 0);
  CRATON_ASSERT(reinterpret_cast<std::uintptr_t>(memory) % word_bytes == 0);
}

void SimPageTable::set_access(std::span<const Run> runs, Access access) {
  BlockIndex end_before = 0;
  bool is_first = true;
  for (const Run& run : runs) {
    CRATON_ASSERT(run.first + run.count <= blocks());
    CRATON_ASSERT(run.count > 0);
    if (!is_first) CRATON_ASSERT(run.first > end_before);  // sorted, and apart
    is_first = false;
    end_before = run.first + run.count;
    const auto first = access_.begin() + static_cast<std::ptrdiff_t>(run.first);
    std::fill(first, first + static_cast<std::ptrdiff_t>(run.count), access);
  }
}

void SimPageTable::make_allowed(std::size_t offset, bool write) {
  const BlockIndex block = offset / block_bytes();
  while (access_[block] < (write ? Access::write : Access::read)) {
    CRATON_ASSERT(handler_ != nullptr);
    ++faults_;
    handler_->fault(block, write);
  }
}

/// Copies up to the next word's border at a time where somebody may run in between, else up to the next
/// block's.
template <typename Copy>
void SimPageTable::for_each_word(std::size_t offset, std::size_t bytes, bool write, Copy&& copy) {
  CRATON_ASSERT(bytes <= this->bytes());
  CRATON_ASSERT(offset <= this->bytes() - bytes);
  const std::size_t step = hook_ ? word_bytes : block_bytes();
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t at = offset + done;
    const std::size_t count = std::min(step - at % step, bytes - done);
    if (hook_) hook_();
    make_allowed(at, write);
    copy(system_view() + at, done, count);
    done += count;
  }
}

void SimPageTable::load(std::size_t offset, std::span<std::byte> to) {
  for_each_word(offset, to.size(), false, [to](const std::byte* view, std::size_t done, std::size_t count) {
    std::memcpy(to.data() + done, view, count);
  });
}

void SimPageTable::store(std::size_t offset, std::span<const std::byte> from) {
  for_each_word(offset, from.size(), true, [from](std::byte* view, std::size_t done, std::size_t count) {
    std::memcpy(view, from.data() + done, count);
  });
}

}  // namespace craton::vm
