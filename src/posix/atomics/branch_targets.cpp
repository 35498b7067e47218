#include "posix/atomics/branch_targets.hpp"

#include <algorithm>
#include <cstring>

#include "posix/atomics/readers.hpp"

namespace craton::posix {
namespace {

/// Entries in a row that lead into no function before a table is taken to be over. Compilers may name an
/// address before the table when its first index is not 0.
constexpr int misses_most = 64;
/// Entries that must lead into a function, behind its beginning, to explain its jumps: a table of functions
/// does not.
constexpr int hits_least = 2;

}  // namespace

BranchTargets::BranchTargets(const CodeMap& map)
    : map_(map), is_read_(map.functions.size()), targets_(map.image), named_(map.image) {}

BranchTargets::Read BranchTargets::read(std::size_t function) {
  const AddressRange& range = map_.functions[function];
  is_read_[function] = 1;
  targets_.insert(range.begin);
  bool has_sites = false;
  bool is_indirect = false;
  const std::uintptr_t end = read_instructions(range, [&](const Instruction& instruction) {
    if (instruction.target != 0) targets_.insert(instruction.target);
    for (const std::uintptr_t address : instruction.refers_to) named_.insert(address);
    is_indirect = is_indirect || instruction.flow == Flow::indirect;
    has_sites = has_sites || instruction.site != SiteKind::none;
  });
  const bool is_whole = end == range.end;
  if (is_indirect || !is_whole) {
    const std::scoped_lock lock(adding_);
    if (is_indirect) indirect_.insert(range.begin);
    if (!is_whole) unreadable_.insert(range.begin);
  }
  return {.has_sites = has_sites, .is_whole = is_whole};
}

void BranchTargets::finish(unsigned threads) {
  read_in_blocks(is_read_.size(), functions_a_block, threads, [this](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i)
      if (is_read_[i] == 0) read(i);
  });
  for (const AddressRange& range : map_.data) read_data(range);
  for (const std::uintptr_t pad : map_.landing_pads) targets_.insert(pad);
  named_.for_each([this](std::uintptr_t address) {
    if (map_.function_at(address) != nullptr) targets_.insert(address);
    if (!indirect_.empty()) read_table(address);
  });
}

void BranchTargets::read_data(const AddressRange& range) {
  constexpr std::size_t word_bytes = sizeof(std::uintptr_t);
  const AddressRange code{map_.functions.front().begin, map_.functions.back().end};
  std::uintptr_t at = (range.begin + word_bytes - 1) / word_bytes * word_bytes;
  for (; at + word_bytes <= range.end; at += word_bytes) {
    std::uintptr_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
    if (code.holds(word) && map_.function_at(word) != nullptr) targets_.insert(word);
  }
}

void BranchTargets::read_table(std::uintptr_t table) {
  const auto segment = std::find_if(map_.data.begin(), map_.data.end(),
                                    [table](const AddressRange& range) { return range.holds(table); });
  if (segment == map_.data.end()) return;
  read_entries<std::int32_t>(table, segment->end, table);
  read_entries<std::int64_t>(table, segment->end, 0);
}

template <typename Entry>
void BranchTargets::read_entries(std::uintptr_t table, std::uintptr_t end, std::uintptr_t relative_to) {
  const AddressRange* function = nullptr;
  int hits = 0;
  int misses = 0;
  for (std::uintptr_t at = table; misses < misses_most && end - at >= sizeof(Entry); at += sizeof(Entry)) {
    Entry entry{};
    std::memcpy(&entry, reinterpret_cast<const void*>(at), sizeof entry);
    const std::uintptr_t target = relative_to + static_cast<std::uintptr_t>(std::int64_t{entry});
    if (function == nullptr || !function->holds(target)) {
      function = map_.function_at(target);
      hits = 0;
    }
    if (function == nullptr || indirect_.count(function->begin) == 0) {
      // A cold part of a function is a function of its own here, into which its table leads too.
      if (function != nullptr) targets_.insert(target);
      ++misses;
      continue;
    }
    misses = 0;
    targets_.insert(target);
    if (target != function->begin && ++hits >= hits_least) explained_.insert(function->begin);
  }
}

}  // namespace craton::posix
