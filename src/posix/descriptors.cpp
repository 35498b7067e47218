#include "posix/descriptors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "base/unique_fd.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

namespace {

/// Numbers of each rank, as far as the limit of the process reaches.
constexpr int numbers_a_rank = 256;
constexpr int numbers_most = 65536;

/// A rank other than 0. One for the process, as its descriptors are.
struct Borrowing {
  SharedProgram* program = nullptr;
  pid_t first_process = 0;
  UniqueFd first;        ///< a pidfd of rank 0's process; none on another node
  int first_number = 0;  ///< of those that this rank gives out
  /// Not the program's: of the runtime when the program started, and what stands for rank 0's.
  std::array<std::atomic<std::uint8_t>, numbers_most> runtimes{};
  /// Numbers that the program was given by this process.
  std::array<std::atomic<std::uint8_t>, numbers_most> made{};
  /// One more than the descriptor that stands for a number of rank 0's.
  std::array<std::atomic<std::int32_t>, numbers_most> borrowed{};
  std::mutex lock;  ///< of changes to `borrowed`
};

Borrowing& borrowing() noexcept {
  // Never destroyed: files are closed until the process is gone.
  alignas(Borrowing) static std::byte memory[sizeof(Borrowing)];
  static auto* const made = new (memory) Borrowing;
  return *made;
}

/// Set once, so that rank 0 and other programs pay a load only.
std::atomic<bool> is_borrower{false};

bool is_same_file(const Borrowing& with, int number, int here) noexcept {
  return ::syscall(SYS_kcmp, with.first_process, ::getpid(), KCMP_FILE, number, here) == 0;
}

int borrow(Borrowing& with, int number, const char* function) noexcept {
  auto& slot = with.borrowed[static_cast<std::size_t>(number)];
  const int known = slot.load(std::memory_order_acquire) - 1;
  if (known >= 0 && is_same_file(with, number, known)) return known;
  const std::lock_guard lock(with.lock);
  const int again = slot.load() - 1;
  if (again >= 0) {
    if (is_same_file(with, number, again)) return again;
    // Not closed: another thread may be inside a call on it. It is replaced below, in one step.
  }
  const int got = static_cast<int>(::syscall(SYS_pidfd_getfd, with.first.get(), number, 0));
  if (got < 0) {
    if (errno == EBADF) return number;  // nor does rank 0 have it: the call says so
    with.program->fail(fmt::format(
        "{}(): cannot borrow descriptor {} of rank 0: {}; open the file in the threads that use it", function,
        number,
        errno == EPERM ? "the kernel does not allow it (sysctl kernel.yama.ptrace_scope)"
                       : "the kernel has no pidfd_getfd (Linux 5.6), or no room"));
  }
  if (again >= 0) {
    static_cast<void>(::dup3(got, again, O_CLOEXEC));
    static_cast<void>(::close(got));
    return again;
  }
  if (got < numbers_most) with.runtimes[static_cast<std::size_t>(got)].store(1);
  slot.store(got + 1, std::memory_order_release);
  return got;
}

bool is_open(int number) noexcept {
  return ::fcntl(number, F_GETFD) >= 0;
}

/// Made by this process: by a call that came here, or by a library in another way.
bool is_local(const Borrowing& with, int number) noexcept {
  if (number <= STDERR_FILENO || number >= numbers_most) return true;
  const auto index = static_cast<std::size_t>(number);
  return with.made[index].load() != 0 || (with.runtimes[index].load() == 0 && is_open(number));
}

}  // namespace

void share_descriptors(SharedProgram& program) {
  const pid_t first_process = static_cast<pid_t>(program.first_process());
  if (program.rank() == 0) {
    // For processes below the node's daemon, which are this job's ranks. Without Yama it says EINVAL, and is
    // not needed.
    static_cast<void>(::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0));
    return;
  }
  Borrowing& own = borrowing();
  own.program = &program;
  own.first_process = first_process;
  if (program.fabric().node_of(0) == program.fabric().node_of(program.rank()))
    own.first.reset(static_cast<int>(::syscall(SYS_pidfd_open, first_process, 0)));
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
    const auto wanted = static_cast<std::uint64_t>(program.rank()) * numbers_a_rank;
    const std::uint64_t room = std::min<std::uint64_t>(limit.rlim_cur, numbers_most);
    own.first_number = wanted + numbers_a_rank <= room ? static_cast<int>(wanted) : 0;
  }
  for (int number = 0; number < numbers_most; ++number)
    own.runtimes[static_cast<std::size_t>(number)].store(is_open(number) ? 1 : 0);
  is_borrower.store(true, std::memory_order_release);
}

int descriptor_here(int number, const char* function) noexcept {
  if (!is_borrower.load(std::memory_order_acquire)) [[likely]]
    return number;
  Borrowing& own = borrowing();
  if (is_local(own, number)) return number;
  if (own.first) return borrow(own, number, function);
  own.program->fail(fmt::format(
      "{}(): descriptor {} was not opened on this rank, and rank 0 is on another node; open the file in the "
      "threads that use it, or use it outside of parallel regions",
      function, number));
}

int descriptor_made(int descriptor) noexcept {
  if (descriptor < 0 || !is_borrower.load(std::memory_order_acquire)) [[likely]]
    return descriptor;
  Borrowing& own = borrowing();
  int number = descriptor;
  if (own.first_number != 0 && descriptor < own.first_number) {
    const int flags = ::fcntl(descriptor, F_GETFD);
    const int moved =
        ::fcntl(descriptor, (flags & FD_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD, own.first_number);
    if (moved >= 0) {
      ::close(descriptor);
      number = moved;
    }
  }
  if (number < numbers_most) own.made[static_cast<std::size_t>(number)].store(1);
  return number;
}

void descriptor_replaced(int number) noexcept {
  if (number < 0 || number >= numbers_most || !is_borrower.load(std::memory_order_acquire)) [[likely]]
    return;
  borrowing().made[static_cast<std::size_t>(number)].store(1);
}

void descriptor_closed(int number) noexcept {
  if (!is_borrower.load(std::memory_order_acquire)) [[likely]]
    return;
  Borrowing& own = borrowing();
  if (is_local(own, number)) {
    if (number >= 0 && number < numbers_most) own.made[static_cast<std::size_t>(number)].store(0);
    return;
  }
  own.program->fail(
      fmt::format("close(): descriptor {} was opened on another rank; close it where it was opened", number));
}

}  // namespace craton::posix
