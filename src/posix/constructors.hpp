/// \file
/// The constructors of the program's own libraries (LoadedObject::shared), which the loader would run on
/// every rank before memory is shared: what they allocate would be each rank's own, and what they print would
/// come once a rank. So they are put off, and run as the executable's are: on rank 0, on the program's first
/// thread, in the loader's order.
///
///     loader         relocates all objects
///     libcraton-libomp.so    initialised first (-z initfirst): put_off_constructors()
///     loader         runs the constructors of all others
///     entry.cpp      shares memory
///     rank 0         run_constructors(), then the executable's, then main
///
/// Those of `.init_array`, that is: compilers have made no others for long.
///
/// A library of the system's that needs one of the program's waits for it, on rank 0: it may call it. Its
/// data are each rank's own, so on other ranks it is constructed by the loader as ever, and before it what it
/// needs.
#pragma once

namespace craton::posix {

class NamedLibraries;

/// Before any constructor has run, on a rank's initial thread. Where a library of the program wants to be the
/// first itself (DF_1_INITFIRST) it leaves all as it is. \param is_first_rank the others never run them
void put_off_constructors(bool is_first_rank, const NamedLibraries& named);

/// Rank 0, once, on the thread that main will run on. Blocks as they do; what they throw ends the process.
void run_constructors(int argc, char** argv, char** environment) noexcept;

}  // namespace craton::posix
