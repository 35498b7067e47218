#include "job/frame.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::job {

namespace {

constexpr std::uint64_t frame_mark = 0xC7A7;

void append_integer(std::string& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFFU));
}

std::uint64_t integer_at(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

[[noreturn]] void bad_frame(std::string happened) {
  throw Error(
      ErrorCode::protocol,
      {.asked = "cannot read a control frame", .happened = std::move(happened), .limit = {}, .remedy = {}});
}

}  // namespace

void append_frame(std::string& wire, FrameKind kind, std::string_view body) {
  CRATON_ASSERT(body.size() <= max_node_body_bytes);
  append_integer(wire, body.size(), 4);
  append_integer(wire, static_cast<std::uint16_t>(kind), 2);
  append_integer(wire, frame_mark, 2);
  wire.append(body);
}

std::optional<Frame> FrameReader::next() {
  const std::string_view bytes = rest();
  if (bytes.size() < frame_header_bytes) return std::nullopt;
  const std::uint64_t length = integer_at(bytes.substr(0, 4));
  const std::uint64_t kind = integer_at(bytes.substr(4, 2));
  if (integer_at(bytes.substr(6, 2)) != frame_mark) bad_frame("the bytes that came are no frame");
  if (kind == 0 || kind > static_cast<std::uint16_t>(last_frame_kind)) {
    bad_frame("its kind " + std::to_string(kind) + " is unknown");
  }
  if (length > max_body_bytes_) {
    bad_frame("its length " + std::to_string(length) + " is over the limit of " +
              std::to_string(max_body_bytes_));
  }
  if (bytes.size() - frame_header_bytes < length) return std::nullopt;
  Frame frame{static_cast<FrameKind>(kind), std::string(bytes.substr(frame_header_bytes, length))};
  taken_ += frame_header_bytes + length;
  // Dropping what was taken costs a move of the rest, so it is done when that is cheap.
  if (taken_ == pending_.size() || taken_ >= pending_.size() / 2) {
    pending_.erase(0, taken_);
    taken_ = 0;
  }
  return frame;
}

BodyWriter& BodyWriter::u8(std::uint8_t value) {
  return append_integer(body_, value, 1), *this;
}
BodyWriter& BodyWriter::u32(std::uint32_t value) {
  return append_integer(body_, value, 4), *this;
}
BodyWriter& BodyWriter::u64(std::uint64_t value) {
  return append_integer(body_, value, 8), *this;
}
BodyWriter& BodyWriter::text(std::string_view value) {
  u32(static_cast<std::uint32_t>(value.size()));
  return rest(value);
}
BodyWriter& BodyWriter::rest(std::string_view value) {
  body_.append(value);
  return *this;
}

std::string_view BodyReader::take(std::size_t count) {
  if (left_.size() < count) {
    bad_frame("its body ends " + std::to_string(count - left_.size()) + " bytes too early");
  }
  const std::string_view taken = left_.substr(0, count);
  left_.remove_prefix(count);
  return taken;
}
std::uint64_t BodyReader::integer(std::size_t bytes) {
  return integer_at(take(bytes));
}
std::uint8_t BodyReader::u8() {
  return static_cast<std::uint8_t>(integer(1));
}
std::uint32_t BodyReader::u32() {
  return static_cast<std::uint32_t>(integer(4));
}
std::uint64_t BodyReader::u64() {
  return integer(8);
}
std::string BodyReader::text() {
  return std::string(take(u32()));
}
std::string_view BodyReader::rest() {
  return take(left_.size());
}
void BodyReader::done() const {
  if (!left_.empty()) bad_frame("its body is " + std::to_string(left_.size()) + " bytes too long");
}

}  // namespace craton::job
