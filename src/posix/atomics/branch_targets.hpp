/// \file
/// Where control can enter the code of an object other than from the instruction before. Needed where
/// patching one instruction overwrites its neighbours: those must not be entered.
///
/// Known are direct branches, beginnings of functions, landing pads, addresses of code that instructions name
/// or that lie in data, and jump tables. Those are found by their address, which some instruction must name:
/// a table of distances from its own beginning (what compilers make for position-independent code) or of
/// addresses. What lies at every address that is named is read as both, so that too much is taken for a
/// target rather than too little.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "posix/atomics/code_map.hpp"
#include "posix/atomics/instruction.hpp"

namespace craton::posix {

/// A set of addresses of one range, a bit for each: a large library has millions. Others are left out.
/// Several threads may insert at a time, while nobody looks.
class AddressSet {
 public:
  explicit AddressSet(const AddressRange& range)
      : range_(range), words_((range.end - range.begin + word_bits - 1) / word_bits) {}

  void insert(std::uintptr_t address) {
    if (!range_.holds(address)) return;
    const std::atomic_ref word(word_of(address));
    const std::uint64_t bit = bit_of(address);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_relaxed);
  }
  bool holds(std::uintptr_t address) const {
    return range_.holds(address) && (words_[(address - range_.begin) / word_bits] & bit_of(address)) != 0;
  }
  /// In ascending order.
  template <typename Function>
  void for_each(Function function) const {
    for (std::size_t word = 0; word < words_.size(); ++word)
      for (std::uint64_t left = words_[word]; left != 0; left &= left - 1)
        function(range_.begin + word * word_bits + static_cast<std::size_t>(std::countr_zero(left)));
  }

 private:
  static constexpr std::size_t word_bits = 64;
  std::uint64_t& word_of(std::uintptr_t address) { return words_[(address - range_.begin) / word_bits]; }
  std::uint64_t bit_of(std::uintptr_t address) const {
    return std::uint64_t{1} << (address - range_.begin) % word_bits;
  }

  AddressRange range_;
  std::vector<std::uint64_t> words_;
};

class BranchTargets {
 public:
  /// What was read of a function.
  struct Read {
    bool has_sites;
    bool is_whole;  ///< all of its bytes are instructions
  };

  explicit BranchTargets(const CodeMap& map);

  /// Reads a function of the map, which it does once. Several threads may do so at a time, before finish().
  Read read(std::size_t function);
  /// Reads those that have not been, on so many threads, and what else tells of targets.
  void finish(unsigned threads);

  // When all is read.
  bool is_target(std::uintptr_t address) const { return targets_.holds(address); }
  /// Whether any instruction of a function may be a target: it jumps to what a register or memory says, and
  /// no table was found for it; or not all of it could be read.
  bool jumps_anywhere(const AddressRange& function) const {
    return unreadable_.count(function.begin) != 0 ||
           (indirect_.count(function.begin) != 0 && explained_.count(function.begin) == 0);
  }

 private:
  void read_data(const AddressRange& range);
  void read_table(std::uintptr_t table);
  template <typename Entry>
  void read_entries(std::uintptr_t table, std::uintptr_t end, std::uintptr_t relative_to);

  const CodeMap& map_;
  std::vector<std::uint8_t> is_read_;  // of each function
  AddressSet targets_;
  AddressSet named_;                              // addresses that instructions name
  std::mutex adding_;                             // to the sets of functions
  std::unordered_set<std::uintptr_t> indirect_;   // functions, by where they begin
  std::unordered_set<std::uintptr_t> explained_;  // functions into which a table leads
  std::unordered_set<std::uintptr_t> unreadable_;
};

}  // namespace craton::posix
