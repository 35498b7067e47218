/// \file
/// What the application thread of the target does while the initiator measures: it waits in the fabric, or
/// computes and never calls the library.
#pragma once

#include <atomic>
#include <cstdint>

#include "fabric/fabric.hpp"

namespace craton::bench {

enum class TargetMode : std::uint64_t {
  waiting,    ///< asleep in Fabric::wait_until
  computing,  ///< busy on its core, without a call into the library
  quit,       ///< serve() returns
};

/// One on each rank of a pair, made before a collective call.
class TargetControl {
 public:
  explicit TargetControl(fabric::Fabric& fabric);
  TargetControl(const TargetControl&) = delete;
  TargetControl& operator=(const TargetControl&) = delete;

  /// Rank 1's application thread: does as it is told until it is told to quit.
  void serve();

  /// Rank 0: returns once rank 1's application thread has changed over. \throws Error timed_out, peer_lost
  void set_mode(TargetMode mode);

 private:
  static void mode_arrived(void* context, fabric::Rank source, const std::byte* payload,
                           std::size_t bytes) noexcept;
  static void adopted_arrived(void* context, fabric::Rank source, const std::byte* payload,
                              std::size_t bytes) noexcept;

  fabric::Fabric& fabric_;
  // The two are written by the agent or a waiting thread and read by the application thread.
  std::atomic<TargetMode> mode_{TargetMode::waiting};
  std::atomic<std::uint64_t> orders_{0};
  std::atomic<std::uint64_t> adopted_{0};
  std::uint64_t ordered_ = 0;
};

}  // namespace craton::bench
