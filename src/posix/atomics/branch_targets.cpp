#include "posix/atomics/branch_targets.hpp"

#include <algorithm>
#include <cstring>

namespace craton::posix {
namespace {

/// Entries in a row that lead into no function before a table is taken to be over. Compilers may name an
/// address before the table when its first index is not 0.
constexpr int misses_most = 64;
/// Entries that must lead into a function, behind its beginning, to explain its jumps: a table of functions
/// does not.
constexpr int hits_least = 2;

}  // namespace

BranchTargets::BranchTargets(const CodeMap& map) : map_(map), targets_(map.image), named_(map.image) {
  for (const AddressRange& function : map.functions) read_function(function);
  for (const AddressRange& range : map.data) read_data(range);
  for (const std::uintptr_t pad : map.landing_pads) targets_.insert(pad);
  named_.for_each([this](std::uintptr_t address) {
    if (map_.function_at(address) != nullptr) targets_.insert(address);
    if (!indirect_.empty()) read_table(address);
  });
}

void BranchTargets::read_function(const AddressRange& function) {
  targets_.insert(function.begin);
  const Decoded decoded = decode(function);
  if (decoded.end != function.end) unreadable_.insert(function.begin);
  for (const Instruction& instruction : decoded.instructions) {
    if (instruction.target != 0) targets_.insert(instruction.target);
    if (instruction.flow == Flow::indirect) indirect_.insert(function.begin);
    for (const std::uintptr_t address : instruction.refers_to) named_.insert(address);
  }
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
