// The bare baseline: one request, then nothing but the bytes, into the memory that ours uses.
#include "frame/measure.hpp"
#include "tcp_stream/tcp_stream.hpp"

namespace craton::bench {

double bare_turn(BareSocket& socket, std::byte* local, const Stream& stream) {
  const TimeNs start = now_ns();
  if (stream.direction == Direction::get) {
    socket.stream_get(local, stream.bytes, stream.window, stream.count);
  } else {
    socket.stream_put(local, stream.bytes, stream.window, stream.count);
  }
  return static_cast<double>(stream.count * stream.bytes) / static_cast<double>(now_ns() - start);
}

}  // namespace craton::bench
