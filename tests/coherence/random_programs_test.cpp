/// \file
/// Random programs without data races, with an oracle that knows what every read must return, over random
/// dials and random schedules.
///
/// A program: items of 1 to 8 bytes lie close together in small blocks, so that ranks share blocks falsely
/// all the time. An item belongs to a group; who holds the group's token may read and write its items. Tokens
/// move through mailboxes that a lock guards, together with nothing: the writes to the items must follow over
/// the chain of locks alone. Some groups are read by all between two barriers. Some items belong to a lock.
/// In some programs each rank has a roamer: a thread that takes part in locks, but not in barriers. In some a
/// thread goes on from item to item of a group, and so from block to block. In some the groups go round from
/// barrier to barrier, and who has one writes nearly all of it.
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/sim/random.hpp"
#include "random_dials.hpp"
#include "schedules.hpp"
#include "sim_run.hpp"
#include "sim_space.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;

struct Item {
  SegmentId segment;
  std::uint64_t offset;
  std::size_t bytes;
  std::uint64_t value = 0;   ///< what a read must return now
  std::uint64_t before = 0;  ///< what a write may bring back
};

struct Group {
  std::vector<std::size_t> items;
  static constexpr int everybody = -1;
  static constexpr int nobody = -2;  ///< its token lies in a mailbox
  static constexpr int never = -3;   ///< a thread that takes no tokens
  int holder = nobody;
};

struct Guarded {                     ///< by the mutex of the same number: a mailbox and items
  std::vector<std::size_t> mailbox;  ///< groups
  std::vector<std::size_t> items;
};

struct Atomic {
  std::size_t item;
  std::vector<std::size_t> mailbox;
};

struct Agreed {
  std::size_t item;
  std::uint64_t next = 0;  ///< what all write in this phase
  bool written = false;    ///< by anybody, in this phase
};

/// What the runs together must have done, or they test less than they seem to.
constexpr std::array<std::pair<const char*, Counters::Count Counters::*>, 28> random_counts{{
    {"spurious faults", &Counters::spurious_faults},
    {"opened ahead", &Counters::opened_ahead},
    {"read ahead", &Counters::read_ahead},
    {"fast reads", &Counters::fast_reads},
    {"slow reads", &Counters::slow_reads},
    {"zero reads", &Counters::zero_reads},
    {"twins", &Counters::twins},
    {"fast releases", &Counters::fast_releases},
    {"merges", &Counters::merges},
    {"unchanged", &Counters::unchanged},
    {"sole", &Counters::sole},
    {"shared", &Counters::shared},
    {"migrated", &Counters::migrated},
    {"kept", &Counters::kept},
    {"cooled", &Counters::cooled},
    {"merged alone", &Counters::merged_alone},
    {"copied back", &Counters::copied_back},
    {"sent", &Counters::sent},
    {"sent in vain", &Counters::sent_in_vain},
    {"invalidations", &Counters::invalidations},
    {"expirations", &Counters::expirations},
    {"renewals", &Counters::renewals},
    {"sharer messages", &Counters::sharer_messages},
    {"prefetched", &Counters::prefetched},
    {"prefetch hits", &Counters::prefetch_hits},
    {"prefetch waste", &Counters::prefetch_waste},
    {"lock waits", &Counters::lock_waits},
    {"updates", &Counters::updates},
}};

/// One program and its run.
class RandomRun : public SimRun {
 public:
  explicit RandomRun(std::uint64_t seed) : SimRun(seed, 0x636f68657265ULL) {}

