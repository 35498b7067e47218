/// \file
/// A job of real processes for tests: the test forks a process a rank (so it must have no threads), lets them
/// find each other, gathers what they report, and leaves none behind.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::conformance {

/// A child's end of its socket to the test. Frames on it: a letter, the length of the payload (32 bits), the
/// payload.
///
///   to the test     E what this rank gives to an exchange     F why it fails     S why it cannot run     D
///   done from the test   one answer to E: everybody's, in order    one answer to D: all are done
class ParentLink final : public Bootstrap {
 public:
  ParentLink(UniqueFd socket, UniqueFd obituaries, Rank rank, Rank size, const JobSecret& secret)
      : socket_(std::move(socket)),
        obituaries_(std::move(obituaries)),
        rank_(rank),
        size_(size),
        secret_(secret) {}

  Rank rank() const noexcept override { return rank_; }
  Rank size() const noexcept override { return size_; }
  const JobSecret& secret() const noexcept override { return secret_; }
  std::vector<std::string> exchange(const std::string& mine) override;

  /// A pipe from which ranks can be read that have died, as a launcher would tell of them. Does not block.
  int obituaries() const noexcept { return obituaries_.get(); }

  /// Reports a failure. Any thread. The test then ends all ranks.
  void fail(const std::string& why) noexcept;
  /// Reports that this machine cannot run the case.
  void skip(const std::string& why);
  /// Returns when every rank that is to live has called it.
  void done();

 private:
  void send(char letter, const std::string& payload);
  std::string receive();

  std::mutex lock_;
  UniqueFd socket_;
  UniqueFd obituaries_;
  const Rank rank_;
  const Rank size_;
  const JobSecret secret_;
};

struct JobResult {
  std::vector<std::string> failures;  ///< each names its rank
  std::string skipped;                ///< why it could not run; empty if it ran
};

/// Runs `body` in `size` processes and waits until all have ended, at most `limit_s`; then kills those that
/// are left. \param victim the rank that must end by SIGKILL; all others must return
JobResult run_processes(Rank size, std::optional<Rank> victim, int limit_s,
                        const std::function<void(ParentLink&)>& body);

}  // namespace craton::fabric::conformance
