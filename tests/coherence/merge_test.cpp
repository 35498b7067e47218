#include "coherence/merge.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "fabric/sim/random.hpp"

namespace craton::coherence {

namespace {

using fabric::sim::Random;

constexpr std::size_t bytes = 256;
using Block = std::array<std::byte, bytes>;

/// What merging must give, a byte at a time.
struct Expected {
  Block data;
  Block twin;
  MergeOutcome outcome;
};

Expected merge_simply(const Block& data, const Block& twin, const Block& incoming) {
  Expected expected{.data = data, .twin = twin, .outcome = {}};
  for (std::size_t i = 0; i < bytes; ++i) {
    const bool there = incoming[i] != twin[i];
    const bool here = data[i] != twin[i];
    expected.outcome.written_there |= there;
    if (there && !here) expected.data[i] = incoming[i];
    if (!here) expected.twin[i] = incoming[i];
    if (there && here && data[i] != incoming[i]) {
      if (expected.outcome.race_bytes++ == 0) expected.outcome.first_race_byte = i;
    }
  }
  return expected;
}

using Merge = MergeOutcome (*)(std::byte*, std::byte*, const std::byte*, std::size_t) noexcept;

class Merging : public testing::TestWithParam<Merge> {};

TEST_P(Merging, IsThatOfEachByte) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    Block twin{};
    for (std::byte& byte : twin) byte = static_cast<std::byte>(random.below(3));
    Block data = twin;
    Block incoming = twin;
    const std::uint64_t sparse = random.pick(std::array<std::uint64_t, 4>{1, 3, 20, 200});
    for (std::size_t i = 0; i < bytes; ++i) {
      if (random.one_in(sparse)) data[i] = static_cast<std::byte>(random.below(3));
      if (random.one_in(sparse)) incoming[i] = static_cast<std::byte>(random.below(3));
    }
    const Expected expected = merge_simply(data, twin, incoming);
    const MergeOutcome outcome = GetParam()(data.data(), twin.data(), incoming.data(), bytes);
    ASSERT_EQ(data, expected.data) << "seed " << seed;
    ASSERT_EQ(twin, expected.twin) << "seed " << seed;
    ASSERT_EQ(outcome.written_there, expected.outcome.written_there) << "seed " << seed;
    ASSERT_EQ(outcome.race_bytes, expected.outcome.race_bytes) << "seed " << seed;
    ASSERT_EQ(outcome.first_race_byte, expected.outcome.first_race_byte) << "seed " << seed;
  }
}

// Table 3.1 of the dissertation merges by exclusive-or, which would bring the old value back here.
TEST_P(Merging, KeepsAValueThatBothWrote) {
  Block twin{};
  Block data = twin;
  Block incoming = twin;
  data[7] = incoming[7] = std::byte{5};
  const MergeOutcome outcome = GetParam()(data.data(), twin.data(), incoming.data(), bytes);
  EXPECT_EQ(data[7], std::byte{5});
  EXPECT_EQ(outcome.race_bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Blocks, Merging, testing::Values(&merge_closed, &merge_open));

}  // namespace

}  // namespace craton::coherence
