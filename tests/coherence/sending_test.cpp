/// \file
/// Blocks whose homes stay where they are (lease_segment_send.cpp): simulated ranks that take turns.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

constexpr Rank sender = 0, home = 1, third = 2;
/// Those with which operations need the target's CPU: take_steps().
constexpr std::uint64_t first_seed = 2, last_seed = 100, next_seed = 2;
constexpr std::uint64_t sender_word = 0, home_word = 1, third_word = 2, far_word = 5;

SegmentShape sending_shape() {
  SegmentShape shape;
  shape.initial_homes = {.kind = InitialHomes::Kind::one, .rank = sender};
  shape.dials.send_after = 2;
  shape.dials.send_one_in = 1;
  shape.dials.sole_copies = false;
  return shape;
}

Turn write_one(Rank rank, std::uint64_t word, std::uint64_t value) {
  return {rank, [=](SimRank& self) {
            self.protocol().acquire(rank == sender ? home : sender, 1);
            write(self, 0, word, value);
            self.protocol().release();
          }};
}

/// Both write a word of the block in turn, until one has seen the home come back to it so often that it
/// stays.
std::vector<Turn> until_it_stays() {
  std::vector<Turn> turns;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    turns.push_back(write_one(sender, sender_word, i));
    turns.push_back(write_one(home, home_word, i));
  }
  return turns;
}

std::uint64_t count(SimRank& rank, Counters::Count Counters::*what) {
  return rank.protocol().count(what);
}

TEST(Sending, LeavesTheHomeWhereItIs) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    std::uint64_t merges = 0;
    std::uint64_t fetched = 0;
    std::uint64_t found = 0;
    constexpr std::uint64_t times = 10;
    turns.push_back({home, [&](SimRank& self) { merges = count(self, &Counters::merges); }});
    turns.push_back(write_one(sender, sender_word, 4));
    turns.push_back({home, [&](SimRank& self) { fetched = count(self, &Counters::fetched_bytes); }});
    for (std::uint64_t i = 1; i <= times; ++i) {
      turns.push_back(write_one(home, home_word, 10 + i));
      turns.push_back(write_one(sender, sender_word, 10 + i));
      turns.push_back({home, [&](SimRank& self) {
                         self.protocol().acquire(sender, 1);
                         found += read(self, 0, sender_word);
                       }});
    }
    turns.push_back({home, [&](SimRank& self) {
                       merges = count(self, &Counters::merges) - merges;
                       fetched = count(self, &Counters::fetched_bytes) - fetched;
                     }});
    std::uint64_t sent = 0;
    turns.push_back({sender, [&](SimRank& self) { sent = count(self, &Counters::sent); }});
    ASSERT_EQ(take_turns(seed, 2, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(sent, times + 1) << "seed " << seed;
    ASSERT_EQ(found, times * 10 + times * (times + 1) / 2) << "seed " << seed;
    ASSERT_EQ(merges, 0U) << "seed " << seed;
    ASSERT_EQ(fetched, 0U) << "seed " << seed << ": a home needs no bytes";
  }
}

/// More than a message has room for.
TEST(Sending, TakesAsManyMessagesAsItNeeds) {
  constexpr std::uint64_t words = 512;
  SegmentShape shape = sending_shape();
  shape.block_bytes = 2 * words * sizeof(std::uint64_t);
  const auto write_half = [](Rank rank, std::uint64_t value) {
    return Turn{rank, [=](SimRank& self) {
                  self.protocol().acquire(rank == sender ? home : sender, 1);
                  for (std::uint64_t i = 0; i < words; ++i) write(self, 0, 2 * i + rank, value + i);
                  self.protocol().release();
                }};
  };
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns;
    constexpr std::uint64_t times = 5;
    for (std::uint64_t i = 1; i <= times; ++i) {
      turns.push_back(write_half(sender, i));
      turns.push_back(write_half(home, i));
    }
    std::uint64_t sent = 0;
    turns.push_back({sender, [&](SimRank& self) { sent = count(self, &Counters::sent); }});
    std::uint64_t wrong = 0;
    turns.push_back({home, [&](SimRank& self) {
                       self.protocol().acquire(sender, 1);
                       for (std::uint64_t i = 0; i < 2 * words; ++i)
                         wrong += read(self, 0, i) != times + i / 2 ? 1 : 0;
                     }});
    ASSERT_EQ(take_turns(seed, 2, shape, turns), "") << "seed " << seed;
    ASSERT_GT(sent, 0U) << "seed " << seed;
    ASSERT_EQ(wrong, 0U) << "seed " << seed;
  }
}

