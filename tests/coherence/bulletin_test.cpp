/// \file
/// What ranks that flush are told by the keeper of the bulletin: simulated ranks that take turns.
#include "coherence/bulletin.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::SimFabric;
using Ranks = std::vector<Rank>;

constexpr fabric::HandlerId bulletin_handler = fabric::first_free_handler;
constexpr std::size_t notices_most = 1024;
constexpr std::uint64_t bulletin_seeds = 20;

std::vector<std::byte> encoded(std::uint64_t first, std::uint64_t end) {
  Signature own(notices_most);
  std::vector<WriteNotice> written;
  for (std::uint64_t block = first; block < end; ++block)
    written.push_back(
        {.source = 0, .segment = 0, .block = block, .write_ts = block + 1, .read_ts = block + 2});
  own.add(written);
  std::vector<std::byte> bytes(own.encoded_bytes());
  own.encode(bytes.data());
  return bytes;
}

struct Step {
  Rank rank;
  std::function<void(Bulletin&)> run;
};

/// Each turn begins when the one before it has ended. \returns what failed
std::string post_in_turn(std::uint64_t seed, Rank ranks, const std::vector<Step>& turns) {
  fabric::sim::World world({.size = ranks, .seed = seed, .agents_serve = true});
  std::size_t done = 0;
  std::vector<SimFabric*> fabrics(ranks);
  std::vector<std::unique_ptr<Bulletin>> bulletins(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) {
    world.spawn(rank, [&, rank](SimFabric& fabric) {
      fabrics[rank] = &fabric;
      bulletins[rank] = std::make_unique<Bulletin>(fabric, bulletin_handler, notices_most);
      EXPECT_TRUE(bulletins[rank]->is_used());
      ++done;
      const auto notify = [&] {
        for (SimFabric* each : fabrics)
          if (each != nullptr) each->notify();
      };
      notify();
      for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        static_cast<void>(fabric.wait_until([&] { return done >= ranks + turn; }, no_deadline));
        if (turns[turn].rank != rank) continue;
        turns[turn].run(*bulletins[rank]);
        ++done;
        notify();
      }
      static_cast<void>(fabric.wait_until([&] { return done == ranks + turns.size(); }, no_deadline));
    });
  }
  return world.run().failure;
}

/// A post, and what it must be told.
Step post(Rank rank, std::pair<std::uint64_t, std::uint64_t> own, std::vector<std::uint64_t> news,
          Ranks ask) {
  return {rank, [own, news = std::move(news), ask = std::move(ask)](Bulletin& bulletin) {
            const Bulletin::Told told = bulletin.post(encoded(own.first, own.second));
            std::vector<std::uint64_t> blocks;
            for (const WriteNotice& notice : told.news.notices()) blocks.push_back(notice.block);
            EXPECT_EQ(blocks, news);
            EXPECT_EQ(told.ask, ask);
          }};
}
constexpr std::pair<std::uint64_t, std::uint64_t> nothing{0, 0};
std::pair<std::uint64_t, std::uint64_t> block_of(std::uint64_t number) {
  return {number, number + 1};
}

TEST(Bulletin, TellsEachRankOnceWhatOthersHavePosted) {
  for (std::uint64_t seed = 1; seed <= bulletin_seeds; ++seed) {
    const std::vector<Step> turns = {
        // Who posts for the first time asks all. Who has not posted yet must be asked each time, and once
        // more when it has.
        post(0, nothing, {}, {1, 2}),     post(1, nothing, {}, {0, 2}),  post(1, block_of(7), {}, {2}),
        post(2, block_of(8), {}, {0, 1}), post(2, nothing, {}, {}),      post(0, block_of(9), {7, 8}, {1, 2}),
        post(0, nothing, {}, {}),         post(1, nothing, {8, 9}, {2}), post(2, nothing, {9}, {}),
    };
    ASSERT_EQ(post_in_turn(seed, 3, turns), "") << "seed " << seed;
  }
}

TEST(Bulletin, LetsAskWhoHasStopped) {
  for (std::uint64_t seed = 1; seed <= bulletin_seeds; ++seed) {
    for (const Rank stops : {Rank{0}, Rank{1}}) {
      const Rank other = 1 - stops;
      const std::vector<Step> turns = {
          post(other, nothing, {}, {stops}),
          post(stops, nothing, {}, {other}),
          post(other, nothing, {}, {stops}),
          post(other, nothing, {}, {}),
          {stops, [](Bulletin& bulletin) { bulletin.stop(); }},
          post(other, nothing, {}, {stops}),
          post(other, block_of(3), {}, {stops}),
          post(stops, block_of(4), {3}, {}),
          post(other, nothing, {4}, {stops}),
          post(other, nothing, {}, {}),
      };
      ASSERT_EQ(post_in_turn(seed, 2, turns), "") << "seed " << seed;
    }
  }
}

/// In several messages, each way, up to what is put by for one rank; and who does not look for so long that
/// it is too much asks all, and is told what comes after that.
TEST(Bulletin, PutsByWhatThereIsRoomFor) {
  constexpr std::uint64_t room = 256;
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < room; ++i) all.push_back(i);
  for (std::uint64_t seed = 1; seed <= bulletin_seeds; ++seed) {
    const std::vector<Step> turns = {
        post(0, nothing, {}, {1, 2}),
        post(1, nothing, {}, {0, 2}),
        post(2, nothing, {}, {0, 1}),
        post(0, nothing, {}, {1, 2}),
        post(1, nothing, {}, {2}),
        post(1, {0, room}, {}, {}),
        post(2, nothing, all, {}),
        post(0, block_of(300), all, {}),
        post(1, {400, 400 + room}, {300}, {}),
        post(2, block_of(301), {}, {0, 1}),
        post(2, nothing, {}, {}),
        post(1, block_of(302), {301}, {}),
        post(2, nothing, {302}, {}),
    };
    ASSERT_EQ(post_in_turn(seed, 3, turns), "") << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
