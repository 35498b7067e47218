#include "coherence/diff.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/sim/random.hpp"

namespace craton::coherence {

namespace {

using fabric::sim::Random;

constexpr std::size_t diffed_bytes = 256;
using Bytes = std::array<std::byte, diffed_bytes>;

/// A rank and the home start from the same block, and each writes some of it.
struct Written {
  Bytes before{};
  Bytes there{};
  Bytes here{};
};

Written write_some(Random& random) {
  Written written;
  for (std::byte& byte : written.before) byte = static_cast<std::byte>(random.below(3));
  written.there = written.here = written.before;
  const std::uint64_t sparse = random.pick(std::array<std::uint64_t, 4>{1, 3, 20, 200});
  for (std::size_t i = 0; i < diffed_bytes; ++i) {
    if (random.one_in(sparse)) written.there[i] = static_cast<std::byte>(random.below(3));
    if (random.one_in(sparse)) written.here[i] = static_cast<std::byte>(random.below(3));
  }
  return written;
}

TEST(Diff, IsMergedAsEachByte) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    const Written written = write_some(random);
    std::vector<DiffPiece> pieces;
    ASSERT_TRUE(make_diff(written.there.data(), written.before.data(), diffed_bytes, diffed_bytes, pieces));
    Bytes data = written.here;
    Bytes twin = written.before;
    const MergeOutcome outcome = merge_diff(pieces, data.data(), twin.data());
    std::size_t races = 0;
    std::size_t first = MergeOutcome::none;
    for (std::size_t i = 0; i < diffed_bytes; ++i) {
      const bool there = written.there[i] != written.before[i];
      const bool here = written.here[i] != written.before[i];
      ASSERT_EQ(twin[i], written.there[i]) << "byte " << i << ", seed " << seed;
      ASSERT_EQ(data[i], there && !here ? written.there[i] : written.here[i])
          << "byte " << i << ", seed " << seed;
      if (there && here && written.there[i] != written.here[i] && races++ == 0) first = i;
    }
    ASSERT_EQ(outcome.race_bytes, races) << "seed " << seed;
    ASSERT_EQ(outcome.first_race_byte, first) << "seed " << seed;
    ASSERT_EQ(outcome.written_there, !pieces.empty()) << "seed " << seed;
  }
}

/// What others have made of the rest of the twin since, it does not bring back.
TEST(Diff, IsNotedAsEachByte) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    const Written written = write_some(random);
    std::vector<DiffPiece> pieces;
    ASSERT_TRUE(make_diff(written.there.data(), written.before.data(), diffed_bytes, diffed_bytes, pieces));
    Bytes twin = written.here;
    note_diff(pieces, twin.data());
    for (std::size_t i = 0; i < diffed_bytes; ++i) {
      const bool there = written.there[i] != written.before[i];
      ASSERT_EQ(twin[i], there ? written.there[i] : written.here[i]) << "byte " << i << ", seed " << seed;
    }
  }
}

TEST(Diff, EndsWhereItIsTooMuch) {
  Bytes before{};
  Bytes now{};
  for (std::size_t piece = 0; piece < 3; ++piece) now[piece * DiffPiece::bytes + 5] = std::byte{1};
  std::vector<DiffPiece> pieces;
  EXPECT_FALSE(make_diff(now.data(), before.data(), diffed_bytes, 2, pieces));
  pieces.clear();
  EXPECT_TRUE(make_diff(now.data(), before.data(), diffed_bytes, 3, pieces));
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces.back().index, 2U);
  EXPECT_EQ(pieces.back().changed, 1U << 5U);
}

}  // namespace

}  // namespace craton::coherence
