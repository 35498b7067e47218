/// \file
/// The heartbeat (DESIGN, *Programs that are not data-race-free*): a rank that has not synchronised for a
/// while publishes what it wrote and acquires what others have published, so that a program that spins on a
/// plain variable goes on.
///
/// A kernel thread of the rank. A beat is a release, unless there was one since the last beat, or so lately
/// that it would cost more than it is worth, and, unless there was a barrier of all ranks, where there
/// are ranks from which no thread has acquired since, a get of eight bytes from all, together, and an acquire
/// from those that have published something. However long a beat takes, beats take no more than a twentieth
/// of the time. Between them it releases at once where other ranks wait for that (LeaseRelease::show_uncut).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"
#include "space/signature_board.hpp"

namespace craton::space {

class Heartbeat final : private coherence::Releaser {
 public:
  /// \param interval_ns between beats; 0: there is no thread, and nothing happens
  Heartbeat(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, SignatureBoard& board,
            TimeNs interval_ns);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat() override { stop(); }

  /// Whether it beats at all.
  bool beats() const noexcept { return interval_ns_ != 0; }
  /// Called after each beat, on its thread: must not touch the program's memory, which no fault would open
  /// there. Replaces what was called before, and waits for a call of that which is under way. Null: nothing
  /// is.
  using Also = void (*)(void* context) noexcept;
  void set_also(Also also, void* context) noexcept;

  /// No beat after it. Waits for one that is under way, which ends at the latest when a rank is known to be
  /// dead. By one thread.
  void stop() noexcept;

 private:
  void want_release() noexcept override;
  void run();
  void beat();
  void publish();
  bool sleep_until(TimeNs time_ns);

  fabric::Fabric& fabric_;
  coherence::LeaseRelease& protocol_;
  SignatureBoard& board_;
  const TimeNs interval_ns_;
  // As of the last beat.
  std::vector<std::uint64_t> acquired_seen_;  ///< by rank: LeaseRelease::acquired
  std::uint64_t releases_seen_ = 0;
  TimeNs released_ns_ = 0;      ///< when the last release was seen, or done
  TimeNs release_cost_ns_ = 0;  ///< of those that were done
  std::uint64_t barriers_seen_ = 0;
  std::uint64_t posts_seen_ = 0;
  std::mutex also_lock_;
  Also also_ = nullptr;
  void* also_context_ = nullptr;
  static constexpr std::uint32_t stopped = 1;  ///< it is time to stop
  static constexpr std::uint32_t wanted = 2;   ///< a release, at once
  std::atomic<std::uint32_t> calls_{0};        ///< those; the thread sleeps while there is none
  std::thread thread_;
};

}  // namespace craton::space
