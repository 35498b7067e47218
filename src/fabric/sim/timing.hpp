/// \file
/// The times of a world that predicts instead of looking for bugs: the LogGP model (Alexandrov, Ionescu,
/// Schauser and Scheiman, SPAA 1995), in which chance decides nothing.
///
///     sender's CPU     │o│
///     sender's port      │ bytes*G │g│
///     way                │◀── L ──▶│
///     receiver's port              │ bytes*G │g│
///     receiver's CPU                         │o│   then the handler runs: after 2o + L + bytes*G
///
/// A port carries one message at a time, in either direction, so that those to a hot rank queue. A rank's CPU
/// does the overheads of what it sends and receives one after the other; what its program computes does not
/// delay them, since its agent serves meanwhile. Beyond the model, a rank that has waited for longer than it
/// polls sleeps, as does the agent of one that computes, and what arrives then waits until it is awake. All
/// times are of the virtual clock.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace craton::fabric::sim {

/// Who does a get, put or atomic.
enum class OneSided : std::uint8_t {
  /// The target's network card: a request, its effect, an answer, no CPU at the target. RDMA.
  target_nic,
  /// The target's agent, which receives the request and sends the answer: an overhead each. tcp.
  target_cpu,
  /// The initiator's CPU, by loads and stores: nothing is sent. shm.
  initiator_cpu,
};

/// How messages and one-sided operations travel between two ranks. A request or answer without data, or with
/// the operands of an atomic, counts as no bytes.
struct LogGP {
  TimeNs latency_ns = 0;       ///< L
  TimeNs overhead_ns = 0;      ///< o, on each side
  TimeNs gap_ns = 0;           ///< g: that a port is busy beyond the bytes of a message
  double gap_ns_per_byte = 0;  ///< G
  OneSided one_sided = OneSided::target_nic;
  TimeNs access_ns = 0;  ///< of OneSided::initiator_cpu: an access takes access_ns + bytes*G

  TimeNs wake_ns = 0;  ///< until a rank that sleeps begins to receive

  TimeNs transfer_ns(std::size_t bytes) const noexcept {
    return std::llround(static_cast<double>(bytes) * gap_ns_per_byte);
  }
};

/// What a rank does by itself. Whoever simulates its work charges what that takes: see SimFabric::charge.
struct LocalTimes {
  TimeNs polling_ns = 0;        ///< that a rank which waits is awake
  TimeNs fault_ns = 0;          ///< a page fault, from the access to the handler and back
  TimeNs protect_ns = 0;        ///< taking away the access to a run of blocks
  double copy_ns_per_byte = 0;  ///< one pass over a block: to copy, compare or merge it
};

struct Timing {
  LogGP network;     ///< between nodes; the ranks of a node share its port
  LogGP neighbours;  ///< between ranks of a node, each of which has a port
  LocalTimes local;
};

/// A port of the network: until when it is busy in each direction.
struct Port {
  TimeNs sends_until_ns = 0;
  TimeNs receives_until_ns = 0;
};

}  // namespace craton::fabric::sim
