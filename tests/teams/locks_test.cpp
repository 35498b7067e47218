// Regions whose threads use critical sections and locks of all kinds, with serial parts between them: one
// thread at a time has each, and finds what was written before, also where a thread of another rank unlocks
// what it has not locked.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "omp/platform.hpp"
#include "schedules.hpp"
#include "sim_team.hpp"

namespace craton::omp::test {

namespace {

constexpr std::array<const char*, 9> lock_counts = {"critical", "two critical", "lock",
                                                    "tried",    "nested",       "unlocked elsewhere",
                                                    "made",     "used again",   "no lock left"};

class LockRun {
 public:
  explicit LockRun(std::uint64_t seed)
      : seed_(seed),
        job_(seed, {.ranks = static_cast<Rank>(2 + seed % 3),
                    .threads_a_rank = static_cast<std::uint32_t>(1 + seed / 3 % 3),
                    .has_locks = true}) {}

  std::string go() {
    std::vector<RegionSize> sizes(random().between(1, 3));
    for (RegionSize& size : sizes) {
      size.ranks = static_cast<Rank>(random().between(2, job_.size()));
      size.threads = static_cast<std::uint32_t>(
          random().between(size.ranks, std::uint64_t{size.ranks} * job_.threads_a_rank()));
    }
    makes_many_ = random().one_in(4);
    reads_often_ = random().one_in(8);
    for (Section& each : sections_) each.known = Known(job_.size());
    for (Section& each : criticals_) each.known = Known(job_.size());
    for (Readers& each : readers_) each.section.known = each.written = each.read = Known(job_.size());
    const auto use_some = [this](std::size_t /*region*/) {
      for (std::uint64_t left = random().between(1, 6); left > 0; --left) use();
    };
    job_.spawn_threads(sizes, use_some, [&](std::size_t region) {
      if (region == 1) make_sections();
      if (random().one_in(2)) use_some(region);
    });
    const std::string failure = job_.run();
    job_.abandon();
    return failure.empty() ? failure : "seed " + std::to_string(seed_) + ", " + failure;
  }

  Seen seen;

 private:
  /// What one thread at a time runs.
  struct Section {
    LockNumber lock = 0;
    const void* name = nullptr;
    const SimThread* inside = nullptr;
    Known known;
  };
  /// Readers and writers of the program's own making: the first reader locks, and the last one unlocks.
  struct Readers {
    Section section;
    int count = 0;
    LockNumber writers_lock = 0;
    int reading = 0;
    bool is_written = false;
    Known written{}, read{};
  };
  /// Names of critical sections. Several have one place in the table at first.
  static constexpr std::size_t names = 6;

  Random& random() { return job_.random(); }

  void make_sections() {
    for (Section& each : sections_) each.lock = job_.locks().make();
    for (Readers& each : readers_) {
      each.section.lock = job_.locks().make();
      each.writers_lock = job_.locks().make();
    }
    criticals_[0].name = Locks::unnamed;
    criticals_[1].name = Locks::atomic();
    for (std::size_t i = 2; i < names; ++i) {
      const std::uintptr_t place = random().one_in(2) ? critical_names_at_most - 1 : random().below(4);
      const std::uintptr_t key = (i * critical_names_at_most + place) * sizeof(void*);
      criticals_[i].name = reinterpret_cast<const void*>(key);
    }
  }

  void use() {
    job_.maybe_switch();
    switch (reads_often_ ? 4 : random().below(6)) {
      case 0:
        return use_critical();
      case 1:
      case 2:
        return use_lock();
      case 3:
        return use_nested();
      case 4:
        return random().one_in(reads_often_ ? 8 : 3) ? write(readers_[random().below(2)])
                                                     : read(readers_[random().below(2)]);
      default:
        return make_and_destroy();
    }
  }

  void enter(Section& section) {
    job_.require(section.inside == nullptr, "two threads are in a section");
    section.inside = &job_.current();
    job_.know_at_least(section.known);
    job_.wrote();
    job_.maybe_switch();
  }
  void leave(Section& section) {
    job_.require(section.inside == &job_.current(), "another thread is in a section");
    job_.wrote();
    section.known = job_.known();
    section.inside = nullptr;
  }

  void use_critical() {
    const std::size_t first = random().below(names);
    enter_critical(first);
    // In this order only, as a program has to.
    if (const std::size_t second = first + 1 + random().below(names); second < names) {
      ++seen["two critical"];
      enter_critical(second);
      leave_critical(second);
    }
    leave_critical(first);
  }
  void enter_critical(std::size_t which) {
    ++seen["critical"];
    job_.locks().lock_critical(criticals_[which].name);
    enter(criticals_[which]);
  }
  void leave_critical(std::size_t which) {
    leave(criticals_[which]);
    job_.locks().unlock_critical(criticals_[which].name, job_.unlock_publishes());
  }

