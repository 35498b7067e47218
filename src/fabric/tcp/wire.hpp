/// \file
/// What ranks say to each other over tcp, after the handshake: frames of a fixed header and a payload.
/// Integers are in the byte order of the machine; the handshake refuses a peer of the other order.
///
///   kind      operation  region  offset        argument        payload
///   put       id         target  target        -               the bytes               -> done
///   get       id         source  source        bytes wanted    -                       -> data
///   atomic    id         target  target        AtomicKind      first, second (16 B)    -> value
///   done      id         -       -             -               -
///   data      id         -       -             -               the bytes
///   value     id         -       the value     -               -
///   message   -          -       -             handler         the message
///   region    -          id      its bytes     -               -
///   farewell  -          -       -             -               -
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fabric/types.hpp"

namespace craton::fabric::tcp {

enum class FrameKind : std::uint8_t {
  put = 1,
  get,
  atomic,
  done,
  data,
  value,
  message,
  region,
  farewell,
};

/// Larger transfers are cut into chunks of this size, of which a few are under way at once.
inline constexpr std::uint32_t chunk_bytes = 256 * 1024;

struct FrameHeader {
  static constexpr std::uint16_t expected_magic = 0x4372;
  std::uint16_t magic = expected_magic;
  FrameKind kind = FrameKind::farewell;
  std::uint8_t reserved = 0;
  std::uint32_t payload_bytes = 0;
  std::uint64_t operation = 0;
  std::uint64_t offset = 0;
  std::uint32_t region = 0;
  std::uint32_t argument = 0;
};
static_assert(sizeof(FrameHeader) == 32);

struct AtomicPayload {
  std::uint64_t first;
  std::uint64_t second;
};

/// Checks everything about a header that can be checked without knowing regions or operations.
/// \returns null if it is well formed, else what is wrong with it
const char* malformation(const FrameHeader& header) noexcept;

}  // namespace craton::fabric::tcp
