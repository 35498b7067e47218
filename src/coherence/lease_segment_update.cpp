/// \file
/// Atomic updates of a word: the lock of its block makes them right (dissertation, section 3.4.2, point 4).
#include <cstring>
#include <mutex>

#include "base/assert.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"

namespace craton::coherence {

/// Calls `modify` on the word's newest value; publishes the block before anybody else can have it.
/// \returns false if the block is strong: nothing was done
bool LeaseSegment::update(std::uint64_t index, std::size_t offset, std::size_t bytes, Modify modify,
                          Locked locked, std::vector<WriteNotice>& notices) {
  Block& block = states_[index];
  const std::lock_guard busy(block.busy);
  if (strong(index)) return false;
  end_sole(index, block);
  catch_up(index, block, words_.own_write_ts(index));
  const std::uint64_t own = std::uint64_t{fabric_.rank()} + 1;
  // Both: else it would be one more write of this rank to be published.
  const auto modify_word = [&] {
    modify(data(index) + offset);
    if (has_published_twins() || (block.dirty && block.has_twin))
      std::memcpy(twin(index) + offset, data(index) + offset, bytes);
  };
  const auto tell = [&](std::uint64_t updater) {
    if (updater != 0 && updater != own) locked(static_cast<fabric::Rank>(updater - 1));
  };
  Counters::add(counters_.updates);
  if (!floating()) {
    const Taken taken = fetch_fixed_home(index, block);
    tell(taken.updater);
    modify_word();
    put_bytes(fixed_home(index), home_region_, index, offset, data(index) + offset, bytes);
    words_.put_updater(fixed_home(index), index, own);
    publish_at_fixed_home(index, block, taken, notices);
    return true;
  }
  if (lock_.try_lock_own(index)) {
    unkeep(index, block);
    tell(words_.own_updater(index));
    modify_word();
    words_.set_own_updater(index, own);
    publish_at_home(index, block, notices);
    lock_.unlock(index);
    return true;
  }
  settle(index, block);
  Taken taken = take_home(index, block);
  if (!block.dirty)
    renew_published_twin(index);  // else it was merged as well, and has no writes of this moment
  tell(taken.updater);
  modify_word();
  taken.updater = own;
  if (block.dirty) {  // it stays so, but at home now: as if a write fault had found it here
    stays_open_at_home(index, block);
  }
  publish_taken(index, block, taken, notices);
  return true;
}

}  // namespace craton::coherence