  std::string go() {
    const Rank ranks = static_cast<Rank>(random_.between(2, 4));
    threads_ = static_cast<unsigned>(random_.between(1, 2));
    phases_ = static_cast<unsigned>(random_.between(1, 4));
    steps_ = static_cast<unsigned>(random_.between(4, 24));
    notices_ = random_.pick(std::array<std::size_t, 5>{0, 1, 3, 16, 1024});
    parallel_ = random_.pick(std::array<unsigned, 3>{1, 2, 4});
    make_world(ranks);
    rotates_ = Random::mix(seed_ ^ 0x726f74617465ULL) % 4 == 0;
    if (rotates_) phases_ = 4 * phases_;
    if (rotates_) steps_ = steps_ / 4;
    make_program(ranks);
    roams_ = random_.one_in(8);
    sweeps_ = Random::mix(seed_ ^ 0x7377656570ULL) % 4 == 0;
    flushes_ = Random::mix(seed_ ^ 0x666c757368ULL) % 2 == 0;
    roamers_.resize(ranks);
    fabrics_.resize(ranks);
    const std::string failure = run_ranks([this](SimFabric& fabric) { main(fabric); });
    std::string story = "\n  segments:";
    for (const SegmentShape& shape : shapes_) story += "\n    " + describe(shape.dials);
    story += "\n  notices: " + std::to_string(notices_) +
             ", releases at a time: " + std::to_string(parallel_) +
             ", threads a rank: " + std::to_string(threads_);
    return told(failure, "Part/RandomPrograms.*/0", story);
  }

 private:
  void make_program(Rank ranks) {
    const std::uint64_t segments = random_.between(1, 2);
    for (std::uint64_t i = 0; i < segments; ++i) {
      SegmentShape shape;
      shape.block_bytes = random_.pick(std::array<std::size_t, 2>{32, 64});
      shape.blocks = random_.between(1, 6);
      shape.initial_homes.kind = random_.pick(std::array<InitialHomes::Kind, 3>{
          InitialHomes::Kind::cyclic, InitialHomes::Kind::blocked, InitialHomes::Kind::one});
      shape.initial_homes.rank = static_cast<Rank>(random_.below(ranks));
      shape.dials = random_dials(random_);
      if (rotates_ && random_.one_in(2)) let_migrate(shape.dials);
      if (random_.one_in(5)) let_send(shape.dials);
      shapes_.push_back(shape);
    }
    groups_.resize(random_.between(1, 6));
    guarded_.resize(random_.between(1, 3));
    for (SegmentId segment = 0; segment < shapes_.size(); ++segment) {
      const std::uint64_t end = shapes_[segment].block_bytes * shapes_[segment].blocks;
      for (std::uint64_t at = 0; at < end;) {
        std::size_t bytes = random_.pick(std::array<std::size_t, 4>{1, 2, 4, 8});
        while (at % bytes != 0) bytes /= 2;
        const std::size_t item = items_.size();
        items_.push_back({.segment = segment, .offset = at, .bytes = bytes});
        if (random_.one_in(8)) {
          agreed_.push_back({.item = item});
        } else if (random_.one_in(8)) {
          atomics_.push_back({.item = item, .mailbox = {}});
        } else if (random_.one_in(4)) {
          guarded_[random_.below(guarded_.size())].items.push_back(item);
        } else {
          groups_[random_.below(groups_.size())].items.push_back(item);
        }
        at += bytes;
      }
    }
  }

