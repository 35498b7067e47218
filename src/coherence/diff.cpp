#include "coherence/diff.hpp"

#include <algorithm>
#include <cstring>

namespace craton::coherence {

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

bool has_changed(const DiffPiece& piece, std::size_t byte) noexcept {
  return (piece.changed >> byte & 1U) != 0;
}

}  // namespace

bool make_diff(const std::byte* data, const std::byte* twin, std::size_t bytes, std::size_t most,
               std::vector<DiffPiece>& pieces) {
  for (std::size_t at = 0; at < bytes; at += DiffPiece::bytes) {
    if (std::memcmp(data + at, twin + at, DiffPiece::bytes) == 0) continue;
    DiffPiece piece{.index = static_cast<std::uint32_t>(at / DiffPiece::bytes), .changed = 0, .now = {}};
    std::memcpy(piece.now.data(), data + at, DiffPiece::bytes);
    for (std::size_t i = 0; i < DiffPiece::bytes; ++i)
      piece.changed |= piece.now[i] != twin[at + i] ? 1U << i : 0U;
    if (piece.changed == 0) continue;  // it was as before again
    if (pieces.size() == most) return false;
    pieces.push_back(piece);
  }
  return true;
}

MergeOutcome merge_diff(std::span<const DiffPiece> pieces, std::byte* copy, std::byte* base) noexcept {
  constexpr std::uint32_t whole_word = (1U << word_bytes) - 1;
  MergeOutcome outcome;
  for (const DiffPiece& piece : pieces) {
    const std::size_t at = piece.index * DiffPiece::bytes;
    outcome.written_there = true;
    DiffPiece left = piece;
    // What is written word by word is merged so: who reads a word finds what it was or what it is.
    for (std::size_t word = 0; word < DiffPiece::bytes; word += word_bytes) {
      const bool is_whole = (piece.changed >> word & whole_word) == whole_word;
      if (!is_whole || std::memcmp(copy + at + word, base + at + word, word_bytes) != 0) continue;
      std::memcpy(copy + at + word, piece.now.data() + word, word_bytes);
      std::memcpy(base + at + word, piece.now.data() + word, word_bytes);
      left.changed &= ~(whole_word << word);
    }
    for (std::size_t i = 0; i < DiffPiece::bytes; ++i) {
      if (!has_changed(left, i)) continue;
      const std::byte incoming = piece.now[i];
      const bool here = copy[at + i] != base[at + i];
      if (!here) {
        copy[at + i] = incoming;
      } else if (copy[at + i] != incoming) {
        outcome.first_race_byte = std::min(outcome.first_race_byte, at + i);
        ++outcome.race_bytes;
      }
      base[at + i] = incoming;
    }
  }
  return outcome;
}

void note_diff(std::span<const DiffPiece> pieces, std::byte* twin) noexcept {
  for (const DiffPiece& piece : pieces) {
    std::byte* const to = twin + piece.index * DiffPiece::bytes;
    std::array<std::byte, DiffPiece::bytes> noted{};
    std::memcpy(noted.data(), to, DiffPiece::bytes);
    for (std::size_t i = 0; i < DiffPiece::bytes; ++i)
      if (has_changed(piece, i)) noted[i] = piece.now[i];
    // Word by word, for those who fetch it meanwhile.
    for (std::size_t word = 0; word < DiffPiece::bytes; word += word_bytes)
      std::memcpy(to + word, noted.data() + word, word_bytes);
  }
}

}  // namespace craton::coherence
