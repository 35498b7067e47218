/// \file
/// Descriptors of a program whose threads are in several processes.
///
/// A descriptor is a number of one process. The program believes to have one process: what its first thread
/// has opened it uses in all of them. So the number says whose it is: rank 0 has the low numbers, as the
/// kernel gives them out; what is opened on another rank is moved to a range of that rank. Where a rank uses
/// a number of rank 0's and both are on one node, it borrows the open file itself (pidfd_getfd), so the
/// offset is one, as among threads. Before each use it asks the kernel whether rank 0 still means the same
/// file (kcmp).
///
///     0, 1, 2 │ rank 0 ... 255 │ rank 1 ... 511 │ rank 2 ...
///
/// Elsewhere the job ends with a message: a descriptor of another node, or of another rank than 0. Not
/// borrowed: by close, dup2, poll, select, epoll and mmap of files.
///
/// Threads: any.
#pragma once

#include "fabric/types.hpp"

namespace craton::posix {

class SharedProgram;

/// Collective: rank 0 lets its neighbours borrow. Before the program starts. \throws Error
void share_descriptors(SharedProgram& program);

/// The descriptor of this process for what the program calls `number`. Ends the job where there is none.
/// \param function for the message
int descriptor_here(int number, const char* function) noexcept;

/// Gives a descriptor that a call has made in this process the number that the program gets. \returns it; -1
/// stays
int descriptor_made(int descriptor) noexcept;

/// The program has made this process's descriptor of a number of its own choice; -1 is ignored.
void descriptor_replaced(int number) noexcept;

/// The program has closed it.
void descriptor_closed(int number) noexcept;

}  // namespace craton::posix
