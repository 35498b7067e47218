// The bare baseline over tcp: every message is a frame and a system call of its own.
#include <vector>

#include "base/error.hpp"
#include "message_rate/message_rate.hpp"

namespace craton::bench {

double SocketMessages::rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) {
  std::vector<char> frame(sizeof(BareRequest) + bytes, 0);
  const BareRequest request{BareRequest::Kind::messages, 1, frame.size(), 1, 0};
  const int fd = socket_.fd();
  const TimeNs start = now_ns();
  send_all(fd, &request, sizeof request);
  const std::uint64_t sent = send_for(turn_ns, threads, [&] {
    const std::scoped_lock turn(sender_);
    send_all(fd, frame.data(), frame.size());
  });
  frame[0] = 1;  // the last one, which asks for the answer
  send_all(fd, frame.data(), frame.size());
  std::uint64_t arrived = 0;
  if (!receive_all(fd, &arrived, sizeof arrived)) {
    throw Error(ErrorCode::peer_lost, {"cannot measure messages", "the bare server is gone", "", ""});
  }
  return rate(sent, arrived - 1, now_ns() - start);
}

Sample SocketMessages::round_trip_turn(TimeNs turn_ns) {
  std::uint64_t answer = 0;
  return time_each(turn_ns, [this, &answer] { socket_.get(&answer, sizeof answer); });
}

}  // namespace craton::bench
