/// \file
/// Chunks of loops over `long` and over `unsigned long long`.
#pragma once

#include "omp/gomp/abi.hpp"

namespace craton::omp::gomp {

using Ull = unsigned long long;

/// Takes the next chunk of the loop met last. \returns false if there is none
template <typename Value>
bool next(Value* first, Value* last) {
  LoopPosition* position = nullptr;
  if (!next_chunk(position)) return false;
  const Iterations& iterations = position->loop.iterations;
  *first = static_cast<Value>(iterations.value(position->first));
  *last = static_cast<Value>(iterations.value_at_end(position->last));
  return true;
}

}  // namespace craton::omp::gomp
