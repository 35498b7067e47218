/// \file
/// The futex system call on words that all ranks share, as C++'s atomic waits, latches, semaphores, barriers
/// and futures make it: the kernel knows the sleepers of one process only, so they sleep in the monitor.
///
///     wait: enter, look at the word, leave; sleep until the next wake      wake: enter, leave; wake all
///     ranks
///
/// A wake enters so that what was written before it is seen by who looks next. It wakes all who sleep, as the
/// kernel may: who waits on a futex has to look again.
#pragma once

namespace craton::posix {

/// \param arguments of the call, without its number \returns false if it is the kernel's: the word is
/// private, or the job has one rank. Else `result` is what syscall() returns, with errno. Waits and wakes
/// only, with or without a bit set and a time; ENOSYS for the rest. A wake returns 0, since nobody counts who
/// slept. Threads: any of the program. Blocks.
bool run_shared_futex(const long (&arguments)[6], long& result) noexcept;

}  // namespace craton::posix
