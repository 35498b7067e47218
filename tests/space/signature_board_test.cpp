/// \file
/// What a rank shows others, when it has shown so much that the count of its bytes begins again.
#include "space/signature_board.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "coherence/signature.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"

namespace craton::space {

namespace {

using coherence::Signature;
using fabric::sim::SimFabric;

TEST(SignatureBoard, IsReadAfterItsPositionsHaveWrapped) {
  constexpr std::size_t notices = 1024;
  constexpr std::uint64_t wraps_at = std::uint64_t{1} << 40U;
  fabric::sim::World world({.size = 2, .seed = 1});
  constexpr std::uint64_t rounds = 64;
  std::uint64_t shown = 0;  // by rank 0; its thread and rank 1's take turns
  std::uint64_t read = 0;
  for (fabric::Rank rank = 0; rank < 2; ++rank) {
    world.spawn(rank, [&](SimFabric& fabric) {
      SignatureBoard board(fabric, 0, notices, wraps_at - rounds / 2 * 16 * 1024);
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
          const Signature seen = board.look(0, version);
          ASSERT_EQ(seen.notices().size(), 512U);
          EXPECT_EQ(seen.notices()[511].write_ts, round);
          EXPECT_EQ(board.look(0, version).notices().size(), 0U) << "nothing new";
          read = round;
        }
      }
      board.close();
    });
  }
  EXPECT_EQ(world.run().failure, "");
}

}  // namespace

}  // namespace craton::space
