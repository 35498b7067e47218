/// \file
/// What memory ranks share, what that costs, and what would help, by the names of variables. Made of the
/// faults, which tell one address each, and of the writes that were merged with others', which tell from
/// where to where.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "observe/record.hpp"
#include "observe/symbols.hpp"

namespace craton::observe {

enum class Verdict : std::uint8_t {
  false_sharing,  ///< several ranks write blocks, but different bytes of them; or one writes and others read
  true_sharing,   ///< several ranks write the same bytes
  one_writer,     ///< others read what it writes
  moved_once,     ///< written outside of regions, then used by one rank
  only_read,
};

/// What a rank did with a variable at a line of the program.
struct Use {
  unsigned rank;
  bool writes;
  std::string line;
  std::uint64_t times;
  std::uint64_t first_byte;  ///< of the variable, as far as was seen
  std::uint64_t last_byte;
};

struct SharedVariable {
  std::string name;  ///< of all that lie in the same blocks and were used there
  std::string line;  ///< where the first is declared or allocated
  Verdict verdict;
  std::uint64_t blocks;
  std::uint64_t block_bytes;
  std::uint64_t cost_ns;
  std::uint64_t faults;
  std::uint64_t merges;  ///< of writes with those of others
  std::vector<Use> uses;
  std::string advice;
};

inline constexpr std::size_t time_bins = 96;
/// Blocks in a row, over the time of the job.
struct HeatRow {
  std::uint64_t begin;
  std::uint64_t end;
  std::string name;
  std::array<std::uint64_t, time_bins> cost_ns;
};

struct SharingReport {
  std::uint64_t ranks = 0;
  std::uint64_t whole_ns = 0;             ///< from the first event to the last
  std::uint64_t cost_ns = 0;              ///< of all that is shared, on all ranks
  std::uint64_t private_ns = 0;           ///< of blocks that only one rank used
  std::uint64_t lost = 0;                 ///< events for which there was no room
  std::vector<SharedVariable> variables;  ///< the dearest first
  std::vector<HeatRow> heat;
};

SharingReport sharing_report(const Record& record, Symbols& symbols);
std::string report_as_text(const SharingReport& report);
/// One page that needs no other file.
std::string report_as_html(const SharingReport& report);

/// A line a place, with the variable and the region.
void tell_races(const Record& record, Symbols& symbols, FunctionRef<void(const std::string&)> tell);

std::string_view name_of(Verdict verdict) noexcept;

}  // namespace craton::observe
