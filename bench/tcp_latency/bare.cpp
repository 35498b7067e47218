// The bare baseline: a ping-pong with requests of the same size, served by a thread that does nothing else.
#include <cstring>

#include "fabric/tcp/wire.hpp"
#include "tcp_latency/tcp_latency.hpp"

namespace craton::bench {

static_assert(sizeof(BareRequest) == sizeof(fabric::tcp::FrameHeader),
              "requests of the same size on both sides");

Sample bare_turn(BareSocket& socket, Operation operation, void* local, std::size_t bytes, TimeNs turn_ns) {
  return time_each(turn_ns, [&] {
    switch (operation) {
      case Operation::get:
        socket.get(local, bytes);
        break;
      case Operation::put:
        socket.put(local, bytes);
        break;
      case Operation::fetch_add: {
        const std::uint64_t previous = socket.fetch_add();
        std::memcpy(local, &previous, sizeof previous);
        break;
      }
    }
  });
}

}  // namespace craton::bench
