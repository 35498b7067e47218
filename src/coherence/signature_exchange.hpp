/// \file
/// How ranks get to know what others know. An interface, since where signatures lie is not the protocol's
/// business: space::SignatureBoard.
#pragma once

#include <cstdint>
#include <span>

#include "coherence/signature.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

class SignatureExchange {
 public:
  SignatureExchange(const SignatureExchange&) = delete;
  SignatureExchange& operator=(const SignatureExchange&) = delete;
  virtual ~SignatureExchange() = default;

  /// Shows what this rank knows from now on, all of it. Any thread, one at a time. Does not block.
  virtual void show(const Signature& own) = 0;
  /// The same, where that is what it shows already, and these notices, with a minimum and number of barriers
  /// no less than before. \returns false: there is no room, show all of it
  virtual bool show_more(Timestamp min_write_ts, std::uint64_t barriers,
                         std::span<const WriteNotice> news) = 0;
  /// What one rank shows to another.
  struct View {
    fabric::Rank rank = 0;
    std::uint64_t version = 0;  ///< what has been seen, and acquired; grows each time that something is shown
    std::uint64_t now = 0;      ///< the newest version
    Signature signature{};      ///< what is shown in it, and is not in `version`; perhaps more
  };
  /// What ranks show now, asked for together. Any thread; blocks. \returns whether any shows what the caller
  /// has not seen \throws Error peer_lost
  virtual bool look(std::span<View> views) = 0;

  /// For a message to another rank, which it spares a look: what this rank shows and did not in a version.
  /// Any thread, also handlers; does not block. \param bytes gets how many of `room` that takes; 0: perhaps
  /// it has no room \returns the newest version
  virtual std::uint64_t encode_news(std::uint64_t version, std::span<std::byte> room,
                                    std::size_t& bytes) noexcept = 0;
  /// What that rank has encoded so, of what is new since `view.version`; `view.now` is what it returned.
  /// \returns false: there was no room, or another thread showed something meanwhile; look
  virtual bool decode_news(View& view, std::span<const std::byte> news) = 0;

  /// Says whether a release of this rank is under way: an odd number from before its first write can be
  /// fetched until all of them are shown, an even one otherwise. It never falls. Any thread, one at a time.
  /// Does not block.
  virtual void set_turn(std::uint64_t turn) = 0;
  /// The numbers of all ranks, together. \param turns one a rank. Any thread; blocks. \throws Error peer_lost
  virtual void get_turns(std::span<std::uint64_t> turns) = 0;

 protected:
  SignatureExchange() = default;
};

}  // namespace craton::coherence
