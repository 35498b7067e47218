#include "coherence/put_by.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fabric/sim/random.hpp"

namespace craton::coherence {

namespace {

using fabric::sim::Random;

constexpr std::size_t kept_bytes = 64;
using Block64 = std::array<std::byte, kept_bytes>;

/// All that was published of a block, in order, from which any of its versions can be told.
struct Published {
  Timestamp write_ts;
  bool is_own;
  Block64 is_written;
  Block64 now;
};

class Model {
 public:
  explicit Model(const Block64& before) : before_(before) {}

  void publish(const Published& more) { all_.push_back(more); }
  /// With what others have published until then, and with all that was published here.
  Block64 version(Timestamp until) const {
    Block64 bytes = before_;
    for (const Published& each : all_) {
      if (!each.is_own && each.write_ts > until) continue;
      for (std::size_t i = 0; i < kept_bytes; ++i)
        if (each.is_written[i] != std::byte{0}) bytes[i] = each.now[i];
    }
    return bytes;
  }

 private:
  const Block64 before_;
  std::vector<Published> all_;
};

Block64 change_some(const Block64& from, Random& random) {
  Block64 changed = from;
  const std::uint64_t sparse = random.pick(std::array<std::uint64_t, 3>{2, 8, 40});
  for (std::byte& byte : changed)
    if (random.one_in(sparse)) byte = static_cast<std::byte>(random.below(4));
  return changed;
}

Published between(const Block64& before, const Block64& now, Timestamp write_ts, bool is_own) {
  Published published{.write_ts = write_ts, .is_own = is_own, .is_written = {}, .now = now};
  for (std::size_t i = 0; i < kept_bytes; ++i) published.is_written[i] = std::byte{now[i] != before[i]};
  return published;
}

constexpr Timestamp all_of_it = ~Timestamp{0};

/// Others send, and the home writes, publishes and acquires, in any order.
TEST(PutBy, KeepsTheCopyAsOldAsItIs) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    const Block64 before = change_some({}, random);
    Model model(before);
    Block64 twin = before;
    Block64 copy = before;
    PutBy put_by(twin.data(), kept_bytes);
    Timestamp now = 1;
    Timestamp acquired = 0;
    for (int step = 0; step < 30; ++step) {
      switch (random.below(4)) {
        case 0: {  // another rank, which has some older version, sends
          const Block64 theirs = model.version(random.below(now + 1));
          const Block64 changed = change_some(theirs, random);
          std::vector<DiffPiece> pieces;
          ASSERT_TRUE(make_diff(changed.data(), theirs.data(), kept_bytes, kept_bytes, pieces));
          model.publish(between(theirs, changed, ++now, false));
          note_diff(pieces, twin.data());
          put_by.add(1, now, pieces);
          break;
        }
        case 1:
          copy = change_some(copy, random);
          break;
        case 2:
          model.publish(between(model.version(acquired), copy, ++now, true));
          put_by.publish(copy.data(), twin.data());
          break;
        default: {
          Block64 expected = copy;
          for (const Timestamp until = random.between(acquired, now); acquired < until; ++acquired) {
            const Block64 older = model.version(acquired);
            const Block64 newer = model.version(acquired + 1);
            for (std::size_t i = 0; i < kept_bytes; ++i)
              if (expected[i] == older[i]) expected[i] = newer[i];
          }
          put_by.catch_up(acquired, copy.data(),
                          [](fabric::Rank /*from*/, const MergeOutcome& /*outcome*/) {});
          ASSERT_EQ(copy, expected) << "seed " << seed << ", step " << step;
          ASSERT_TRUE(put_by.empty() || put_by.first_ts() > acquired) << "seed " << seed;
        }
      }
      ASSERT_EQ(twin, model.version(all_of_it)) << "seed " << seed << ", step " << step;
      const Block64 known = model.version(acquired);
      ASSERT_TRUE(std::equal(known.begin(), known.end(), put_by.base()))
          << "seed " << seed << ", step " << step;
    }
  }
}

/// What both have written is told when it meets, and who sent it.
TEST(PutBy, TellsOfRaces) {
  Block64 twin{};
  Block64 copy{};
  PutBy put_by(twin.data(), kept_bytes);
  Block64 theirs{};
  theirs[40] = std::byte{1};
  std::vector<DiffPiece> pieces;
  ASSERT_TRUE(make_diff(theirs.data(), twin.data(), kept_bytes, kept_bytes, pieces));
  put_by.add(3, 5, pieces);
  copy[40] = std::byte{2};
  fabric::Rank there = 0;
  std::size_t first = MergeOutcome::none;
  put_by.catch_up(4, copy.data(), [&](fabric::Rank /*from*/, const MergeOutcome& /*outcome*/) { there = 9; });
  EXPECT_EQ(there, 0U) << "that was later";
  put_by.catch_up(5, copy.data(), [&](fabric::Rank from, const MergeOutcome& outcome) {
    there = from;
    first = outcome.first_race_byte;
  });
  EXPECT_EQ(there, 3U);
  EXPECT_EQ(first, 40U);
  EXPECT_EQ(copy[40], std::byte{2});
}

}  // namespace

}  // namespace craton::coherence