/// To a third rank that asks the home alone, after that one has acquired it.
TEST(Sending, IsPassedOnByTheHome) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back({third, [](SimRank& self) {
                       self.protocol().acquire(home, 1);
                       static_cast<void>(read(self, 0, sender_word));
                     }});
    turns.push_back(write_one(sender, sender_word, 4));
    turns.push_back({home, [](SimRank& self) {
                       self.protocol().acquire(sender, 1);
                       self.protocol().release();
                     }});
    std::uint64_t found = 0;
    turns.push_back({third, [&](SimRank& self) {
                       self.protocol().acquire(home, 1);
                       found = read(self, 0, sender_word);
                     }});
    ASSERT_EQ(take_turns(seed, 3, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(found, 4U) << "seed " << seed;
  }
}

/// A home that has gone says where to, so what was sent follows it there.
TEST(Sending, FollowsAHomeThatHasGone) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back({third, [](SimRank& self) {
                       self.protocol().acquire(home, 1);
                       write(self, 0, third_word, 7);
                       self.protocol().release();
                     }});
    std::uint64_t sent = 0, in_vain = 0;
    turns.push_back({sender, [&](SimRank& self) {
                       sent = count(self, &Counters::sent);
                       write(self, 0, sender_word, 4);  // as far as it knows the home is where it was
                       self.protocol().release();
                       sent = count(self, &Counters::sent) - sent;
                       in_vain = count(self, &Counters::sent_in_vain);
                     }});
    std::vector<std::uint64_t> found;
    for (const Rank rank : {third, home}) {
      turns.push_back({rank, [&found](SimRank& self) {
                         self.protocol().acquire(sender, 1);
                         found.push_back(read(self, 0, sender_word));
                         found.push_back(read(self, 0, third_word));
                       }});
    }
    ASSERT_EQ(take_turns(seed, 3, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(sent, 1U) << "seed " << seed;
    ASSERT_EQ(in_vain, 0U) << "seed " << seed;
    ASSERT_EQ(found, (std::vector<std::uint64_t>{4, 7, 4, 7})) << "seed " << seed;
  }
}

/// What was sent is published: who goes on writing the block sends it no more.
TEST(Sending, IsDoneOnce) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back(write_one(sender, sender_word, 4));
    turns.push_back(write_one(home, sender_word, 5));
    turns.push_back({sender, [](SimRank& self) {  // which has not acquired that
                       write(self, 0, third_word, 6);
                       self.protocol().release();
                     }});
    std::uint64_t found = 0;
    turns.push_back({home, [&](SimRank& self) {
                       self.protocol().acquire(sender, 1);
                       found = read(self, 0, sender_word);
                     }});
    ASSERT_EQ(take_turns(seed, 2, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(found, 5U) << "seed " << seed;
  }
}

/// A rank that has not acquired what others wrote before it sends something has that in its copy afterwards,
/// and what they wrote not, until it acquires it; where they had it before they had what was sent.
TEST(Sending, LeavesACopyAsOldAsItWas) {
  SegmentShape shape = sending_shape();
  shape.dials.send_one_in = 2;  // so that who writes all over the block takes its home
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back({third, [](SimRank& self) {
                       self.protocol().acquire(home, 1);
                       write(self, 0, third_word, 4);
                       self.protocol().release();
                     }});
    turns.push_back({home, [](SimRank& self) {
                       self.protocol().acquire(third, 1);
                       write(self, 0, home_word, 5);
                       write(self, 0, far_word, 5);
                       self.protocol().release();
                     }});
    std::uint64_t sent = 0;
    std::uint64_t found = 0;
    std::uint64_t own = 0;
    turns.push_back({sender, [&](SimRank& self) {
                       write(self, 0, sender_word, 6);
                       self.protocol().release();
                       sent = count(self, &Counters::sent);
                       self.protocol().acquire(third, 1);
                       found = read(self, 0, third_word);
                       own = read(self, 0, sender_word);
                     }});
    ASSERT_EQ(take_turns(seed, 3, shape, turns), "") << "seed " << seed;
    ASSERT_EQ(sent, 1U) << "seed " << seed;
    ASSERT_EQ(found, 4U) << "seed " << seed;
    ASSERT_EQ(own, 6U) << "seed " << seed;
  }
}

/// The home goes to who is alone to write the block.
TEST(Sending, EndsWhereNobodyElseWrites) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    std::uint64_t sent = 0;
    for (std::uint64_t i = 1; i <= 10; ++i) turns.push_back(write_one(sender, sender_word, 3 + i));
    turns.push_back({sender, [&](SimRank& self) { sent = count(self, &Counters::sent); }});
    ASSERT_EQ(take_turns(seed, 2, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(sent, 5U) << "seed " << seed;
  }
}

/// The home's threads see what was sent when they have acquired it, and not before; then it needs no bytes.
TEST(Sending, IsSeenAtHomeOnceItIsAcquired) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back(write_one(home, home_word, 4));
    turns.push_back(write_one(sender, sender_word, 4));
    std::uint64_t sent = 0;
    turns.push_back({sender, [&](SimRank& self) { sent = count(self, &Counters::sent); }});
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    turns.push_back({home, [&](SimRank& self) {
                       before = read(self, 0, sender_word);
                       self.protocol().acquire(sender, 1);
                       after = read(self, 0, sender_word);
                     }});
    ASSERT_EQ(take_turns(seed, 2, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(sent, 1U) << "seed " << seed;
    ASSERT_EQ(before, 3U) << "seed " << seed;
    ASSERT_EQ(after, 4U) << "seed " << seed;
  }
}

