/// \file
/// What a rank shows others, when it has shown so much that the count of its bytes begins again.
#include "space/signature_board.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "coherence/signature.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"

namespace craton::space {

namespace {

using coherence::Signature;
using fabric::sim::SimFabric;

constexpr fabric::HandlerId handler = fabric::first_free_handler;

/// Whether ranks read what others show, or ask for it.
class SignatureBoardOf : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Asks, SignatureBoardOf, testing::Bool());

/// At what rank 0 shows. \param version what was seen before; gets what is returned
Signature look(SignatureBoard& board, std::uint64_t& version) {
  SignatureBoard::View view{.rank = 0, .version = version};
  const bool is_news = board.look(std::span(&view, 1));
  EXPECT_EQ(is_news, view.now != version);
  version = view.now;
  return view.signature;
}

TEST_P(SignatureBoardOf, IsReadAfterItsPositionsHaveWrapped) {
  constexpr std::size_t notices = 1024;
  constexpr std::uint64_t wraps_at = std::uint64_t{1} << 40U;
  fabric::sim::World world({.size = 2, .seed = 1, .agents_serve = GetParam()});
  constexpr std::uint64_t rounds = 64;
  std::uint64_t shown = 0;  // by rank 0; its thread and rank 1's take turns
  std::uint64_t read = 0;
  for (fabric::Rank rank = 0; rank < 2; ++rank) {
    world.spawn(rank, [&](SimFabric& fabric) {
      SignatureBoard board(fabric, 0, handler, notices, wraps_at - rounds / 2 * 16 * 1024);
      std::uint64_t version = 0;
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        if (fabric.rank() == 0) {
          while (read != round - 1) fabric.world().preempt();
          Signature signature(notices);
          std::vector<coherence::WriteNotice> written;
          for (std::uint32_t block = 0; block < 512; ++block)
            written.push_back(
                {.source = 0, .segment = 0, .block = block, .write_ts = round, .read_ts = round + 1});
          signature.add(written);
          board.show(signature);
          shown = round;
        } else {
          while (shown != round) fabric.world().preempt();
          const Signature seen = look(board, version);
          ASSERT_EQ(seen.notices().size(), 512U);
          EXPECT_EQ(seen.notices()[511].write_ts, round);
          EXPECT_EQ(look(board, version).notices().size(), 0U) << "nothing new";
          read = round;
        }
      }
      board.close();
    });
  }
  EXPECT_EQ(world.run().failure, "");
}

/// Rank 0 shows, for each round, a write of the block of that number: now and then all of them, otherwise the
/// newest beside what it shows. Rank 1 looks each time, rank 2 seldom; what either is given must be what it
/// has not seen.
TEST_P(SignatureBoardOf, GivesWhatWasAddedToWhoHasSeenTheRest) {
  constexpr std::size_t notices = 64;
  constexpr std::uint64_t rounds = 40'000;  // some ten times round the ring
  constexpr std::uint64_t shown_whole_every = 23;
  constexpr std::uint64_t seldom = 57;
  fabric::sim::World world({.size = 3, .seed = 1, .agents_serve = GetParam()});
  std::uint64_t shown = 0;
  std::uint64_t read[3] = {};
  std::uint64_t whole = 0;  // to rank 1
  for (fabric::Rank rank = 0; rank < 3; ++rank) {
    world.spawn(rank, [&](SimFabric& fabric) {
      SignatureBoard board(fabric, 0, handler, notices);
      const auto written = [](std::uint64_t round) {
        return coherence::WriteNotice{
            .source = 0, .segment = 0, .block = round, .write_ts = round, .read_ts = round + 1};
      };
      if (fabric.rank() == 0) {
        Signature all(notices);
        for (std::uint64_t round = 1; round <= rounds; ++round) {
          while (read[1] != round - 1 || read[2] != (round - 1) / seldom * seldom) fabric.world().preempt();
          const std::vector news{written(round)};
          all.add(news);
          if (round % shown_whole_every == 0 || !board.show_more(round / 2, round / 3, news)) board.show(all);
          shown = round;
        }
      } else {
        std::uint64_t version = 0;
        const std::uint64_t step = fabric.rank() == 1 ? 1 : seldom;
        for (std::uint64_t round = step; round <= rounds; round += step) {
          while (shown < round) fabric.world().preempt();
          const Signature seen = look(board, version);
          const auto found = [&](std::uint64_t block) {
            return std::ranges::any_of(seen.notices(), [&](const auto& each) { return each.block == block; });
          };
          for (std::uint64_t block = round - step + 1; block <= round; ++block)
            ASSERT_TRUE(found(block))
                << "block " << block << ", round " << round << ", rank " << fabric.rank();
          if (fabric.rank() == 1 && seen.notices().size() != 1) ++whole;
          read[fabric.rank()] = round;
        }
      }
      board.close();
    });
  }
  EXPECT_EQ(world.run().failure, "");
  // Where it was shown whole, and where the ring ended.
  EXPECT_GE(whole, rounds / shown_whole_every - 1);
  EXPECT_LE(whole, rounds / shown_whole_every + rounds / 1000);
}

}  // namespace

}  // namespace craton::space
