/// \file
/// What a rank has written to a block, to be merged where the block's home is (Zhou, Iftode and Li, OSDI
/// 1996), byte by byte: a block is cut into pieces, and of each that has changed go all bytes along and which
/// of them have.
///
///     at the home   twin' = written there ? incoming : twin                   at once: note_diff()
///                   copy' = written there and not here ? incoming : copy      once it is acquired:
///                   base' = written there ? incoming : base                   merge_diff(), see put_by.hpp
///
/// So the twin stays what was published last, and what differs from the base what was written here since.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coherence/merge.hpp"

namespace craton::coherence {

/// Travels as it is.
struct DiffPiece {
  static constexpr std::size_t bytes = 32;

  std::uint32_t index;    ///< in the block
  std::uint32_t changed;  ///< a bit a byte
  std::array<std::byte, bytes> now;
};
static_assert(sizeof(DiffPiece) == 40);

/// Where a block, which threads of this rank may go on writing, differs from its twin: each piece is of one
/// moment. \param bytes a multiple of DiffPiece::bytes \param most pieces
/// \returns false: it has more, and `pieces` those before
bool make_diff(const std::byte* data, const std::byte* twin, std::size_t bytes, std::size_t most,
               std::vector<DiffPiece>& pieces);

/// Merges as above; threads of this rank may go on writing `copy` elsewhere.
MergeOutcome merge_diff(std::span<const DiffPiece> pieces, std::byte* copy, std::byte* base) noexcept;

/// What was sent is published, here and at the home: the twins have it as well. Others may be reading them.
void note_diff(std::span<const DiffPiece> pieces, std::byte* twin) noexcept;

}  // namespace craton::coherence
