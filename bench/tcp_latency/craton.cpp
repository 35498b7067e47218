// Ours: served by the target's agent, or by its application thread while that waits.
#include "base/error.hpp"
#include "tcp_latency/tcp_latency.hpp"

namespace craton::bench {

Sample craton_turn(fabric::Fabric& fabric, fabric::RemoteAddress remote, Operation operation, void* local,
                   std::size_t bytes, TimeNs turn_ns) {
  return time_each(turn_ns, [&] {
    fabric::Completion completion;
    switch (operation) {
      case Operation::get:
        fabric.get(local, remote, bytes, completion);
        break;
      case Operation::put:
        fabric.put(remote, local, bytes, completion);
        break;
      case Operation::fetch_add:
        fabric.fetch_add(remote, 1, static_cast<std::uint64_t*>(local), completion);
        break;
    }
    if (fabric.wait(completion) != fabric::Status::ok) {
      throw Error(ErrorCode::peer_lost, {"cannot measure an operation", "it failed", "", ""});
    }
  });
}

}  // namespace craton::bench
