/// \file
/// Small messages from rank 0 to rank 1: how many a second from one and four threads, and the time of a round
/// trip, through the fabric (craton.cpp), through a bare ring in shared memory (bare_ring.cpp) and over a
/// bare socket (bare_socket.cpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/fabric.hpp"
#include "frame/bare_socket.hpp"
#include "frame/measure.hpp"
#include "frame/shared_ring.hpp"

namespace craton::bench {

/// Sends on `threads` threads for about `turn_ns`. \returns how many messages were sent
std::uint64_t send_for(TimeNs turn_ns, int threads, FunctionRef<void()> send);

/// Messages a second. \throws Error protocol if not all that were sent have arrived
double rate(std::uint64_t sent, std::uint64_t arrived, TimeNs elapsed_ns);

/// What a rate or a round trip is measured through.
class MessageWay {
 public:
  virtual ~MessageWay() = default;
  /// Messages a second, from the first one sent to the last one handled by the target.
  virtual double rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) = 0;
  /// The time of a message of 8 bytes and its answer.
  virtual Sample round_trip_turn(TimeNs turn_ns) = 0;
};

/// Ours. One on each rank, made before a collective call.
class CratonMessages final : public MessageWay {
 public:
  explicit CratonMessages(fabric::Fabric& fabric);
  double rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) override;
  Sample round_trip_turn(TimeNs turn_ns) override;

 private:
  static void counted(void* context, fabric::Rank source, const std::byte* payload,
                      std::size_t bytes) noexcept;
  static void asked(void* context, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void answered(void* context, fabric::Rank source, const std::byte* payload,
                       std::size_t bytes) noexcept;
  /// Asks the target how many messages have arrived since it was last asked.
  std::uint64_t ask();

  fabric::Fabric& fabric_;
  std::uint64_t counted_ = 0;  ///< target: handlers of a rank run one at a time
  std::uint64_t answer_ = 0;   ///< initiator: written before `answers_` is
  std::atomic<std::uint64_t> answers_{0};
};

/// The two rings of a pair, mapped before the ranks are forked.
struct SharedRings {
  SharedRing to_target;
  SharedRing to_initiator;
};

class RingMessages final : public MessageWay {
 public:
  explicit RingMessages(SharedRings& rings) : rings_(rings) {}
  /// Tells the server to end.
  ~RingMessages() override;
  double rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) override;
  Sample round_trip_turn(TimeNs turn_ns) override;

 private:
  std::uint64_t ask();

  SharedRings& rings_;
  std::mutex producer_;  ///< senders of one ring take turns
};

/// Serves the target's side on a thread of its own until the initiator's RingMessages goes.
class RingServer {
 public:
  explicit RingServer(SharedRings& rings);
  RingServer(const RingServer&) = delete;
  RingServer& operator=(const RingServer&) = delete;
  ~RingServer();

 private:
  std::thread thread_;
};

/// One send() a message; the target receives in bulk. Its target is a BareServer.
class SocketMessages final : public MessageWay {
 public:
  explicit SocketMessages(UniqueFd fd) : socket_(std::move(fd)) {}
  double rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) override;
  Sample round_trip_turn(TimeNs turn_ns) override;

 private:
  BareSocket socket_;
  std::mutex sender_;
};

}  // namespace craton::bench
