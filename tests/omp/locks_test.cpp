/// \file
/// Critical sections, locks, updates that no instruction does, memory that OpenMP gives.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "omp_ranks.hpp"

namespace craton::omp::test {

extern "C" void GOMP_atomic_start();
extern "C" void GOMP_atomic_end();

namespace {

constexpr int rounds = 200;
constexpr int locks_in_use = 8;
constexpr std::size_t many_locks = 1000;

struct Shared {
  std::array<long, 4> counts;
  std::array<omp_lock_t, locks_in_use> locks;
  std::array<long, locks_in_use> guarded;
  std::array<omp_lock_t, many_locks> many;
  omp_nest_lock_t nest;
  long nested;
  long bad;
  void* allocated;
  long sum;
};
Shared* shared = nullptr;

class Locks : public testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(const Job&)>& body) {
    EXPECT_EQ(run_program(GetParam(), {}, reinterpret_cast<void**>(&shared), sizeof(Shared), body), "");
  }
};

}  // namespace

TEST_P(Locks, CriticalSections) {
  run([](const Job& job) {
#pragma omp parallel
    for (int round = 0; round < rounds; ++round) {
#pragma omp critical
      ++shared->counts[0];
#pragma omp critical(one)
      {
        ++shared->counts[1];
        // A name apart from the one that is held.
#pragma omp critical(two)
        ++shared->counts[2];
      }
      GOMP_atomic_start();
      ++shared->counts[3];
      GOMP_atomic_end();
    }
    for (const long count : shared->counts)
      job.check(count == static_cast<long>(rounds * shape().size()), std::to_string(count) + " times");
  });
}

TEST_P(Locks, OfTheProgram) {
  run([](const Job& job) {
    for (int time = 0; time < 2; ++time) {
      for (omp_lock_t& lock : shared->locks) omp_init_lock(&lock);
#pragma omp parallel
      for (int round = 0; round < rounds; ++round) {
        const auto which = static_cast<std::size_t>(round + omp_get_thread_num()) % locks_in_use;
        if (round % 3 == 0) {
          while (omp_test_lock(&shared->locks[which]) == 0) {
          }
        } else {
          omp_set_lock(&shared->locks[which]);
        }
        ++shared->guarded[which];
        omp_unset_lock(&shared->locks[which]);
      }
      for (omp_lock_t& lock : shared->locks) omp_destroy_lock(&lock);
    }
    long sum = 0;
    for (const long count : shared->guarded) sum += count;
    job.check(sum == static_cast<long>(2 * rounds * shape().size()), std::to_string(sum) + " times");
  });
}

TEST_P(Locks, ThatNest) {
  run([](const Job& job) {
    omp_init_nest_lock(&shared->nest);
#pragma omp parallel
    for (int round = 0; round < rounds; ++round) {
      omp_set_nest_lock(&shared->nest);
      omp_set_nest_lock(&shared->nest);
      if (omp_test_nest_lock(&shared->nest) != 3) shared->bad = 1;
      ++shared->nested;
      omp_unset_nest_lock(&shared->nest);
      omp_unset_nest_lock(&shared->nest);
      omp_unset_nest_lock(&shared->nest);
      if (round % 4 == 0 && omp_test_nest_lock(&shared->nest) != 0) {
        ++shared->nested;
        omp_unset_nest_lock(&shared->nest);
        omp_set_nest_lock(&shared->nest);
        --shared->nested;
        omp_unset_nest_lock(&shared->nest);
      }
    }
    omp_destroy_nest_lock(&shared->nest);
    job.check(shared->bad == 0, "a lock was not held as often as it was taken");
    job.check(shared->nested == static_cast<long>(rounds * shape().size()), std::to_string(shared->nested));
  });
}

TEST_P(Locks, PassOnWhatASerialPartWrote) {
  run([](const Job& job) {
    omp_init_lock(&shared->locks[0]);
    for (long round = 1; round <= rounds; ++round) {
      omp_set_lock(&shared->locks[0]);
      shared->sum += round;
      omp_unset_lock(&shared->locks[0]);
      if (round % 5 != 0) continue;
#pragma omp parallel
      {
        omp_set_lock(&shared->locks[0]);
        shared->sum += 1;
        omp_unset_lock(&shared->locks[0]);
      }
    }
    const long expected = rounds * (rounds + 1) / 2 + rounds / 5 * static_cast<long>(shape().size());
    job.check(shared->sum == expected, std::to_string(shared->sum) + ", not " + std::to_string(expected));
  });
}

