/// \file
/// The counters of all ranks as a table, and as JSON: what --stats prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coherence/counters.hpp"

namespace craton::space {

struct CounterName {
  std::string_view name;  ///< that of the member
  coherence::Counters::Count coherence::Counters::*count;
};
/// All of coherence::Counters, in their order.
std::span<const CounterName> counter_names() noexcept;

/// The counters of a rank, in the order of counter_names().
std::vector<std::uint64_t> values_of(const coherence::Counters& counters);

/// By rank: one line each, those that say most, and their sum.
std::string statistics_as_text(const std::vector<std::vector<std::uint64_t>>& ranks);
/// {"ranks": [{"rank": 0, "read_faults": 1, ...}, ...], "sum": {"read_faults": 1, ...}}
std::string statistics_as_json(const std::vector<std::vector<std::uint64_t>>& ranks);

}  // namespace craton::space
