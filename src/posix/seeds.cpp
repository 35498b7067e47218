// The C library's random numbers. Each process has a generator of its own, where the program believes in one:
// from equal seeds all ranks would draw equal numbers, and samples would count several times. So the ranks
// but 0 have sequences of their own, of which each depends on the program's seed and the rank only.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "posix/everywhere.hpp"
#include "posix/real.hpp"

namespace craton::posix {

namespace {

std::atomic<bool> has_given_state{false};

/// Equal seeds of different ranks, and neighbouring seeds of one, become unrelated. Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", OOPSLA 2014, fig. 17.
std::uint64_t mix_seed(fabric::Rank rank, std::uint64_t seed) noexcept {
  std::uint64_t mixed = seed + 0x9e3779b97f4a7c15U * (std::uint64_t{rank} + 1);
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

}  // namespace

bool random_state_is_the_programs() noexcept {
  return has_given_state.load(std::memory_order_relaxed);
}

void seed_here(fabric::Rank rank, unsigned seed) noexcept {
  CRATON_REAL(srand)(rank == 0 ? seed : static_cast<unsigned>(mix_seed(rank, seed)));
}

void seed_48_here(fabric::Rank rank, long seed) noexcept {
  CRATON_REAL(srand48)
  (rank == 0 ? seed : static_cast<long>(mix_seed(rank, static_cast<std::uint64_t>(seed))));
}

namespace {

/// Here and on the other ranks; here only in handlers of signals, and where there are no others.
template <typename Seed>
void seed_all(Everywhere::Kind kind, void (*seed_one)(fabric::Rank, Seed) noexcept, Seed seed) {
  SharedProgram* const program = shared_program();
  in_one_order([&] {
    seed_one(program == nullptr ? 0 : program->rank(), seed);
    if (Everywhere* const others = everywhere_now()) others->make(kind, &seed, sizeof seed);
  });
}

}  // namespace

}  // namespace craton::posix

using craton::posix::Everywhere;

extern "C" {

[[gnu::visibility("default")]] void srand(unsigned seed) {
  craton::posix::seed_all(Everywhere::Kind::seed, &craton::posix::seed_here, seed);
}
[[gnu::visibility("default")]] void srandom(unsigned seed) {
  srand(seed);  // one generator in the C library
}
[[gnu::visibility("default")]] char* initstate(unsigned seed, char* state, std::size_t bytes) {
  craton::posix::has_given_state.store(true, std::memory_order_relaxed);
  return CRATON_REAL(initstate)(seed, state, bytes);
}
[[gnu::visibility("default")]] char* setstate(char* state) {
  craton::posix::has_given_state.store(true, std::memory_order_relaxed);
  return CRATON_REAL(setstate)(state);
}
[[gnu::visibility("default")]] void srand48(long seed) {
  craton::posix::seed_all(Everywhere::Kind::seed_48, &craton::posix::seed_48_here, seed);
}

}  // extern "C"
