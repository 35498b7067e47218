/// \file
/// Words on which the ranks of a test race.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "space_ranks.hpp"

namespace craton::space::test {

/// Words that lie in a block each, several times over: the items of a block are neighbours in it.
class RacingWords {
 public:
  static constexpr std::size_t block_bytes = 4096;
  static constexpr std::size_t items = block_bytes / sizeof(std::uint64_t);

  /// All ranks.
  RacingWords(RankSpace& rank, std::size_t count, coherence::Strength strength)
      : RacingWords(rank, count, coherence::Dials{.strength = strength}) {}
  RacingWords(RankSpace& rank, std::size_t count, const coherence::Dials& dials)
      : first_(reinterpret_cast<std::uint64_t*>(
            rank.space
                .create_segment(
                    {.name = "words", .bytes = count * block_bytes, .initial_homes = {}, .dials = dials})
                .data())) {}

  std::uint64_t* at(std::size_t word, std::size_t item = 0) const noexcept {
    return first_ + word * items + item;
  }
  /// What the program's own instructions do. A plain load on x86, an exchange.
  std::uint64_t load(std::size_t word, std::size_t item) const noexcept {
    return std::atomic_ref(*at(word, item)).load();
  }
  void store(std::size_t word, std::size_t item, std::uint64_t value) const noexcept {
    std::atomic_ref(*at(word, item)).store(value);
  }

 private:
  std::uint64_t* first_;
};

}  // namespace craton::space::test
