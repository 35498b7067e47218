/// \file
/// Programs in which strong blocks, weak blocks, and blocks that become the one and the other carry what
/// threads know of each other, on random schedules. Every read of weak memory that the program is allowed is
/// checked.
///
///     signals   strong words, one a thread. A thread that reads another's knows what that one knew when it
///               wrote it: which groups of items are published, and so may be read for ever
///     tokens    strong words, one a group: they name the thread that may write the group's items
///     atomics   words in blocks that rise and fall; they count exactly, and carry tokens and what is known.
///               Who just reads one that was last changed while its block was strong knows what was known
///               then, whether the block has become weak since or not
///     items     1 to 8 bytes each, close together: in weak blocks, and beside the atomics
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/sim/random.hpp"
#include "schedules.hpp"
#include "sim_run.hpp"
#include "sim_space.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;

constexpr SegmentId weak_segment = 0;
constexpr SegmentId strong_segment = 1;
constexpr SegmentId changing_segment = 2;

using Known = std::uint32_t;  ///< a bit a group: it is published

struct Word {
  SegmentId segment;
  std::uint64_t offset;
  std::size_t bytes;
  std::uint64_t value = 0;
};

struct MixedGroup {
  std::vector<Word> items;
  Word token;
  std::optional<std::size_t> holder;  ///< none: it is named by the token, or lies in an atomic's mailbox
  std::uint64_t given = 0;            ///< how often the token was: no two of its values are the same
  bool is_offered = false;            ///< the token's last value may be taken
  bool published = false;
};

struct Signal {
  Word word;
  std::vector<Known> carried{0};  ///< by value: what its writer knew
};

struct MixedAtomic {
  Word word;
  Known carried = 0;
  std::vector<std::size_t> mailbox;  ///< groups
  // The last change that was made while the block was strong.
  std::optional<std::uint64_t> strong_value;
  Known strong_carried = 0;
};

constexpr std::array<std::pair<const char*, Counters::Count Counters::*>, 12> mixed_counts{{
    {"strong reads", &Counters::strong_reads},
    {"strong releases", &Counters::strong_releases},
    {"rises", &Counters::rises},
    {"falls", &Counters::falls},
    {"falls called off", &Counters::falls_called_off},
    {"holds", &Counters::holds},
    {"merges", &Counters::merges},
    {"sent", &Counters::sent},
    {"sole", &Counters::sole},
    {"shared", &Counters::shared},
    {"expirations", &Counters::expirations},
    {"fast reads", &Counters::fast_reads},
}};

class MixedRun : public SimRun {
 public:
  explicit MixedRun(std::uint64_t seed) : SimRun(seed, 0x6d69786564ULL) {}

  std::string go() {
    const Rank ranks = static_cast<Rank>(random_.between(2, 4));
    threads_ = static_cast<unsigned>(random_.between(1, 2));
    phases_ = static_cast<unsigned>(random_.between(1, 2));
    steps_ = static_cast<unsigned>(random_.between(6, 20));
    notices_ = random_.pick(std::array<std::size_t, 4>{0, 1, 3, 1024});
    make_program(ranks);
    make_world(ranks);
    return told(run_ranks([this](SimFabric& fabric) { main(fabric); }), "Part/MixedPrograms.*/0");
  }