  void use_lock() {
    Section& section = sections_[random().below(2)];
    if (random().one_in(3)) {
      if (!job_.locks().try_lock(section.lock)) return;
      ++seen["tried"];
    } else {
      ++seen["lock"];
      job_.locks().lock(section.lock);
    }
    enter(section);
    leave(section);
    unlock(section.lock);
  }
  /// As omp_unset_lock does.
  void unlock(LockNumber lock) {
    if (job_.locks().unlock(lock, job_.unlock_publishes())) return;
    ++seen["unlocked elsewhere"];
    job_.remote_unlocks().unlock(lock);
  }

  void use_nested() {
    Section& section = sections_[2];
    Locks& locks = job_.locks();
    const Task* const self = job_.thread().task;
    if (random().one_in(3)) {
      const std::uint32_t depth = locks.try_lock_nested(section.lock, self);
      if (depth == 0) return;
      job_.require(depth == 1, "a lock is held before it is taken");
    } else {
      job_.require(locks.lock_nested(section.lock, self) == 1, "a lock is held before it is taken");
    }
    ++seen["nested"];
    enter(section);
    if (random().one_in(2)) {
      job_.require(locks.lock_nested(section.lock, self) == 2, "a lock is not taken again");
      job_.require(locks.try_lock_nested(section.lock, self) == 3, "a lock is not taken again");
      job_.maybe_switch();
      locks.unlock_nested(section.lock, job_.unlock_publishes());
      locks.unlock_nested(section.lock, job_.unlock_publishes());
      job_.maybe_switch();
    }
    leave(section);
    locks.unlock_nested(section.lock, job_.unlock_publishes());
  }

  void read(Readers& of) {
    count_reader(of, +1);
    job_.require(!of.is_written, "who reads is not alone with readers");
    ++of.reading;
    job_.know_at_least(of.written);
    job_.wrote();
    job_.maybe_switch();
    job_.require(!of.is_written, "who reads is not alone with readers");
    --of.reading;
    of.read.merge(job_.known());
    count_reader(of, -1);
  }
  void count_reader(Readers& of, int change) {
    job_.locks().lock(of.section.lock);
    enter(of.section);
    of.count += change;
    if (change > 0 && of.count == 1) job_.locks().lock(of.writers_lock);
    if (change < 0 && of.count == 0) unlock(of.writers_lock);
    leave(of.section);
    unlock(of.section.lock);
  }
  void write(Readers& of) {
    job_.locks().lock(of.writers_lock);
    job_.require(!of.is_written && of.reading == 0, "who writes is not alone");
    of.is_written = true;
    job_.know_at_least(of.written);
    job_.know_at_least(of.read);
    job_.wrote();
    job_.maybe_switch();
    of.is_written = false;
    of.written = job_.known();
    unlock(of.writers_lock);
  }

  /// Some, of which others destroy some.
  void make_and_destroy() {
    const std::uint64_t count = makes_many_ ? random().between(20, 120) : random().between(1, 3);
    for (std::uint64_t i = 0; i < count; ++i) {
      LockNumber made = 0;
      try {
        made = job_.locks().make();
      } catch (const Error& error) {
        job_.require(error.code() == ErrorCode::out_of_resources, "making a lock fails");
        job_.require(most_made_ + (job_.size() - 1) * idle_most >= locks_most,
                     "locks are refused that there are");
        ++seen["no lock left"];
        break;
      }
      ++seen["made"];
      job_.require(made_.insert(made).second, "two locks are one");
      most_made_ = std::max(most_made_, made_.size());
      if (!ever_made_.insert(made).second) ++seen["used again"];
    }
    job_.maybe_switch();
    for (std::uint64_t i = random().between(0, 2 * count); i > 0 && !made_.empty(); --i) {
      const LockNumber lock = *made_.begin();
      made_.erase(lock);
      job_.locks().destroy(lock);
    }
  }

  /// Another rank may have so many that it does not use, or takes or gives back.
  static constexpr std::size_t idle_most = std::size_t{4} * 64;
  /// But for those that the program has all the time.
  static constexpr std::size_t locks_most = mutexes_needed - Locks::mutexes_kept - 7;

  const std::uint64_t seed_;
  SimTeam job_;
  bool makes_many_ = false, reads_often_ = false;
  std::array<Section, names> criticals_;
  std::array<Section, 3> sections_;
  std::array<Readers, 2> readers_;
  std::set<LockNumber> made_, ever_made_;
  std::size_t most_made_ = 0;  ///< at a time
};

class LockPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(LockPrograms, LetOneThreadInAtATime) {
  const Schedules all = run_schedules<LockRun>(GetParam(), schedules_wanted(20'000, 400));
  expect_names_seen(all, lock_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, LockPrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::omp::test
