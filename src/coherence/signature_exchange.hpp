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
  /// What a rank shows now, and the caller has not seen; perhaps more. Any thread; blocks. \param version
  /// what the caller has seen, and acquired, 0 at first; grows each time that something is shown. Gets what
  /// is returned; if that is the same, an empty signature is \throws Error peer_lost
  virtual Signature look(fabric::Rank rank, std::uint64_t& version) = 0;
  /// The versions of what all ranks show now, asked for together. \param versions one a rank. Any thread;
  /// blocks. \throws Error peer_lost
  virtual void get_versions(std::span<std::uint64_t> versions) = 0;

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
