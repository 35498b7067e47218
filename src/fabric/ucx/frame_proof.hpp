/// \file
/// How a rank proves that it knows the job's secret. All is derived from the secret and the two worker
/// addresses; UCX makes those anew for each worker, with random bits, so a proof of another job or run is
/// worth nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "fabric/bootstrap.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::ucx {

using Digest = std::array<unsigned char, 32>;

/// Payload of a hello.
struct Hello {
  Digest address_digest;  ///< of the sender's address
  Digest proof;
};
static_assert(sizeof(Hello) == 64);

/// What stands for an address in proofs.
Digest digest_of(const std::string& address);

/// Makes and checks the proofs of one direction: from `source` to `target`.
class FrameProof {
 public:
  FrameProof(const JobSecret& secret, Rank source, const Digest& source_address, Rank target,
             const Digest& target_address);

  /// What the source's hello says.
  Hello hello() const;
  /// Compares in constant time.
  bool accepts(const Hello& hello) const;
  /// What each later frame from source to target carries. Somebody who cannot listen on the wire cannot guess
  /// it.
  std::uint64_t token() const;

 private:
  Digest code(std::string_view purpose) const;

  const JobSecret& secret_;
  Rank source_;
  Digest source_address_;
  Rank target_;
  Digest target_address_;
};

}  // namespace craton::fabric::ucx