/// What the home publishes before it has acquired what was sent does not take that back; and its notice,
/// which takes the place of the one of what was sent, brings that to the home as well.
TEST(Sending, IsPublishedWithWhatItsHomeWrites) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back(write_one(sender, sender_word, 4));
    std::uint64_t before = 0;
    turns.push_back({home, [&](SimRank& self) {
                       write(self, 0, home_word, 5);
                       self.protocol().release();
                       before = read(self, 0, sender_word);
                     }});
    std::uint64_t at_third = 0;
    turns.push_back({third, [&](SimRank& self) {
                       self.protocol().acquire(sender, 1);
                       self.protocol().acquire(home, 1);
                       at_third = read(self, 0, sender_word) * 10 + read(self, 0, home_word);
                       self.protocol().release();
                     }});
    std::uint64_t after = 0;
    turns.push_back({home, [&](SimRank& self) {
                       self.protocol().acquire(third, 1);
                       after = read(self, 0, sender_word) * 10 + read(self, 0, home_word);
                     }});
    ASSERT_EQ(take_turns(seed, 3, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(before, 3U) << "seed " << seed;
    ASSERT_EQ(at_third, 45U) << "seed " << seed;
    ASSERT_EQ(after, 45U) << "seed " << seed;
  }
}

/// A home that has not acquired it may lose the block, and write it again: who is told to get what was sent
/// from there finds it in its twin.
TEST(Sending, StaysWhereItsNoticeSaysThatItIs) {
  constexpr Rank fourth = 3;
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back(write_one(sender, sender_word, 4));
    turns.push_back({third, [](SimRank& self) {
                       self.protocol().acquire(home, 1);
                       write(self, 0, third_word, 6);
                       self.protocol().release();
                     }});
    std::uint64_t before = 0;
    turns.push_back({home, [&](SimRank& self) {
                       write(self, 0, home_word, 7);
                       before = read(self, 0, sender_word);
                     }});
    std::uint64_t at_fourth = 0;
    turns.push_back({fourth, [&](SimRank& self) {
                       self.protocol().acquire(sender, 1);
                       at_fourth = read(self, 0, sender_word);
                     }});
    turns.push_back({home, [](SimRank& self) { self.protocol().release(); }});
    std::uint64_t all = 0;
    turns.push_back({fourth, [&](SimRank& self) {
                       self.protocol().acquire(home, 1);
                       self.protocol().acquire(third, 1);
                       all = read(self, 0, sender_word) * 100 + read(self, 0, third_word) * 10 +
                             read(self, 0, home_word);
                     }});
    ASSERT_EQ(take_turns(seed, 4, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(before, 3U) << "seed " << seed;
    ASSERT_EQ(at_fourth, 4U) << "seed " << seed;
    ASSERT_EQ(all, 467U) << "seed " << seed;
  }
}

/// What is written at the home again and again is published each time, as long as something is put by there.
TEST(Sending, OutlastsManyReleasesOfItsHome) {
  SegmentShape shape = sending_shape();
  shape.dials.sole_copies = true;
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back(write_one(sender, sender_word, 4));
    std::uint64_t sent = 0;
    turns.push_back({sender, [&](SimRank& self) { sent = count(self, &Counters::sent); }});
    turns.push_back({home, [](SimRank& self) {
                       for (std::uint64_t i = 1; i <= 100; ++i) {
                         write(self, 0, home_word, i);
                         self.protocol().release();
                       }
                     }});
    std::uint64_t found = 0;
    turns.push_back({third, [&](SimRank& self) {
                       self.protocol().acquire(sender, 1);
                       self.protocol().acquire(home, 1);
                       found = read(self, 0, sender_word) * 1000 + read(self, 0, home_word);
                     }});
    ASSERT_EQ(take_turns(seed, 3, shape, turns), "") << "seed " << seed;
    ASSERT_EQ(sent, 1U) << "seed " << seed;
    ASSERT_EQ(found, 4100U) << "seed " << seed;
  }
}

/// An atomic update finds the newest value.
TEST(Sending, IsUpdatedAtItsHome) {
  for (std::uint64_t seed = first_seed; seed <= last_seed; seed += next_seed) {
    std::vector<Turn> turns = until_it_stays();
    turns.push_back(write_one(sender, sender_word, 4));
    std::uint64_t found = 0;
    turns.push_back({home, [&](SimRank& self) {
                       self.update(0, sender_word * sizeof found, sizeof found,
                                   [&](std::byte* word) { std::memcpy(&found, word, sizeof found); });
                     }});
    ASSERT_EQ(take_turns(seed, 2, sending_shape(), turns), "") << "seed " << seed;
    ASSERT_EQ(found, 4U) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
