// The bare baseline: memcpy through the mapping that the fabric uses itself.
#include <atomic>
#include <cstring>

#include "shm_rma/shm_rma.hpp"

namespace craton::bench {

template <std::size_t Bytes>
Sample bare_get(const Copies& copies, TimeNs turn_ns) {
  return time_batches(turn_ns, [&copies](std::uint64_t count) {
    const Copies own = copies;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(own.local, own.mapped, Bytes);
      touch_memory(own.local);
    }
  });
}

template <std::size_t Bytes>
Sample bare_put(const Copies& copies, TimeNs turn_ns) {
  return time_batches(turn_ns, [&copies](std::uint64_t count) {
    const Copies own = copies;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(own.mapped, own.local, Bytes);
      touch_memory(own.local);
    }
  });
}

Sample bare_fetch_add(const Copies& copies, TimeNs turn_ns) {
  return time_batches(turn_ns, [&copies](std::uint64_t count) {
    const Copies own = copies;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t previous =
          std::atomic_ref(*reinterpret_cast<std::uint64_t*>(own.mapped)).fetch_add(1);
      std::memcpy(own.local, &previous, sizeof previous);
      touch_memory(own.local);
    }
  });
}

#define INSTANTIATE(bytes)                                \
  template Sample bare_get<bytes>(const Copies&, TimeNs); \
  template Sample bare_put<bytes>(const Copies&, TimeNs);
CRATON_COPY_SIZES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace craton::bench
