/// \file
/// What a block that becomes weak needs of the release protocol: a home that has its bytes, at a time that
/// makes all other copies old. Called while no rank uses the block (exclusive_change.cpp).
#include <algorithm>
#include <mutex>

#include "base/assert.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"
#include "coherence/taking.hpp"

namespace craton::coherence {

/// This rank's copy is published as it is: it has the bytes, whoever was the home before. A home elsewhere is
/// taken as by take_home(), but without its bytes.
void LeaseSegment::become_home(std::uint64_t index, std::vector<WriteNotice>& notices) {
  Block& block = states_[index];
  const std::lock_guard busy(block.busy);
  CRATON_ASSERT(!block.dirty);
  if (!floating()) {
    const fabric::Rank home = fixed_home(index);
    const fabric::Rank before = lock_.lock(index, block.answer);
    const BlockWords words = words_.get(home, index);
    put_bytes(home, home_region_, index, 0, data(index), block_bytes_);
    return publish_at_fixed_home(
        index, block, {.from = before, .write_ts = words.write_ts, .updater = words.updater}, notices);
  }
  renew_published_twin(index);
  if (lock_.try_lock_own(index)) {
    publish_at_home(index, block, notices);
    lock_.unlock(index);
    return;
  }
  settle(index, block);
  Taking taking(space_.takings(), nullptr,
                {.known_write_ts = 0, .least = space_.min_write_ts_.load(), .needs_bytes = 0});
  const fabric::Rank home =
      lock_.lock(index, block.answer, [&](fabric::Rank at) { return try_take(at, index, taking); });
  CRATON_ASSERT(home != fabric_.rank());
  close_home(home, index, taking, nullptr);
  const TakenWords& taken = taking.taken;
  CRATON_ASSERT(lease::is_open(taken.lease));
  const Timestamp write_ts = begin_move(home, index, taking);
  end_move(home, index, taking);
  publish_taken(index, block, {.from = home, .write_ts = write_ts, .updater = taken.updater}, notices);
}

/// Under its state lock: the home is elsewhere and has been written at the time. Our copy is older.
void LeaseSegment::make_old(std::uint64_t index, Timestamp write_ts, Timestamp read_ts, fabric::Rank home) {
  Block& block = states_[index];
  block.fetched = false;
  block.required_ts = std::max(block.required_ts, write_ts);
  if (write_ts > block.source_write_ts) {
    block.source = floating() ? home : fixed_home(index);
    block.source_write_ts = write_ts;
    block.source_read_ts = read_ts;
  }
}

}  // namespace craton::coherence
