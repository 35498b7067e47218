/// \file
/// The frames that UCX's active messages carry between two ranks.
///
///     0        8          16              20       22     23        24
///     | token  | sequence | payload_bytes | source | kind | handler | payload ...
///
/// Invariant: a frame other than a hello is looked at only if its token is the one of its source
/// (frame_proof.hpp), and frames are delivered in the order of their sequence numbers: UCX keeps no order
/// between a message that fits one packet and one that does not, nor across the lanes of an endpoint.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/types.hpp"

namespace craton::fabric::ucx {

/// The ids of our active messages at UCX, which keeps an array up to the largest.
inline constexpr unsigned frame_message_id = 1;
inline constexpr unsigned service_message_id = 2;
inline constexpr unsigned service_pack_id = 3;

enum class FrameKind : std::uint8_t {
  hello = 1,  ///< proof of the secret; answered by a welcome. Has no token and no sequence number
  welcome,    ///< the hello was accepted: the sender of the hello may use the receiver
  message,    ///< for a handler
  region,     ///< RegionAnnouncement
  farewell,   ///< the sender sends nothing more, and its end is no death
};

struct FrameHeader {
  std::uint64_t token;
  std::uint64_t sequence;
  std::uint32_t payload_bytes;
  std::uint16_t source;
  FrameKind kind;
  std::uint8_t handler;
};
static_assert(sizeof(FrameHeader) == 24);
static_assert(max_ranks <= 65536);
static_assert(max_handlers <= 256);

inline constexpr std::size_t max_payload_bytes = max_message_bytes;
inline constexpr std::size_t max_frame_bytes = sizeof(FrameHeader) + max_payload_bytes;

/// Payload of a region frame; UCX's packed remote key follows.
struct RegionAnnouncement {
  std::uint64_t base;  ///< address at the owner
  std::uint64_t bytes;
  std::uint32_t region;
  std::uint32_t key_bytes;
};
static_assert(sizeof(RegionAnnouncement) == 24);

// Limits. Each bounds what a peer or a program can make this rank hold.

/// Bytes of messages to one peer that UCX has not taken yet, above which send() refuses if it may.
inline constexpr std::size_t refuse_backlog_bytes = std::size_t{1} << 20;
/// The same, above which the program is at fault: handlers send without end and nothing is received.
inline constexpr std::size_t max_backlog_bytes = std::size_t{1} << 30;
/// Frames of one peer that arrived before one that was sent earlier.
inline constexpr std::size_t max_early_frames = 65536;
/// Frame buffers kept for reuse.
inline constexpr std::size_t max_idle_frames = 256;
/// One-sided operations in flight to one peer above which a thread that can wait should; handlers cannot.
inline constexpr std::uint32_t enough_operations = 8192;
/// One-sided operations in flight to all peers, above which the program is at fault, as with
/// max_backlog_bytes.
inline constexpr std::size_t max_operations = std::size_t{1} << 22;

}  // namespace craton::fabric::ucx