 private:
  Dials random_dials(Strength strength) {
    Dials dials;
    dials.home = random_.one_in(4) ? Home::fixed : Home::floating;
    dials.invalidation = random_.one_in(4) ? Invalidation::directory : Invalidation::leases;
    dials.release = dials.home == Home::fixed || random_.one_in(4) ? Release::plain : Release::fast;
    dials.lease = random_.pick(std::array<Timestamp, 3>{1, 16, 1000});
    dials.hot_blocks = !random_.one_in(3);
    dials.cool_after = random_.pick(std::array<std::uint32_t, 2>{1, 4});
    dials.looks_a_fault = random_.pick(std::array<std::uint32_t, 2>{0, 80});
    dials.sole_copies = !random_.one_in(3);
    dials.probe_one_in = 2;
    dials.send_after = random_.pick(std::array<std::uint8_t, 3>{0, 2, Dials::never});
    dials.send_one_in = 1;
    dials.strength = strength;
    dials.hold_ns = random_.pick(std::array<TimeNs, 3>{100, 2'000, 20'000});
    dials.fall_after_ns = random_.pick(std::array<TimeNs, 3>{1'000, 10'000, 100'000});
    return dials;
  }

  void make_program(Rank ranks) {
    shapes_.resize(3);
    for (SegmentShape& shape : shapes_) {
      shape.block_bytes = 32;
      shape.blocks = random_.between(1, 3);
      shape.initial_homes.kind = random_.one_in(2) ? InitialHomes::Kind::cyclic : InitialHomes::Kind::one;
      shape.initial_homes.rank = static_cast<Rank>(random_.below(ranks));
    }
    shapes_[weak_segment].dials = random_dials(Strength::release);
    shapes_[strong_segment].dials = random_dials(Strength::strong);
    shapes_[changing_segment].dials = random_dials(random_.pick(
        std::array{Strength::automatic, Strength::release, Strength::release, Strength::strong}));
    for (SegmentShape& shape : shapes_) shape.dials.causal = is_causal_ && shape.dials.home == Home::floating;
    groups_.resize(random_.between(1, 5));
    signals_.resize(ranks * threads_);
    knows_.resize(signals_.size());
    // Strong words lie in blocks of their segment at random.
    std::uint64_t at = 0;
    const auto next_strong = [&] {
      at += sizeof(std::uint64_t) * (random_.one_in(3) ? 4 : 1);
      shapes_[strong_segment].blocks = at / shapes_[strong_segment].block_bytes + 1;
      return Word{.segment = strong_segment, .offset = at, .bytes = 8};
    };
    for (Signal& signal : signals_) signal.word = next_strong();
    for (MixedGroup& group : groups_) {
      group.token = next_strong();
      group.holder = random_.below(signals_.size());
    }
    for (const SegmentId segment : {weak_segment, changing_segment}) {
      const std::uint64_t end = shapes_[segment].block_bytes * shapes_[segment].blocks;
      for (std::uint64_t offset = 0; offset < end;) {
        std::size_t bytes = random_.pick(std::array<std::size_t, 4>{1, 2, 4, 8});
        while (offset % bytes != 0) bytes /= 2;
        const Word word{.segment = segment, .offset = offset, .bytes = bytes};
        if (segment == changing_segment && random_.one_in(3)) {
          atomics_.push_back({.word = word, .carried = 0, .mailbox = {}, .strong_value = {}});
        } else {
          groups_[random_.below(groups_.size())].items.push_back(word);
        }
        offset += bytes;
      }
    }
  }

  void main(SimFabric& fabric) {
    const Rank rank = fabric.rank();
    ranks_[rank] = std::make_unique<SimRank>(
        fabric, shapes_, SpaceDials{.notice_capacity = notices_, .barrier_factor = seed_ % 2 == 0 ? 1U : 16U},
        threads_, 1);
    ranks_[rank]->protocol().set_race_handler(
        [](void* self, const Race& race) {
          static_cast<MixedRun*>(self)->world_->fail("a race was reported where there is none: block " +
                                                     std::to_string(race.block));
        },
        this);
    unsigned left = threads_;
    for (unsigned thread = 1; thread < threads_; ++thread) {
      world_->spawn(rank, [this, thread, &left](SimFabric& own) {
        run_thread(own.rank(), thread);
        --left;
        own.notify();
      });
    }
    run_thread(rank, 0);
    --left;
    static_cast<void>(fabric.wait_until([&] { return left == 0; }, no_deadline));
    ranks_[rank]->close();
    for (const auto& [name, count] : mixed_counts) seen[name] += ranks_[rank]->protocol().count(count);
  }

  void run_thread(Rank rank, unsigned thread) {
    const std::size_t self = rank * threads_ + thread;
    ranks_[rank]->barrier().wait();
    if (thread == 0 && random_.one_in(8)) {
      ranks_[rank]->protocol().segment(changing_segment).pin(random_.below(shapes_[changing_segment].blocks));
      ++seen["pins"];
    }
    for (unsigned phase = 0; phase < phases_; ++phase) {
      known_to_all_[phase] |= knows_[self];
      ranks_[rank]->barrier().wait();
      knows_[self] |= known_to_all_[phase];
      for (unsigned step = 0; step < steps_; ++step) {
        if (random_.one_in(3)) world_->preempt();
        switch (random_.below(8)) {
          case 0:
            read_signal(rank, self);
            break;
          case 1:
            write_signal(rank, self);
            break;
          case 2:
            use_atomic(rank, self);
            break;
          case 3:
            take_token(rank, self);
            break;
          case 4:
            give_token(rank, self);
            break;
          case 5:
            if (random_.one_in(3)) change_strength(rank);
            look_at_atomic(rank, self);
            break;
          default:
            touch(rank, self, random_.below(groups_.size()));
        }
      }
    }
    ranks_[rank]->barrier().wait();
    if (thread == 0) {
      for (MixedGroup& group : groups_) {
        for (const Word& item : group.items) read(rank, item);
      }
      for (const MixedAtomic& atomic : atomics_) read(rank, atomic.word);
    }
    ranks_[rank]->barrier().wait();
  }

  // ---- Strong words

  std::uint64_t load_strong(Rank rank, const Word& word) {
    std::uint64_t found = 0;
    ranks_[rank]->load(word.segment, word.offset, &found, word.bytes);
    check(rank, word, found);
    return found;
  }
  void store_strong(Rank rank, Word& word, std::uint64_t value) {
    ranks_[rank]->store(word.segment, word.offset, &value, word.bytes);
    word.value = value;
  }

  void read_signal(Rank rank, std::size_t self) {
    const Signal& signal = signals_[random_.below(signals_.size())];
    const std::uint64_t found = load_strong(rank, signal.word);
    if (found < signal.carried.size()) knows_[self] |= signal.carried[found];
    touch(rank, self, random_.below(groups_.size()));
  }

  void write_signal(Rank rank, std::size_t self) {
    Signal& signal = signals_[self];
    signal.carried.push_back(knows_[self]);
    store_strong(rank, signal.word, signal.carried.size() - 1);
  }

  void give_token(Rank rank, std::size_t self) {
    const std::size_t number = random_.below(groups_.size());
    MixedGroup& group = groups_[number];
    if (group.holder != self || group.published) return;
    touch(rank, self, number);
    if (random_.one_in(3)) {  // it is written no more; who learns of it may read it
      group.published = true;
      knows_[self] |= Known{1} << number;
      return;
    }
    group.holder = std::nullopt;
    group.is_offered = true;
    store_strong(rank, group.token, ++group.given * signals_.size() + random_.below(signals_.size()));
  }

  void take_token(Rank rank, std::size_t self) {
    const std::size_t number = random_.below(groups_.size());
    MixedGroup& group = groups_[number];
    const std::uint64_t found = load_strong(rank, group.token);
    // An older value may name this thread too, while who was given the group since is passing it on: the load
    // is right, and says nothing of what was written in between.
    if (found / signals_.size() != group.given || found % signals_.size() != self || !group.is_offered)
      return;
    group.is_offered = false;
    group.holder = self;
    touch(rank, self, number);
  }

  // ---- Blocks that rise and fall

  void use_atomic(Rank rank, std::size_t self) {
    if (atomics_.empty()) return;
    if (random_.one_in(6)) change_strength(rank);  // between two atomics that rely on each other
    MixedAtomic& atomic = atomics_[random_.below(atomics_.size())];
    std::vector<std::size_t> given;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].holder != self || groups_[group].published || !random_.one_in(3)) continue;
      groups_[group].holder = std::nullopt;
      given.push_back(group);
    }
    std::vector<std::size_t> taken;
    std::uint64_t written = 0;
    Word& word = atomic.word;
    const auto change = [&](std::byte* at) {
      std::uint64_t found = 0;
      std::memcpy(&found, at, word.bytes);
      check(rank, word, found);
      word.value = random_.next() & mask(word);
      std::memcpy(at, &word.value, word.bytes);
      taken.swap(atomic.mailbox);
      atomic.mailbox.insert(atomic.mailbox.end(), given.begin(), given.end());
      const Known carried = atomic.carried;
      atomic.carried |= knows_[self];
      knows_[self] |= carried;
      written = word.value;
    };
    if (!random_.one_in(2)) {
      ranks_[rank]->update(word.segment, word.offset, word.bytes, change);
    } else if (ranks_[rank]->atomic(word.segment, word.offset, word.bytes, change)) {
      // Another thread may have changed it since.
      if (word.value == written) {
        atomic.strong_value = written;
        atomic.strong_carried = atomic.carried;
      }
    }
    for (const std::size_t group : taken) {
      groups_[group].holder = self;
      touch(rank, self, group);
    }
  }

  /// A plain load, in a race with those who change it. Only words of 8 bytes never have a value twice.
  void look_at_atomic(Rank rank, std::size_t self) {
    if (atomics_.empty()) return;
    const MixedAtomic& atomic = atomics_[random_.below(atomics_.size())];
    if (atomic.word.bytes != 8) return;
    std::uint64_t found = 0;
    ranks_[rank]->load(atomic.word.segment, atomic.word.offset, &found, atomic.word.bytes);
    if (found != atomic.strong_value) return;
    knows_[self] |= atomic.strong_carried;
    ++seen["looks at strong changes"];
    touch(rank, self, random_.below(groups_.size()));
  }

  void change_strength(Rank rank) {
    const SegmentShape& shape = shapes_[changing_segment];
    const std::uint64_t first = random_.below(shape.blocks);
    const std::uint64_t count = random_.between(1, shape.blocks - first);
    Strength to = random_.one_in(2) ? Strength::strong : Strength::release;
    if (shape.dials.strength == Strength::automatic && random_.one_in(3)) to = Strength::automatic;
    try {
      ranks_[rank]->exclusive().set_strength(changing_segment, first, count, to);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_supported || to != Strength::strong || seen["pins"] == 0) throw;
      ++seen["refused rises"];
    }
  }

  // ---- Items

  void touch(Rank rank, std::size_t self, std::size_t number) {
    MixedGroup& group = groups_[number];
    if (group.items.empty()) return;
    Word& item = group.items[random_.below(group.items.size())];
    if ((knows_[self] >> number & 1U) != 0) {
      read(rank, item);
    } else if (group.holder == self && !group.published) {
      if (random_.one_in(2)) return read(rank, item);
      const std::uint64_t value = random_.next() & mask(item);
      ranks_[rank]->store(item.segment, item.offset, &value, item.bytes);
      item.value = value;
    }
  }

  void read(Rank rank, const Word& word) {
    std::uint64_t found = 0;
    ranks_[rank]->load(word.segment, word.offset, &found, word.bytes);
    check(rank, word, found);
  }

  void check(Rank rank, const Word& word, std::uint64_t found) {
    if (found == word.value) return;
    world_->fail("rank " + std::to_string(rank) + " read " + std::to_string(found) + " where " +
                 std::to_string(word.value) + " was written: segment " + std::to_string(word.segment) +
                 ", block " + std::to_string(word.offset / 32) + ", offset " + std::to_string(word.offset) +
                 ", " + std::to_string(word.bytes) + " bytes");
  }

  static std::uint64_t mask(const Word& word) {
    return word.bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (word.bytes * 8)) - 1;
  }

  const bool is_causal_ = Random(Random::mix(seed_ ^ 0x63617573616cULL)).one_in(6);
  unsigned threads_ = 1;
  unsigned phases_ = 1;
  unsigned steps_ = 1;
  std::size_t notices_ = 0;
  std::vector<SegmentShape> shapes_;
  std::vector<MixedGroup> groups_;
  std::vector<Signal> signals_;          ///< by thread
  std::vector<Known> knows_;             ///< by thread
  std::array<Known, 2> known_to_all_{};  ///< by phase: what any thread knew before
  std::vector<MixedAtomic> atomics_;
};

class MixedPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MixedPrograms, AgreeOnWhatIsKnown) {
  const Schedules all = run_schedules<MixedRun>(GetParam(), schedules_wanted(12'000, 200));
  expect_all_seen(all, mixed_counts);
  expect_all_seen(all, std::map<std::string, int>{{"refused rises", 0}, {"looks at strong changes", 0}});
}

INSTANTIATE_TEST_SUITE_P(Part, MixedPrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::coherence::test
