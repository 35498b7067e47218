/// \file
/// The counters of all ranks as a table, and as JSON: what --stats prints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coherence/counters.hpp"
#include "coherence/lease_release.hpp"

namespace craton::space {

struct CounterName {
  std::string_view name;  ///< that of the member
  coherence::Counters::Count coherence::Counters::*count;
};
/// All of coherence::Counters, in their order.
std::span<const CounterName> counter_names() noexcept;

/// Counters in the order of counter_names(): of a rank, or of a rank's part of a segment.
std::vector<std::uint64_t> values_of(const coherence::LeaseRelease& protocol);
std::vector<std::uint64_t> values_of(const coherence::Counters& counters);

struct SegmentStatistics {
  std::string name;
  std::vector<std::uint64_t> values;  ///< of all ranks
};
/// By rank, and by segment where there are several: one line each, the counters that say most, and their sum.
std::string statistics_as_text(const std::vector<std::vector<std::uint64_t>>& ranks,
                               const std::vector<SegmentStatistics>& segments);
/// {"ranks": [{"rank": 0, "read_faults": 1, ...}, ...], "segments": [{"name": "heap", ...}, ...],
///  "sum": {"read_faults": 1, ...}}
std::string statistics_as_json(const std::vector<std::vector<std::uint64_t>>& ranks,
                               const std::vector<SegmentStatistics>& segments);

}  // namespace craton::space
