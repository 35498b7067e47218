/// \file
/// How ranks find each other before there is a fabric. Implemented by the launcher's rendezvous, by PMIx, by
/// a job of one, and by tests.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "fabric/types.hpp"

namespace craton::fabric {

/// What a rank must prove to know before another one talks to it. One a job, from the kernel's random source.
using JobSecret = std::array<unsigned char, 32>;

/// Used by one thread.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual Rank rank() const noexcept = 0;
  virtual Rank size() const noexcept = 0;
  virtual const JobSecret& secret() const noexcept = 0;
  /// Gives `mine` to every rank and returns everybody's, by rank. Collective; blocks, with a time limit.
  /// \throws Error peer_lost, timed_out
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
};

}  // namespace craton::fabric
