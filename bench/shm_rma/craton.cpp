// Ours: each operation has a completion of its own, which is waited for, as a program would write it.
#include "base/error.hpp"
#include "shm_rma/shm_rma.hpp"

namespace craton::bench {
namespace {

void check(fabric::Status status) {
  if (status != fabric::Status::ok) [[unlikely]] {
    throw Error(ErrorCode::peer_lost, {"cannot measure an operation", "it failed", "", ""});
  }
}

}  // namespace

template <std::size_t Bytes>
Sample craton_get(const Copies& copies, TimeNs turn_ns) {
  return time_batches(turn_ns, [&copies](std::uint64_t count) {
    const Copies own = copies;
    for (std::uint64_t i = 0; i < count; ++i) {
      fabric::Completion completion;
      own.fabric.get(own.local, own.remote, Bytes, completion);
      check(own.fabric.wait(completion));
      touch_memory(own.local);
    }
  });
}

template <std::size_t Bytes>
Sample craton_put(const Copies& copies, TimeNs turn_ns) {
  return time_batches(turn_ns, [&copies](std::uint64_t count) {
    const Copies own = copies;
    for (std::uint64_t i = 0; i < count; ++i) {
      fabric::Completion completion;
      own.fabric.put(own.remote, own.local, Bytes, completion);
      check(own.fabric.wait(completion));
      touch_memory(own.local);
    }
  });
}

Sample craton_fetch_add(const Copies& copies, TimeNs turn_ns) {
  return time_batches(turn_ns, [&copies](std::uint64_t count) {
    const Copies own = copies;
    for (std::uint64_t i = 0; i < count; ++i) {
      fabric::Completion completion;
      own.fabric.fetch_add(own.remote, 1, reinterpret_cast<std::uint64_t*>(own.local), completion);
      check(own.fabric.wait(completion));
      touch_memory(own.local);
    }
  });
}

#define INSTANTIATE(bytes)                                  \
  template Sample craton_get<bytes>(const Copies&, TimeNs); \
  template Sample craton_put<bytes>(const Copies&, TimeNs);
CRATON_COPY_SIZES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace craton::bench
