/// \file
/// How one-sided operations get from the threads that want them to the network.
#pragma once

#include <cstdint>

namespace craton::fabric::offload {

enum class OffloadMode : std::uint8_t {
  direct,   ///< the thread that wants it issues it, under the lock of its connection
  fixed,    ///< "static": executors are kernel threads that never sleep; where a core each can be spared
  dynamic,  ///< executors are fibers that run only while there is work
};

inline constexpr unsigned max_endpoints = 16;
inline constexpr unsigned max_workers = 16;

struct OffloadOptions {
  OffloadMode mode = OffloadMode::direct;
  unsigned endpoints = 1;  ///< at most max_endpoints; the same at all ranks
  unsigned workers = 1;    ///< kernel threads for all executors of `dynamic`; at most max_workers
};

}  // namespace craton::fabric::offload
