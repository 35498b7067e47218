/// \file
/// Where the time of a job went: by parallel region and by rank. The kinds of time add up to the time of the
/// region's threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/record.hpp"
#include "observe/symbols.hpp"

namespace craton::observe {

struct RegionRow {
  std::string region;
  unsigned rank;
  std::uint64_t parts;  ///< times that a thread ran it
  std::uint64_t compute_ns;
  std::uint64_t fault_ns;
  std::uint64_t transfer_ns;
  std::uint64_t fence_ns;
  std::uint64_t barrier_ns;
  std::uint64_t idle_ns;
  std::uint64_t faults;
  std::uint64_t bytes;
  std::uint64_t messages;

  std::uint64_t whole_ns() const noexcept {
    return compute_ns + fault_ns + transfer_ns + fence_ns + barrier_ns + idle_ns;
  }
};

/// Of all threads of a rank together; the region that took most first, and its ranks in order. Threads of the
/// runtime's own come last, as a region of their own.
std::vector<RegionRow> region_rows(const Record& record, Symbols& symbols);
std::string regions_as_text(const std::vector<RegionRow>& rows);
/// A list: [{"region": "main (cg.c:88)", "rank": 0, "compute_ns": 1, ...}, ...]
std::string regions_as_json(const std::vector<RegionRow>& rows);

}  // namespace craton::observe
