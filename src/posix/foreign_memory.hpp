/// \file
/// Memory that one rank has mapped for itself, and another uses: says which, before the other dies of it.
///
/// Libraries that the program loads while it runs, what libraries of the system map, brk: none of it is
/// shared, and all that is seen of it elsewhere is a segmentation fault.
#pragma once

#include "posix/shared_program.hpp"

namespace craton::posix {

/// Stands where a fault goes that is none of the space's and that the program does not handle. Once, before
/// the program starts.
void explain_faults(SharedProgram& program);
/// The program sees its default action instead of ours, and sets ours where it sets that. Async-signal-safe.
void hide_explanation(int signal, struct sigaction& action) noexcept;
void put_explanation(int signal, struct sigaction& action) noexcept;

}  // namespace craton::posix
