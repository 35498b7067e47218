/// \file
/// Merging the writes of several ranks to one block (dissertation, section 3.5.4), byte by byte:
///
///     data      what this rank has, its own writes in it
///     twin      what it started from                        written here   = data != twin
///     incoming  what the others have made of it             written there  = incoming != twin
///
///     data' = written there and not here ? incoming : data
///     twin' = written here ? twin : incoming
///
/// The paper's table 3.1 merges by exclusive-or, which brings the old value back where both wrote the same
/// new one; a blend does not. Both wrote different values: a write-write race of the program; then the value
/// written here stays. What was written here stays to be published, also where it was written there as well.
///
/// Costs one pass at nearly the speed of memory: blocks are compared and blended 32 bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::coherence {

/// What was seen while merging.
struct MergeOutcome {
  static constexpr std::size_t none = ~std::size_t{0};
  bool written_there = false;  ///< incoming differs from the twin
  std::size_t first_race_byte =
      none;  ///< offset of the first byte that was written on both sides, differently
  std::size_t race_bytes = 0;
};

/// Merges as above. \param bytes a multiple of 32 \param data nobody writes it meanwhile
MergeOutcome merge_closed(std::byte* data, std::byte* twin, const std::byte* incoming,
                          std::size_t bytes) noexcept;

/// The same while threads of this rank go on writing `data`: stores only the bytes that were written there
/// and not here, which in a program without data races nobody writes here now.
MergeOutcome merge_open(std::byte* data, std::byte* twin, const std::byte* incoming,
                        std::size_t bytes) noexcept;

/// Whether two blocks are equal. \param bytes a multiple of 32
bool equal_blocks(const std::byte* left, const std::byte* right, std::size_t bytes) noexcept;

}  // namespace craton::coherence
