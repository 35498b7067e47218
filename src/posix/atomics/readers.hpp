/// \file
/// Several threads that read the code of an object at a time.
#pragma once

#include <cstddef>

#include "base/function_ref.hpp"

namespace craton::posix {

inline constexpr std::size_t functions_a_block = 64;

/// Calls `body` (first, last) for blocks of [0, count), each once, on so many threads, the calling one among
/// them. Blocks until all are done. What the first that fails throws is thrown. Threads take signals, since
/// data that they read may be the program's and fault.
void read_in_blocks(std::size_t count, std::size_t block, unsigned threads,
                    FunctionRef<void(std::size_t first, std::size_t last)> body);

}  // namespace craton::posix
