/// \file
/// What a simulated world is made of, and what its seed decides about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.hpp"
#include "fabric/sim/random.hpp"
#include "fabric/sim/timing.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::sim {

/// A way in which the simulated fabric breaks its contract on purpose. For tests of tests only: whoever
/// relies on a clause of the contract can show that his tests notice when it is broken.
enum class Mutation : std::uint8_t {
  none = 0,
  tear_words,         ///< aligned 8-byte gets and puts are split like larger ones
  reorder_messages,   ///< messages of a pair of ranks overtake each other
  repeat_messages,    ///< one message in 16 arrives twice
  drop_messages,      ///< one message in 16 never arrives
  overlap_handlers,   ///< two handlers of a rank run at a time
  lose_wakeups,       ///< one time in 8, waiters are not told of a message, completion or notify
  split_atomics,      ///< the read and the write of an atomic are two events
  complete_early,     ///< puts complete before they are done at the target
  repeat_callbacks,   ///< one completion in 16 runs its callback twice
  flush_early,        ///< flush does not wait
  forget_lost_peers,  ///< operations to a dead rank never complete
  touch_beyond,       ///< one put or get in 16 writes a byte too many
};

/// How long things take and how often odd ones happen in one world, drawn from its seed. That worlds differ
/// in this, not only in the order of events, is what finds bugs that need one thing to be slow and another to
/// be fast ("swarm testing", Groce et al., ISSTA 2012).
struct Profile {
  explicit Profile(Random& random)
      : pace_ns(random.pick(scales)),
        effect_ns(random.pick(scales)),
        answer_ns(random.pick(scales)),
        message_ns(random.pick(scales)),
        bad_news_ns(random.pick(scales)),
        preempt_one_in(random.pick(std::array<std::uint32_t, 4>{0, 1, 2, 8})),
        spurious_one_in(random.pick(std::array<std::uint32_t, 4>{0, 0, 1, 8})),
        pause_one_in(random.pick(std::array<std::uint32_t, 4>{0, 0, 200, 1000})),
        late_read_one_in(random.pick(std::array<std::uint32_t, 3>{1, 2, 0})),
        ring_bytes(random.pick(std::array<std::size_t, 4>{1, 2, 4, 16}) *
                   (max_message_bytes + message_header_bytes)),
        pieces_at_most(random.pick(std::array<std::uint32_t, 4>{1, 2, 3, 8})) {}
  /// No delays, nothing odd, the roomiest rings. Of a world with Options::timing; and to make one's own of,
  /// for Options::profile.
  Profile() noexcept = default;

  static constexpr std::size_t message_header_bytes =
      16;  ///< what a message costs in a ring beside its payload
  static constexpr std::array<TimeNs, 3> scales{50, 500, 5000};

  TimeNs pace_ns = 0;                ///< until a fiber that can run does
  TimeNs effect_ns = 0;              ///< from issue to effect at the target
  TimeNs answer_ns = 0;              ///< from there to completion
  TimeNs message_ns = 0;             ///< from send to arrival
  TimeNs bad_news_ns = 0;            ///< from a death until a peer learns of it
  std::uint32_t preempt_one_in = 0;  ///< chance that a call of the fabric lets others run
  std::uint32_t spurious_one_in =
      0;                           ///< chance that a put wakes its target's waiters, which none may rely on
  std::uint32_t pause_one_in = 0;  ///< chance, each time a fiber runs, that its rank stops for long
  std::uint32_t late_read_one_in =
      1;  ///< chance that a put's source is read at its effect and not when it is issued
  std::size_t ring_bytes =
      16 *
      (max_message_bytes + message_header_bytes);  ///< room for messages on the way between a pair of ranks
  std::uint32_t pieces_at_most = 1;                ///< into which a get or put is split
};

struct Options {
  Rank size = 2;                   ///< number of ranks, 1 to max_ranks
  std::uint64_t seed = 1;          ///< decides everything that the program does not
  Rank ranks_per_node = 1;         ///< ranks with the same rank / ranks_per_node share a node
  bool direct_neighbours = false;  ///< ranks of a node load and store each other's regions
  bool agents_serve = false;       ///< capabilities() says that operations need the target's CPU, as tcp's
  std::size_t stack_bytes = 256 * 1024;  ///< of each fiber; only touched pages cost memory
  std::uint64_t step_limit = 5'000'000;  ///< events after which the world counts as livelocked
  std::uint32_t kill_one_in = 0;  ///< chance, at each event, that a rank is killed: one in so many; 0: none
  Rank kills_at_most = 1;         ///< by kill_one_in
  Mutation mutation = Mutation::none;
  /// Instead of the one that the seed draws: for tests in which one thing must be slow and another fast.
  std::optional<Profile> profile{};
  /// Times of a model, which also tells who serves operations, instead of the seed's, and then no pauses,
  /// preemptions, spurious wake-ups, torn operations, mutations, random kills or direct neighbours: the seed
  /// decides nothing but World::random().
  std::optional<Timing> timing{};
};

}  // namespace craton::fabric::sim