  /// At the begin of a phase: each group gets a holder, or all may read it, or its token lies in a mailbox.
  void deal(unsigned phase) {
    if (dealt_ > phase) return;  // another thread was through the barrier first
    dealt_ = phase + 1;
    for (Guarded& each : guarded_) each.mailbox.clear();
    for (Atomic& each : atomics_) each.mailbox.clear();
    flushed_.clear();
    for (Agreed& each : agreed_) {
      Item& item = items_[each.item];
      if (each.written) item.value = each.next;
      each.written = false;
      each.next = random_value(item);
    }
    const std::size_t threads = world_->size() * threads_;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (rotates_ && !random_.one_in(8)) {
        groups_[group].holder = static_cast<int>((group + phase) % threads);
        continue;
      }
      switch (random_.below(3)) {
        case 0:
          groups_[group].holder = Group::everybody;
          break;
        case 1:
          groups_[group].holder = Group::nobody;
          guarded_[random_.below(guarded_.size())].mailbox.push_back(group);
          break;
        default:
          groups_[group].holder = static_cast<int>(random_.below(threads));
      }
    }
  }

  void main(SimFabric& fabric) {
    const Rank rank = fabric.rank();
    fabrics_[rank] = &fabric;
    ranks_[rank] = std::make_unique<SimRank>(fabric, shapes_,
                                             SpaceDials{.notice_capacity = notices_,
                                                        .barrier_factor = seed_ % 2 == 0 ? 1U : 16U,
                                                        .parallel_releases = parallel_},
                                             threads_, static_cast<std::uint32_t>(guarded_.size()));
    ranks_[rank]->protocol().set_race_handler(
        [](void* self, const Race& race) {
          static_cast<RandomRun*>(self)->world_->fail(
              "a race was reported where there is none: segment " + std::to_string(race.segment) +
              ", block " + std::to_string(race.block) + ", byte " + std::to_string(race.first_byte));
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
    add(seen, ranks_[rank]->protocol());
  }

  static void add(Seen& seen, const LeaseRelease& protocol) {
    for (const auto& [name, count] : random_counts) seen[name] += protocol.count(count);
  }

  void run_thread(Rank rank, unsigned thread) {
    const int self = static_cast<int>(rank * threads_ + thread);
    space::Barrier& barrier = ranks_[rank]->barrier();
    barrier.wait();  // before it some ranks may not have their segments
    if (thread == 0 && random_.one_in(4)) {
      LeaseSegment& segment = ranks_[rank]->protocol().segment(0);
      segment.pin(random_.below(segment.blocks()));
    }
    if (roams_ && thread == 0) {
      ++roamers_[rank];
      world_->spawn(rank, [this](SimFabric& own) { roam(own); });
    }
    for (unsigned phase = 0; phase < phases_; ++phase) {
      deal(phase);
      if (rotates_) write_own(rank, self);
      for (unsigned step = 0; step < steps_; ++step) {
        if (flushes_ && random_.one_in(4)) {
          pass_by_flush(rank, self);
        } else if (random_.one_in(4)) {
          visit_lock(rank, self);
        } else if (random_.one_in(8)) {
          update_atomic(rank, self);
        } else if (random_.one_in(8)) {
          write_agreed(rank);
        } else {
          touch(rank, self);
        }
        if (random_.one_in(4)) world_->preempt();
      }
      const bool waits_for_first = Random::mix(seed_ ^ phase) % 3 == 0;
      barrier.wait(0, waits_for_first);
      if (waits_for_first) go_on_after_first(rank, thread);
    }
    if (thread == 0) {
      const auto is_alone = [&] { return roamers_[rank] == 0; };
      static_cast<void>(fabrics_[rank]->wait_until(is_alone, no_deadline));
    }
    barrier.wait();
    deal(phases_);
    if (thread == 0) {  // after the last barrier nobody writes any more
      for (Item& item : items_) read(rank, item);
    }
    barrier.wait();
  }

  /// All have met, and wait for what the first rank writes then, to be read in the next phase.
  void go_on_after_first(Rank rank, unsigned thread) {
    space::Barrier& barrier = ranks_[rank]->barrier();
    if (thread == 0) {
      space::BarrierNote note;
      note.count = 1;
      note.words[0] = seed_;
      if (rank != 0) {
        const space::BarrierNote heard = barrier.hear(0);
        if (heard.count != 1 || heard.words[0] != seed_) world_->fail("another note was heard than told");
      } else {
        for (std::uint64_t i = random_.below(4); i > 0; --i) {
          const Group& group = groups_[random_.below(groups_.size())];
          if (!group.items.empty())
            read_or_write(rank, items_[group.items[random_.below(group.items.size())]]);
        }
        barrier.tell(world_->size(), note);
      }
    }
    if (threads_ > 1) barrier.wait();
  }

  /// Holds no token: those are dealt anew at barriers, of which it knows nothing.
  void roam(SimFabric& fabric) {
    for (unsigned step = 0; step < steps_; ++step) {
      if (random_.one_in(4)) world_->preempt();
      if (random_.one_in(8)) {
        update_atomic(fabric.rank(), Group::never);
      } else {
        visit_lock(fabric.rank(), Group::never);
      }
    }
    --roamers_[fabric.rank()];
    fabric.notify();
  }

  void visit_lock(Rank rank, int self) {
    const auto number = static_cast<space::MutexId>(random_.below(guarded_.size()));
    Guarded& guarded = guarded_[number];
    space::Mutexes& mutexes = ranks_[rank]->mutexes();
    if (random_.one_in(2)) {
      mutexes.lock(number);
    } else if (!mutexes.try_lock(number)) {
      return;
    }
    for (std::uint64_t i = random_.below(4); i > 0 && !guarded.items.empty(); --i) {
      read_or_write(rank, items_[guarded.items[random_.below(guarded.items.size())]]);
    }
    std::vector<std::size_t> kept;
    for (const std::size_t group : guarded.mailbox) {
      if (self != Group::never && random_.one_in(2)) {
        groups_[group].holder = self;
      } else {
        kept.push_back(group);
      }
    }
    guarded.mailbox = kept;
    if (random_.one_in(4)) world_->preempt();
    // Not seen by others before this thread has released the lock: the mailbox is looked at under it only.
    const std::vector<std::size_t> given = give_up(self);
    guarded.mailbox.insert(guarded.mailbox.end(), given.begin(), given.end());
    mutexes.unlock(number);
  }

  /// \returns some of the groups that a thread holds, which nobody does now
  std::vector<std::size_t> give_up(int self) {
    std::vector<std::size_t> given;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (groups_[group].holder != self || !random_.one_in(2)) continue;
      groups_[group].holder = Group::nobody;
      given.push_back(group);
    }
    return given;
  }

  /// Whoever flushes after another thread's flush, or release, has ended sees what that one had published.
  /// The mailbox is none of the program's.
  void pass_by_flush(Rank rank, int self) {
    LeaseRelease& protocol = ranks_[rank]->protocol();
    const std::vector<std::size_t> given = give_up(self);
    if (random_.one_in(4)) {
      protocol.release();
    } else {
      static_cast<void>(protocol.flush());
    }
    ++seen["flushes"];
    flushed_.insert(flushed_.end(), given.begin(), given.end());
    if (flushed_.empty() || random_.one_in(2)) return;
    std::vector<std::size_t> taken;
    taken.swap(flushed_);
    static_cast<void>(protocol.flush());
    for (const std::size_t group : taken) groups_[group].holder = self;
  }

  /// Some write what all write; all must read it after the next barrier. Before it even the writers need not:
  /// see docs/coherence.md, Limits.
  void write_agreed(Rank rank) {
    if (agreed_.empty()) return;
    Agreed& agreed = agreed_[random_.below(agreed_.size())];
    const Item& item = items_[agreed.item];
    ranks_[rank]->store(item.segment, item.offset, &agreed.next, item.bytes);
    agreed.written = true;
  }

  void update_atomic(Rank rank, int self) {
    if (atomics_.empty()) return;
    Atomic& atomic = atomics_[random_.below(atomics_.size())];
    Item& item = items_[atomic.item];
    const std::vector<std::size_t> given = give_up(self);
    std::vector<std::size_t> taken;
    ranks_[rank]->update(item.segment, item.offset, item.bytes, [&](std::byte* word) {
      std::uint64_t found = 0;
      std::memcpy(&found, word, item.bytes);
      check(rank, item, found);
      item.value = random_value(item);
      std::memcpy(word, &item.value, item.bytes);
      if (self != Group::never && random_.one_in(2)) taken.swap(atomic.mailbox);
      atomic.mailbox.insert(atomic.mailbox.end(), given.begin(), given.end());
    });
    for (const std::size_t group : taken) groups_[group].holder = self;
  }

  void write_own(Rank rank, int self) {
    for (const Group& group : groups_) {
      if (group.holder != self) continue;
      for (const std::size_t item : group.items)
        if (!random_.one_in(8)) write(rank, items_[item]);
    }
  }

  void touch(Rank rank, int self) {
    const std::size_t number = random_.below(groups_.size());
    const Group& group = groups_[number];
    if (group.items.empty()) return;
    const std::size_t first = random_.below(group.items.size());
    const std::size_t end = sweeps_ ? group.items.size() : first + 1;
    const bool only_reads = sweeps_ && random_.one_in(2);
    for (std::size_t i = first; i < end; ++i) {
      Item& item = items_[group.items[i]];
      if (group.holder == self && rotates_ && random_.one_in(2)) {
        write_and_restore(rank, item);
      } else if (group.holder == self && !only_reads) {
        read_or_write(rank, item);
      } else if (group.holder == self || group.holder == Group::everybody) {
        read(rank, item);
      }
    }
  }

  void read_or_write(Rank rank, Item& item) {
    if (random_.one_in(2)) {
      read(rank, item);
    } else {
      write(rank, item);
    }
  }

  void read(Rank rank, Item& item) {
    std::uint64_t found = 0;
    ranks_[rank]->load(item.segment, item.offset, &found, item.bytes);
    check(rank, item, found);
  }

  void check(Rank rank, const Item& item, std::uint64_t found) {
    if (found == item.value) return;
    world_->fail("rank " + std::to_string(rank) + " read " + std::to_string(found) + " where " +
                 std::to_string(item.value) + " was written: segment " + std::to_string(item.segment) +
                 ", block " + std::to_string(item.offset / shapes_[item.segment].block_bytes) + ", offset " +
                 std::to_string(item.offset) + ", " + std::to_string(item.bytes) + " bytes");
  }

  void write(Rank rank, Item& item) {
    if (random_.one_in(8)) write_and_restore(rank, item);
    const std::uint64_t value = random_value(item);
    ranks_[rank]->store(item.segment, item.offset, &value, item.bytes);
    item.value = value;
  }

  /// What was there comes back before the next release, which so finds nothing to tell: whoever fetches the
  /// block meanwhile, for another item in it, must not get what was never released.
  void write_and_restore(Rank rank, const Item& item) {
    constexpr TimeNs most_ns = 20'000;
    const std::uint64_t passing = random_.next();
    ranks_[rank]->store(item.segment, item.offset, &passing, item.bytes);
    world_->compute(static_cast<TimeNs>(random_.below(most_ns)));
    ranks_[rank]->store(item.segment, item.offset, &item.value, item.bytes);
  }

  /// Sometimes the value that is there, or was there before: a write that changes nothing since the last
  /// release.
  std::uint64_t random_value(Item& item) {
    std::uint64_t value = random_.next();
    if (random_.one_in(8)) value = item.value;
    if (random_.one_in(3)) value = item.before;
    item.before = item.value;
    return item.bytes == 8 ? value : value & ((std::uint64_t{1} << (item.bytes * 8)) - 1);
  }

  unsigned threads_ = 1;
  unsigned phases_ = 1;
  unsigned steps_ = 1;
  std::size_t notices_ = 0;
  unsigned parallel_ = 1;
  std::vector<SegmentShape> shapes_;
  std::vector<Item> items_;
  std::vector<Group> groups_;
  std::vector<Guarded> guarded_;
  std::vector<Atomic> atomics_;
  std::vector<Agreed> agreed_;
  unsigned dealt_ = 0;
  bool roams_ = false;
  bool flushes_ = false;
  std::vector<std::size_t> flushed_;  ///< groups that a flush passes on
  bool sweeps_ = false;
  bool rotates_ = false;
  std::vector<unsigned> roamers_;  ///< still running, by rank
  std::vector<SimFabric*> fabrics_;
};

class RandomPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomPrograms, ReadWhatWasWritten) {
  const Schedules all = run_schedules<RandomRun>(GetParam(), schedules_wanted(100'000, 500));
  expect_all_seen(all, random_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, RandomPrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::coherence::test
