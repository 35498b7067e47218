/// \file
/// Reductions as compilers end them: an atomic instruction by which a thread adds its part to a variable of
/// all, right before it meets the others in a barrier or at the end of the region. Nobody can see the
/// variable before they have met, so the part may be put off until then, and no rank need have the variable
/// for itself meanwhile.
///
/// A part is what the operation makes of its identity. Of `lock add` and its like that is its operand. Of
///
///         load                            the place is `retried`:
///     ┌─▶ compute                           1. the exchange fails, with the identity as what is there
///     │   lock cmpxchg                      2. the program computes, and offers its part
///     └── if it failed                      3. the exchange succeeds, and changes nothing
///
/// the program itself makes it, if it is proven that what it does from the failure on to the exchange is that
/// operation on what it found there, and nothing else.
#pragma once

#include <cstdint>

#include "base/arithmetic.hpp"
#include "posix/atomics/code_map.hpp"
#include "posix/atomics/instruction.hpp"
#include "posix/atomics/registers.hpp"

namespace craton::posix {

struct Reduction {
  enum class Way : std::uint8_t { none, at_once, retried };
  enum class Meeting : std::uint8_t { barrier, end };

  Way way = Way::none;  ///< none: it is no reduction, or that is not proven
  Meeting meeting = Meeting::barrier;
  Arithmetic arithmetic;
  Register offered = no_register;  ///< retried: what the exchange would store
  std::uintptr_t function = 0;     ///< of Meeting::end: the beginning of the function that returns
};

/// Reads only, what the loader has relocated: calls of the barrier by way of the linker's table are known by
/// its entry.
/// \param barrier the function in which threads meet; null: there is none
Reduction find_reduction(const CodeMap& map, const Site& site, const void* barrier);

}  // namespace craton::posix
