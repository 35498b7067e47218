/// \file
/// What OpenMP's constructs cost, as one source that is linked with our runtime and with libgomp.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "frame/measure.hpp"

namespace craton::bench {

/// What the threads of a team share. All zero at first; at the same address in all of them.
struct OmpShared {
  std::uint64_t count;                                ///< of operations to be done
  std::array<std::array<std::uint64_t, 8>, 8> words;  ///< a line each
};

/// By the main thread. \param report gets each construct and its time: per operation, for the team as a whole
void measure_constructs(TimeNs turn_ns,
                        FunctionRef<void(std::string_view what, const Sample& sample)> report);

/// Set in each process before.
extern OmpShared* omp_shared;

}  // namespace craton::bench
