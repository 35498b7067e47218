/// \file
/// One-sided operations that the target's rank serves in software, over UCX's active messages: what goes over
/// the wire. A request is one header, a put's with the bytes after it; so is the answer, a get's with the
/// bytes after it. Large transfers are several requests. Each is executed inside the target's poll(), by
/// whoever polls, the agent at last.
///
/// Small requests that are issued together, and the answers to what came together, go in one pack:
///
///     | header | bytes, up to 8 byte boundary | header | ...
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/types.hpp"

namespace craton::fabric::ucx {

enum class ServiceKind : std::uint8_t {
  get = 1,
  put,
  atomic,
  answer,  ///< to any of them
};

struct ServiceHeader {
  std::uint64_t token;      ///< as in FrameHeader
  std::uint64_t operation;  ///< the asking rank's name for it; handed back
  std::uint64_t offset;     ///< of the bytes in the region; handed back
  std::uint64_t first;  ///< of an AtomicOperation; in the answer the word's value before it, or that of a get
  std::uint64_t second;  ///< of an AtomicOperation
  std::uint32_t bytes;   ///< of the part; handed back
  std::uint32_t region;
  std::uint16_t source;
  ServiceKind kind;
  AtomicKind atomic;
  std::uint32_t attached;  ///< in a pack: how many bytes follow
};
static_assert(sizeof(ServiceHeader) == 56);

/// A pack is no larger than this: UCX sends it eagerly, and over tcp in one piece.
inline constexpr std::size_t max_pack_bytes = 4096;
/// What has more bytes travels alone, without being copied.
inline constexpr std::size_t max_packed_part_bytes = 512;

/// A larger transfer is asked for in parts of this size.
inline constexpr std::size_t max_part_bytes = std::size_t{64} << 10;

}  // namespace craton::fabric::ucx
