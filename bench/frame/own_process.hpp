/// \file
/// A turn in a process of its own. For what leaves threads, static objects or handlers behind, which the next
/// turn would be measured with.
#pragma once

#include <string>

#include "base/function_ref.hpp"

namespace craton::bench {

/// Forks, calls `body()` in the child and waits for its end; a child that runs past the limit is killed. The
/// calling process must have one thread. \returns what went wrong, empty if nothing did: what `body` threw,
/// the signal that ended it, the limit \throws Error system
std::string in_own_process(unsigned limit_s, FunctionRef<void()> body);

}  // namespace craton::bench
