/// \file
/// How a rank takes the home of a block from another one: the lock, the lease closed, the words and the
/// bytes.
///
///     by one-sided operations                       where the home's agent would serve each of them (tcp)
///       exchange link ──────────▶                     take ──────────────▶ the same, by its handler
///                     ◀──────────                          ◀────────────── taken: all of it
///       swap lease, get words and bytes ─▶            moved, if more was needed ─▶
///                     ◀──────────
///       swap lease: moved ──────▶
///                     ◀──────────
///
/// Three round trips cost nobody anything where memory, or the network's hardware, answers; else it is one.
/// The taker says what it has, so the home sees whether anything is still needed from it after its answer. If
/// so a message tells it when that is over, for which nobody waits but who wants the home back:
/// LeaseSegment::settle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.hpp"
#include "coherence/block_words.hpp"
#include "coherence/timestamp.hpp"
#include "fabric/completion.hpp"
#include "fabric/questions.hpp"

namespace craton::coherence {

/// What a taker has and wants. Travels as it is.
struct TakeTerms {
  Timestamp known_write_ts;   ///< its copy has all writes up to this one; 0: that is not certain of any
  Timestamp least;            ///< what it publishes is later
  std::uint64_t needs_bytes;  ///< 0: it has them, whatever was published

  /// Nobody else has written the block since the copy was made.
  bool is_as_new_as(Timestamp write_ts) const noexcept {
    return known_write_ts != 0 && known_write_ts == write_ts;
  }
};

/// What a home says when it is asked. Travels as it is.
struct TakenWords {
  std::uint64_t link;   ///< what it was; unlocked: it is the asker's now, and the rest means something
  std::uint64_t lease;  ///< before it was closed
  Timestamp write_ts;
  std::uint64_t exposed;
  std::uint64_t updater;
  std::uint64_t has_bytes;  ///< all of the block came with it
  Timestamp moved_ts;       ///< the home goes on, as after `moved` with that time; 0: it waits for that
};

/// Of a thread that takes a home; what it is asked for and has got so far.
class Taking {
 public:
  using All = fabric::Questions<Taking>;

  /// \param all of this rank \param to where bytes may come to; null, if it needs none
  Taking(All& all, std::byte* to, const TakeTerms& has) : terms(has), to_(to), asked_(all, *this) {}

  std::uint64_t number() const noexcept { return asked_.number(); }
  void ask() noexcept {
    received_ = 0;
    answered_.store(false, std::memory_order_relaxed);
  }
  bool is_answered() const noexcept { return answered_.load(std::memory_order_acquire); }
  /// By handlers, in the order in which they were sent.
  void receive(std::span<const std::byte> bytes) noexcept {
    if (bytes.empty()) return;
    CRATON_ASSERT(to_ != nullptr);
    std::memcpy(to_ + received_, bytes.data(), bytes.size());
    received_ += bytes.size();
  }
  void answer(const TakenWords& words) noexcept {
    taken = words;
    answered_.store(true, std::memory_order_release);
  }

  const TakeTerms terms;
  // Of the thread, once it has the lock.
  TakenWords taken{};
  bool is_closed = false;   ///< the home said all of that when it was asked
  fabric::Completion told;  ///< of the last step, by one-sided operations
  std::uint64_t closed_lease = 0;

 private:
  std::byte* const to_;
  std::size_t received_ = 0;
  std::atomic<bool> answered_{false};
  const All::Asked asked_;
};

}  // namespace craton::coherence
