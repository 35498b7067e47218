/// \file
/// What ranks tell each other about strong blocks (exclusive.hpp). One fixed message for all, so that its
/// receiver can keep it as it is until it gets to it.
///
///     to the block's manager                    from it
///     want          a copy to read or write     grant       here it is: from `source`
///     ready, gone   the answers to ...          serve       pass the copy on; invalidate: drop it
///     done          the grant's copy is here
///     change        be strong, be weak          changed     the answer
///     prepared      the answer to ...           prepare     the strength is about to change: close
///     taken_over    the answer to ...           take_over   you have the bytes: own it, or be its home
///     concluded     the answer to ...           conclude    the strength is now this
///     filled        the answer to ...           fill        the bytes to the manager, by way of the store
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/clock.hpp"
#include "coherence/dials.hpp"
#include "coherence/signature.hpp"
#include "coherence/timestamp.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

inline constexpr fabric::Rank nobody = ~fabric::Rank{0};

/// States of a copy, and of a block as its manager knows it (vGASNet, figure 6). In the order of what they
/// allow: shared and owned copies are read, exclusive ones become modified by a write without a message.
enum class CopyState : std::uint8_t { invalid, shared, owned, exclusive, modified };

struct ExclusiveMessage {
  enum class Kind : std::uint8_t {
    // To the manager.
    want,
    ready,
    gone,
    done,
    change,
    prepared,
    taken_over,
    concluded,
    filled,
    // From it.
    grant,
    serve,
    invalidate,
    changed,
    prepare,
    take_over,
    conclude,
    fill,
  };
  /// Answers to `prepare`.
  enum class Answer : std::uint8_t { closed, busy, pinned };

  Kind kind = Kind::want;
  bool write = false;                     ///< want, serve: to write it; ready: it was written there
  bool kept = false;                      ///< change: it stays strong until it is told otherwise
  bool agreed = false;                    ///< changed: it is so now
  bool home = false;                      ///< prepared: the block's home is here
  CopyState state = CopyState::invalid;   ///< grant: what the copy is
  Strength strength = Strength::release;  ///< change, prepare, take_over, conclude: what it is to be
  Answer answer = Answer::closed;         ///< prepared
  SegmentId segment = 0;
  std::uint64_t block = 0;
  std::uint32_t number = 0;       ///< of the want or change, given by who asks
  std::uint32_t generation = 0;   ///< how often the block has become weak: tells wants of before
  fabric::Rank source = nobody;   ///< grant, fill: who has the bytes; conclude: who had them
  fabric::Rank teacher = nobody;  ///< grant: whose signature must be acquired first
  std::uint64_t shown = 0;        ///< and which one, at least: ready, grant, taken_over, conclude
  Timestamp write_ts = 0;         ///< prepared, taken_over, conclude: of the release protocol's home
  Timestamp read_ts = 0;          ///< taken_over, conclude
  /// want: how long the copy must stay; prepare: how long ago the last atomic operation must have been
  TimeNs hold_ns = 0;
};
static_assert(std::is_trivially_copyable_v<ExclusiveMessage> && sizeof(ExclusiveMessage) <= 80);

}  // namespace craton::coherence
