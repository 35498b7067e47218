/// \file
/// Random settings of the protocol, for programs that must run alike on all of them.
#pragma once

#include <array>
#include <string>

#include "coherence/dials.hpp"
#include "fabric/sim/random.hpp"

namespace craton::coherence::test {

inline Dials random_dials(fabric::sim::Random& random) {
  Dials dials;
  dials.home = random.one_in(4) ? Home::fixed : Home::floating;
  dials.invalidation = random.one_in(4) ? Invalidation::directory : Invalidation::leases;
  dials.release = dials.home == Home::fixed || random.one_in(4) ? Release::plain : Release::fast;
  dials.lease = random.pick(std::array<Timestamp, 4>{1, 2, 16, 1000});
  dials.hot_blocks = !random.one_in(3);
  dials.cool_after = random.pick(std::array<std::uint32_t, 3>{1, 2, 4});
  dials.looks_a_fault = random.pick(std::array<std::uint32_t, 3>{0, 4, 80});
  dials.sole_copies = !random.one_in(3);
  dials.prefetch = !random.one_in(3);
  dials.causal = dials.home == Home::floating && random.one_in(6);
  dials.migrate_after = random.pick(std::array<std::uint8_t, 4>{0, 0, 1, Dials::never});
  dials.send_after = random.pick(std::array<std::uint8_t, 4>{0, 0, 2, Dials::never});
  dials.send_one_in = random.one_in(2) ? 1 : 2;
  dials.probe_one_in = random.pick(std::array<std::uint32_t, 3>{0, 2, 8});
  return dials;
}

/// All that it takes for homes to come with acquires.
inline void let_migrate(Dials& dials) {
  dials.home = Home::floating;
  dials.invalidation = Invalidation::leases;
  dials.release = Release::fast;
  dials.hot_blocks = dials.sole_copies = dials.prefetch = true;
  dials.causal = false;
  dials.migrate_after = 0;
  if (dials.probe_one_in == 2) dials.probe_one_in = 0;  // else each home that comes has a twin
}

/// All that it takes for homes to stay where they are.
inline void let_send(Dials& dials) {
  dials.home = Home::floating;
  dials.invalidation = Invalidation::leases;
  dials.release = Release::fast;
  dials.hot_blocks = true;
  dials.causal = false;
  dials.send_after = 0;
  dials.send_one_in = 1;
}

inline std::string describe(const Dials& dials) {
  return std::string(dials.home == Home::fixed ? "fixed" : "floating") +
         (dials.invalidation == Invalidation::directory ? ", directory"
                                                        : ", leases of " + std::to_string(dials.lease)) +
         (dials.release == Release::fast ? ", fast" : ", plain") + (dials.hot_blocks ? ", hot" : "") +
         (dials.prefetch ? ", prefetch" : "") + (dials.causal ? ", causal" : "");
}

}  // namespace craton::coherence::test
