/// \file
/// A rank's membership in its job: how it found the others, the fabric between them, and what happens when
/// one dies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/options.hpp"
#include "fabric/barrier.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/wired_fabric.hpp"
#include "job/control_channel.hpp"
#include "job/messages.hpp"
#include "job/pmix_bootstrap.hpp"

namespace craton::job {

/// The message handler of the job's barrier; other rooms take later ones.
inline constexpr fabric::HandlerId barrier_handler = fabric::first_free_handler;

/// The version of this library, as in "0.1.0".
const char* version() noexcept;

/// The fabric's options among those of the process.
fabric::WiredOptions wired_options_from(const Options& options);

/// Destroying it without finalize() looks like death to the other ranks.
class Job {
 public:
  /// Finds the job in the environment (launched by `craton run`, else by a PMIx launcher, else a job of one),
  /// takes the launcher's variables out of it, and wires the ranks. Collective; blocks up to connect-timeout.
  /// Call it while no other thread reads the environment. \throws Error
  static std::unique_ptr<Job> join();
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  fabric::Rank rank() const noexcept { return fabric_.rank(); }
  fabric::Rank size() const noexcept { return fabric_.size(); }
  fabric::WiredFabric& fabric() noexcept { return fabric_; }
  /// As they were when the job was joined.
  const Options& options() const noexcept { return options_; }

  /// Blocks until every rank is here. One thread at a time. \throws Error peer_lost
  void barrier();
  /// Leaves the job in order. Collective; blocks until every rank is here. After it only the destructor may
  /// be called. \throws Error peer_lost
  void finalize();
  /// The program has ended with this code: ends the job at once, whatever its ranks are doing, and not as a
  /// failure. For a program that is one in all ranks. Any rank and thread; from others than `craton run` only
  /// this process.
  [[noreturn]] void end(int exit_code) noexcept;

 private:
  /// How this rank found the others; one of the pointers below is the bootstrap.
  struct Found {
    std::unique_ptr<fabric::Bootstrap> bootstrap;
    ControlChannel* control = nullptr;  ///< under our launcher
    PmixBootstrap* pmix = nullptr;      ///< under PMIx
  };
  static Found find(const Clock& clock, const Options& options);
  Job(std::unique_ptr<Clock> clock, Found found, const Options& options);
  static void peer_lost(void* context, fabric::Rank peer) noexcept;
  void set_activity(Activity activity, std::uint64_t barrier) noexcept;
  RankActivity activity() const noexcept;
  RankLook look() const noexcept;
  [[noreturn]] void fail(const char* asked, fabric::Status status) const;

  const Options options_;
  std::unique_ptr<Clock> clock_;
  Found found_;
  fabric::WiredFabric fabric_;
  fabric::Barrier barrier_;
  std::atomic<std::uint64_t> activity_{0};  ///< the Activity in the top byte, the number of the barrier below
  std::atomic<TimeNs> activity_since_ns_{0};
  std::atomic<std::int64_t> first_lost_{-1};  ///< the first rank that died
  bool watched_ = false;
};

}  // namespace craton::job
