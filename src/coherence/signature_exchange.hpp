/// \file
/// How ranks get to know what others know. An interface, since where signatures lie is not the protocol's
/// business: space::SignatureBoard.
#pragma once

#include "coherence/signature.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

class SignatureExchange {
 public:
  SignatureExchange(const SignatureExchange&) = delete;
  SignatureExchange& operator=(const SignatureExchange&) = delete;
  virtual ~SignatureExchange() = default;

  /// Shows what this rank knows from now on. Any thread, one at a time. Does not block.
  virtual void show(const Signature& own) = 0;
  /// What a rank shows now. Any thread; blocks. \throws Error peer_lost
  virtual Signature look(fabric::Rank rank) = 0;

 protected:
  SignatureExchange() = default;
};

}  // namespace craton::coherence
