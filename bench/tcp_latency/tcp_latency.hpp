/// \file
/// One operation over tcp, through the fabric (craton.cpp) and over a bare socket (bare.cpp).
#pragma once

#include <cstddef>

#include "base/clock.hpp"
#include "fabric/fabric.hpp"
#include "frame/bare_socket.hpp"
#include "frame/measure.hpp"

namespace craton::bench {

enum class Operation { get, put, fetch_add };

/// One turn: `bytes` bytes from or to `local`, over and over, each waited for.
Sample craton_turn(fabric::Fabric& fabric, fabric::RemoteAddress remote, Operation operation, void* local,
                   std::size_t bytes, TimeNs turn_ns);
Sample bare_turn(BareSocket& socket, Operation operation, void* local, std::size_t bytes, TimeNs turn_ns);

}  // namespace craton::bench
