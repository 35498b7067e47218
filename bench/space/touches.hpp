/// \file
/// Touches of blocks that fault, each timed: the same loop for the blocks of every strength and for bare
/// pages.
#pragma once

#include <cstddef>
#include <vector>

#include "frame/measure.hpp"

namespace craton::bench {

/// Touches block after block, given by its offset.
template <typename Touch>
void time_touches(std::size_t blocks, std::size_t block_bytes, std::vector<double>& times_ns,
                  const Touch& touch) {
  TimeNs before = now_ns();
  for (std::size_t block = 0; block < blocks; ++block) {
    touch(block * block_bytes);
    const TimeNs after = now_ns();
    times_ns.push_back(static_cast<double>(after - before));
    before = after;
  }
}

inline void time_reads(volatile std::byte* view, std::size_t blocks, std::size_t block_bytes,
                       std::vector<double>& times_ns) {
  time_touches(blocks, block_bytes, times_ns, [&](std::size_t offset) { static_cast<void>(view[offset]); });
}
/// \param value another one each time: what is unchanged, release blocks announce to nobody
inline void time_writes(volatile std::byte* view, std::size_t blocks, std::size_t block_bytes,
                        std::byte value, std::vector<double>& times_ns) {
  time_touches(blocks, block_bytes, times_ns, [&](std::size_t offset) { view[offset] = value; });
}

}  // namespace craton::bench
