// Ours: as many gets or puts in flight as the window holds, each with its own completion.
#include <vector>

#include "base/error.hpp"
#include "frame/measure.hpp"
#include "tcp_stream/tcp_stream.hpp"

namespace craton::bench {

double craton_turn(fabric::Fabric& fabric, fabric::RegionId region, std::byte* local, const Stream& stream) {
  const auto wait = [&fabric](fabric::Completion& completion) {
    if (fabric.wait(completion) != fabric::Status::ok) {
      throw Error(ErrorCode::peer_lost, {"cannot measure a stream", "an operation failed", "", ""});
    }
  };
  std::vector<fabric::Completion> completions(stream.window);
  const TimeNs start = now_ns();
  for (std::uint64_t i = 0; i < stream.count; ++i) {
    const std::uint64_t slot = i % stream.window;
    const std::uint64_t offset = slot * stream.bytes;
    const fabric::RemoteAddress remote{1, region, offset};
    wait(completions[slot]);
    if (stream.direction == Direction::get) {
      fabric.get(local + offset, remote, stream.bytes, completions[slot]);
    } else {
      fabric.put(remote, local + offset, stream.bytes, completions[slot]);
    }
  }
  for (fabric::Completion& completion : completions) wait(completion);
  return static_cast<double>(stream.count * stream.bytes) / static_cast<double>(now_ns() - start);
}

}  // namespace craton::bench
