#include "space/kernel_calls.hpp"

#include <string>

#include "base/error.hpp"
#include "craton/space.h"

namespace {

craton::bench::SpaceRank* current = nullptr;
std::string last_error;

template <typename Call>
craton_status guarded(const Call& call) noexcept {
  try {
    call();
    return CRATON_OK;
  } catch (const craton::Error& error) {
    last_error = error.what();
    return CRATON_SYSTEM;
  }
}

}  // namespace

namespace craton::bench {

KernelCalls::KernelCalls(SpaceRank& rank) {
  current = &rank;
}
KernelCalls::~KernelCalls() {
  current = nullptr;
}

}  // namespace craton::bench

int craton_rank() {
  return static_cast<int>(current->rank());
}

int craton_size() {
  return static_cast<int>(current->size());
}

const char* craton_last_error() {
  return last_error.c_str();
}

craton_status craton_space_barrier(uint32_t site) {
  return guarded([&] { current->barrier(site); });
}

craton_status craton_segment_create(const craton_segment_options* options, void** data) {
  namespace coherence = craton::coherence;
  return guarded([&] {
    craton::space::SegmentOptions own;
    own.name = "kernel";
    own.bytes = options->bytes;
    own.block_bytes = options->block_bytes;
    own.initial_homes.kind = options->placement == CRATON_PLACEMENT_BLOCKED
                                 ? coherence::InitialHomes::Kind::blocked
                                 : coherence::InitialHomes::Kind::cyclic;
    own.dials.home = options->home == CRATON_HOME_FIXED ? coherence::Home::fixed : coherence::Home::floating;
    own.dials.invalidation = options->invalidation == CRATON_INVALIDATION_DIRECTORY
                                 ? coherence::Invalidation::directory
                                 : coherence::Invalidation::leases;
    own.dials.release =
        options->release == CRATON_RELEASE_PLAIN ? coherence::Release::plain : coherence::Release::fast;
    own.dials.lease = options->lease;
    own.dials.hot_blocks = options->hot_blocks != 0;
    own.dials.sole_copies = options->sole_copies != 0;
    own.dials.prefetch = options->prefetch != 0;
    if (options->migration == 0) own.dials.migrate_after = coherence::Dials::never;
    *data = current->space.create_segment(own).data();
  });
}
