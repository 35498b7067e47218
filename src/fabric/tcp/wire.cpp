#include "fabric/tcp/wire.hpp"

namespace craton::fabric::tcp {

const char* malformation(const FrameHeader& header) noexcept {
  if (header.magic != FrameHeader::expected_magic) return "a frame without the magic number";
  if (header.reserved != 0) return "a frame whose reserved byte is not 0";
  std::uint32_t max_payload_bytes = 0;
  switch (header.kind) {
    case FrameKind::put:
    case FrameKind::data:
      max_payload_bytes = chunk_bytes;
      break;
    case FrameKind::get:
      if (header.argument > chunk_bytes) return "a get of more than a chunk";
      break;
    case FrameKind::atomic:
      if (header.payload_bytes != sizeof(AtomicPayload)) return "an atomic with the wrong operands";
      if (header.argument > static_cast<std::uint32_t>(AtomicKind::swap)) return "an unknown atomic";
      if (header.offset % 8 != 0) return "an atomic on an unaligned word";
      max_payload_bytes = sizeof(AtomicPayload);
      break;
    case FrameKind::message:
      max_payload_bytes = max_message_bytes;
      if (header.argument >= max_handlers) return "a message for a handler out of range";
      break;
    case FrameKind::region:
      if (header.region >= max_regions) return "a region out of range";
      break;
    case FrameKind::done:
    case FrameKind::value:
    case FrameKind::farewell:
      break;
    default:
      return "a frame of an unknown kind";
  }
  if (header.payload_bytes > max_payload_bytes) return "a frame with an oversized payload";
  return nullptr;
}

}  // namespace craton::fabric::tcp
