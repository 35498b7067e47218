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
/// Standard input is rank 0's for all; the other ranks' own is empty. On other nodes the calls that move
/// bytes or say something about a file are forwarded to rank 0 (remote_files.hpp), and so is close()
/// everywhere.
///
/// On the other ranks all numbers of rank 0's range are taken, so that what the C library or the runtime
/// opens there never hides one. What rank 0 closes, or replaces by dup2, stays open nowhere: it knows which
/// of its numbers were ever borrowed, and tells all ranks before its call returns (not in handlers of
/// signals).
///
/// Other calls end the job with a message there. What another rank than 0 has opened is its own.
///
/// Standard output and error each rank has of its own; where rank 0 puts another file there, its neighbours
/// do.
///
/// The runtime's own have, on rank 0, numbers of 256 and more where the limit allows it, and are closed for
/// all that the program knows.
///
/// Threads: any.
#pragma once

#include <climits>
#include <cstddef>

#include "base/function_ref.hpp"
#include "fabric/types.hpp"
#include "space/agreement.hpp"

namespace craton::posix {

class SharedProgram;

/// Leaves the low numbers to the program: what the runtime opens from here on gets higher ones. And has the
/// kernel's table of descriptors grow now, before the process has threads: later each step takes a
/// grace period of the kernel's, some ms, and ranks would come late to the program's first region.
void make_room_for_descriptors() noexcept;

/// Collective: rank 0 lets its neighbours borrow. Before the program starts. \throws Error
void share_descriptors(SharedProgram& program, space::Agreement& agreement);

/// A number that no process has: whoever asks the kernel about it is told EBADF.
inline constexpr int no_descriptor = INT_MAX;

/// The descriptor of this process for what the program calls `number`; no_descriptor where it is closed. Ends
/// the job where it cannot be had. \param function for the message
int descriptor_here(int number, const char* function) noexcept;

/// Likewise, of a directory that a path is relative to: AT_FDCWD as well.
int directory_here(int number, const char* function) noexcept;

/// The same number means another descriptor here.
bool descriptor_is_foreign(int number) noexcept;

/// It is rank 0's, which is on another node: nothing here stands for it.
bool descriptor_is_far(int number) noexcept;

/// As descriptor_here(), for what will close it: a copy where it is not this rank's.
int descriptor_to_keep(int number, const char* function) noexcept;

/// Calls `visit` with each number that is open in this process, the runtime's as well.
void visit_descriptors(FunctionRef<void(int)> visit);

/// It is the runtime's: closed, for all that the program knows.
bool descriptor_is_runtimes(int number) noexcept;

/// Closes a descriptor of this process that the program has not been told of. errno stays.
void close_unused(int descriptor) noexcept;

/// The stream or directory that `make` makes of a descriptor, for which it has its own where the number is
/// another rank's.
template <typename Make>
auto open_number(int number, const char* function, Make make) {
  const int own = descriptor_to_keep(number, function);
  auto* const stream = make(own);
  if (stream == nullptr && own != number) close_unused(own);
  return stream;
}

/// Reads what rank 0's process has at an address that means nothing here. \returns whether it is on this node
/// and has something there
bool read_first_process(const void* from, void* to, std::size_t bytes) noexcept;

/// Gives a descriptor that a call has made in this process the number that the program gets. \returns it; -1
/// stays
int descriptor_made(int descriptor) noexcept;

/// The program will make this process's descriptor of a number of its own choice, whatever has it now.
void descriptor_replacing(int number) noexcept;
/// It has; -1 is ignored.
void descriptor_replaced(int number) noexcept;

/// Ends the job if the program cannot close it here: it is another rank's, and this is a handler of a signal.
void refuse_foreign_close(int number) noexcept;

/// Around the call by which the program closes a descriptor of this process.
class ClosingDescriptor {
 public:
  explicit ClosingDescriptor(int number) noexcept;
  ClosingDescriptor(const ClosingDescriptor&) = delete;
  ClosingDescriptor& operator=(const ClosingDescriptor&) = delete;
  ~ClosingDescriptor();

 private:
  const int number_;
};

}  // namespace craton::posix
