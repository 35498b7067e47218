/// \file
/// Many pieces over tcp with several in flight, through the fabric (craton.cpp) and over a bare socket
/// (bare.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/fabric.hpp"
#include "frame/bare_socket.hpp"

namespace craton::bench {

enum class Direction { get, put };

/// `count` pieces of `bytes` bytes; `window` of them are in flight (bare: `window` pieces of memory are used
/// in turn).
struct Stream {
  Direction direction;
  std::size_t bytes;
  std::uint32_t window;
  std::uint64_t count;
};

// Each returns GB/s, from the first call to the completion of the last piece at the target.
double craton_turn(fabric::Fabric& fabric, fabric::RegionId region, std::byte* local, const Stream& stream);
double bare_turn(BareSocket& socket, std::byte* local, const Stream& stream);

}  // namespace craton::bench
