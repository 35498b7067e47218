/// \file
/// What the program's C++ library keeps for the whole process, and each rank has one of: what
/// std::terminate() calls, what operator new calls where there is no memory, the usual resource of std::pmr,
/// and the locale that streams are made with.
#pragma once

namespace craton::posix {

/// Before the program sets any of them.
void start_cpp_settings() noexcept;

/// Before a region, and before a thread is started on another rank: what has changed on this one is made so
/// on all. Asks them only then. Blocks; null operation in handlers of signals, and where the program has no
/// C++ library.
void tell_cpp_settings() noexcept;

}  // namespace craton::posix