TEST_P(Locks, MemoryThatOpenMPGives) {
  run([](const Job& job) {
    const std::array<omp_alloctrait_t, 3> traits{
        {{omp_atk_alignment, 4096}, {omp_atk_pool_size, 16384}, {omp_atk_fallback, omp_atv_null_fb}}};
    const omp_allocator_handle_t allocator = omp_init_allocator(omp_default_mem_space, 3, traits.data());
    for (int round = 0; round < 10; ++round) {
      void* const page = omp_alloc(8000, allocator);
      job.check(page != nullptr && reinterpret_cast<std::uintptr_t>(page) % 4096 == 0, "no aligned memory");
      job.check(omp_alloc(8000, allocator) == nullptr, "a pool gives more than it has");
      omp_free(page, omp_null_allocator);
    }
    omp_destroy_allocator(allocator);
    shared->allocated = omp_calloc(1000, sizeof(long), omp_default_mem_alloc);
#pragma omp parallel
    static_cast<long*>(shared->allocated)[omp_get_thread_num()] = omp_get_thread_num() + 1;
    shared->allocated = omp_realloc(shared->allocated, 100000, omp_default_mem_alloc, omp_default_mem_alloc);
    for (std::uint32_t i = 0; i < shape().size(); ++i)
      job.check(static_cast<long*>(shared->allocated)[i] == i + 1L, "memory lost what a thread wrote");
    omp_free(shared->allocated, omp_default_mem_alloc);
  });
}

TEST_P(Locks, AllocatorsOfTraitsThatMakeSense) {
  run([](const Job& job) {
    const std::array<omp_alloctrait_t, 4> right{{{omp_atk_sync_hint, omp_atv_serialized},
                                                 {omp_atk_access, omp_atv_cgroup},
                                                 {omp_atk_pinned, omp_atv_default},
                                                 {omp_atk_partition, omp_atv_interleaved}}};
    job.check(omp_init_allocator(omp_default_mem_space, 4, right.data()) != omp_null_allocator,
              "traits are refused that there are");
    const std::array<omp_alloctrait_t, 7> wrong{{{omp_atk_sync_hint, omp_atv_private + 1},
                                                 {omp_atk_sync_hint, omp_atv_contended - 1},
                                                 {omp_atk_access, omp_atv_all - 1},
                                                 {omp_atk_access, omp_atv_cgroup + 1},
                                                 {omp_atk_pinned, 2},
                                                 {omp_atk_partition, omp_atv_nearest - 2},
                                                 {omp_atk_fallback, omp_atv_allocator_fb + 1}}};
    for (const omp_alloctrait_t& trait : wrong)
      job.check(omp_init_allocator(omp_default_mem_space, 1, &trait) == omp_null_allocator,
                "trait " + std::to_string(trait.key) + " is taken as " + std::to_string(trait.value));
  });
}

TEST_P(Locks, AnEmptyAffinityFormatIsOneToo) {
  run([](const Job& job) {
    omp_set_affinity_format("");
    std::array<char, 8> format{"before"};
    job.check(omp_get_affinity_format(format.data(), format.size()) == 0 && format[0] == '\0',
              "an empty affinity format is not kept");
    omp_set_affinity_format("%n");
    job.check(omp_get_affinity_format(format.data(), format.size()) == 2 && format[1] == 'n',
              "an affinity format is not kept");
  });
}

/// Locks that all ranks make and one destroys, more than there are mutexes: their numbers are used again by
/// whoever makes others.
TEST_P(Locks, DestroyedByOneThread) {
  run([](const Job& job) {
    constexpr int turns = 20;
    for (int turn = 0; turn < turns; ++turn) {
#pragma omp parallel for schedule(static)
      for (std::size_t i = 0; i < many_locks; ++i) omp_init_lock(&shared->many[i]);
      std::array<std::uint32_t, many_locks> numbers{};
      static_assert(sizeof numbers == sizeof shared->many);
      std::memcpy(numbers.data(), shared->many.data(), sizeof numbers);
      std::sort(numbers.begin(), numbers.end());
      job.check(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end(), "two locks are one");
      for (omp_lock_t& lock : shared->many) omp_destroy_lock(&lock);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Locks, testing::ValuesIn(shapes),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace craton::omp::test
