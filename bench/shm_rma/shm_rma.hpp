/// \file
/// The turns of shm_rma: the same loops over the same memory, through the fabric and without it. The sizes
/// are constants in both, so that the bare side gets the best code there is for them: 8 bytes are one load
/// and one store.
#pragma once

#include <cstddef>

#include "base/clock.hpp"
#include "fabric/fabric.hpp"
#include "frame/measure.hpp"

namespace craton::bench {

/// What both variants work on. Each batch takes a copy, which the compiler can keep in registers as it would
/// keep a program's own variables: touch_memory() reloads all others.
struct Copies {
  fabric::Fabric& fabric;
  fabric::RemoteAddress remote;  ///< rank 1's memory, as the fabric names it
  std::byte* mapped;             ///< the same bytes, as this rank maps them
  std::byte* local;
};

using CopyTurn = Sample (*)(const Copies&, TimeNs turn_ns);

struct CopyCase {
  const char* operation;  ///< "get", "put", "fetch_add"
  std::size_t bytes;
  CopyTurn craton;
  CopyTurn bare;
};

// craton.cpp
template <std::size_t Bytes>
Sample craton_get(const Copies& copies, TimeNs turn_ns);
template <std::size_t Bytes>
Sample craton_put(const Copies& copies, TimeNs turn_ns);
Sample craton_fetch_add(const Copies& copies, TimeNs turn_ns);

// bare.cpp
template <std::size_t Bytes>
Sample bare_get(const Copies& copies, TimeNs turn_ns);
template <std::size_t Bytes>
Sample bare_put(const Copies& copies, TimeNs turn_ns);
Sample bare_fetch_add(const Copies& copies, TimeNs turn_ns);

/// The sizes that are instantiated in both files.
#define CRATON_COPY_SIZES(each) each(8) each(1024) each(4096) each(65536) each(1048576)

}  // namespace craton::bench
