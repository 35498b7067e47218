#include "posix/descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/error.hpp"
#include "base/kept_errno.hpp"
#include "base/line_writer.hpp"
#include "base/signal_section.hpp"
#include "base/unique_fd.hpp"
#include "job/rank_process.hpp"
#include "posix/everywhere.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

namespace {

/// Numbers of each rank, as far as the limit of the process reaches.
constexpr int numbers_a_rank = 256;
constexpr int numbers_most = 65536;
/// With fewer allowed the numbers of rank 0 are not kept free of others.
constexpr std::uint64_t numbers_enough = 4 * numbers_a_rank;

/// The numbers of rank 0 that another rank has borrowed since all were told of a change. In memory of rank
/// 0's that its neighbours map.
using LentNumbers = std::array<std::atomic<std::uint8_t>, numbers_most>;

/// A rank other than 0. One for the process, as its descriptors are.
struct Borrowing {
  SharedProgram* program = nullptr;
  pid_t first_process = 0;
  UniqueFd first;  ///< a pidfd of rank 0's process; none on another node
  LentNumbers* lent = nullptr;
  int first_number = 0;  ///< of those that this rank gives out
  /// Not the program's: of the runtime when the program started, and what stands for rank 0's.
  std::array<std::atomic<std::uint8_t>, numbers_most> withheld{};
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

/// What the runtime has open: not the program's to use, close or replace, on any rank.
struct Runtimes {
  std::bitset<numbers_most> has{};          ///< unchanged once it is known
  std::bitset<numbers_a_rank> kept_free{};  ///< taken by nothing, while the runtime opens its own behind them
  int first = numbers_most;                 ///< of `has`
  /// On rank 0, where there is room: numbers from numbers_a_rank up to here are those of the other ranks.
  int end_of_others = 0;
};
constinit Runtimes runtimes;
/// Set once.
std::atomic<bool> runtimes_are_known{false};

/// Notes whose a number is. A child that shares this process's memory until it executes another program has
/// descriptors of its own.
void note_made(Borrowing& with, int number, bool is_made) noexcept {
  if (number < 0 || number >= numbers_most || !with.program->is_this_process()) return;
  with.made[static_cast<std::size_t>(number)].store(is_made ? 1 : 0);
}

bool is_same_file(const Borrowing& with, int number, int here) noexcept {
  return ::syscall(SYS_kcmp, with.first_process, ::getpid(), KCMP_FILE, number, here) == 0;
}

/// Another descriptor here for what rank 0 has; -1, with errno.
int get_first(const Borrowing& with, int number) noexcept {
  return static_cast<int>(::syscall(SYS_pidfd_getfd, with.first.get(), number, 0));
}

/// With the lock. Rank 0 has closed it.
void give_up(Borrowing& with, int number, int here) noexcept {
  with.borrowed[static_cast<std::size_t>(number)].store(0);
  if (here < numbers_most) with.withheld[static_cast<std::size_t>(here)].store(0);
  static_cast<void>(::close(here));
}

/// With the lock: makes what stands for a number of rank 0's what rank 0 has there now. \returns it; -1, with
/// errno, where rank 0 has nothing there, or it cannot be borrowed
int renew(Borrowing& with, int number) noexcept {
  auto& slot = with.borrowed[static_cast<std::size_t>(number)];
  // Before the look: a close that comes after it then finds the mark, and one that came before is seen.
  if (with.lent != nullptr) (*with.lent)[static_cast<std::size_t>(number)].exchange(1);
  const int here = slot.load() - 1;
  if (here >= 0 && is_same_file(with, number, here)) return here;
  const int got = get_first(with, number);
  if (got < 0) {
    const int error = errno;
    if (error == EBADF && here >= 0) give_up(with, number, here);
    errno = error;
    return -1;
  }
  if (here >= 0) {
    // Not closed, but replaced in one step: another thread may be about to use it.
    static_cast<void>(::dup3(got, here, O_CLOEXEC));
    static_cast<void>(::close(got));
    return here;
  }
  if (got < numbers_most) {
    with.withheld[static_cast<std::size_t>(got)].store(1);
    with.made[static_cast<std::size_t>(got)].store(0);
  }
  slot.store(got + 1, std::memory_order_release);
  return got;
}

int borrow(Borrowing& with, int number, const char* function) noexcept {
  const int known = with.borrowed[static_cast<std::size_t>(number)].load(std::memory_order_acquire) - 1;
  if (known >= 0 && is_same_file(with, number, known)) return known;
  int got = -1;
  int error = 0;
  if (with.program->is_this_process()) {
    const SignalSection section;  // who is told of a change must not wait for a handler
    const std::lock_guard lock(with.lock);
    got = renew(with, number);
    error = errno;
  } else {
    got = get_first(with, number);
    error = errno;
  }
  if (got >= 0) return got;
  if (error == EBADF) return no_descriptor;  // nor does rank 0 have it: the call says so
  with.program->fail(
      fmt::format("{}(): cannot borrow descriptor {} of rank 0: {}; open the file in the threads that use it",
                  function, number,
                  error == EPERM ? "the kernel does not allow it (sysctl kernel.yama.ptrace_scope)"
                                 : "the kernel has no pidfd_getfd (Linux 5.6), or no room"));
}

bool is_open(int number) noexcept {
  return ::fcntl(number, F_GETFD) >= 0;
}

/// Made by this process: by a call that came here, or by a library in another way.
bool is_local(const Borrowing& with, int number) noexcept {
  if (number < 0 || number >= numbers_most) return true;
  const auto index = static_cast<std::size_t>(number);
  if (with.made[index].load() != 0) return true;
  if (number <= STDERR_FILENO) return number != STDIN_FILENO;
  return with.borrowed[index].load() == 0 && with.withheld[index].load() == 0 && is_open(number);
}

/// What is opened here without a word to us must not get a number of rank 0's: it would hide a file of the
/// program's. So all of them are taken, by what nothing can be read from.
void take_low_numbers() noexcept {
  const int nothing = ::open("/", O_PATH | O_CLOEXEC);  // to the end, as the others
  if (nothing < 0) return;
  for (int taken = 0; taken >= 0 && taken < numbers_a_rank;) {
    taken = ::fcntl(nothing, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (taken >= numbers_a_rank) static_cast<void>(::close(taken));
  }
}

/// What is open now and would not be in a program that this process executes: the program itself has not
/// begun.
void note_runtimes() noexcept {
  visit_descriptors([](int number) {
    const bool is_kept_free = number < numbers_a_rank && runtimes.kept_free[static_cast<std::size_t>(number)];
    if (number <= STDERR_FILENO || is_kept_free || (::fcntl(number, F_GETFD) & FD_CLOEXEC) == 0) return;
    runtimes.has.set(static_cast<std::size_t>(number));
    runtimes.first = std::min(runtimes.first, number);
  });
  runtimes_are_known.store(true, std::memory_order_release);
}

/// How many of rank 0's are left to the program, from the lowest on: all, if there is room for the runtime's
/// behind them. The other ranks give out numbers behind those of rank 0 anyway.
int numbers_to_keep_free() noexcept {
  constexpr std::uint64_t runtimes_most = 128;  // in a job of one rank, with room to spare
  constexpr std::uint64_t for_a_rank = 3;
  const char* const rank = std::getenv(job::rank_variable);
  const char* const size = std::getenv(job::size_variable);
  rlimit limit{};
  if (rank == nullptr || size == nullptr || std::strtoul(rank, nullptr, 10) != 0 ||
      ::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return 0;
  const std::uint64_t needed = runtimes_most + for_a_rank * std::strtoul(size, nullptr, 10);
  return limit.rlim_cur < needed
             ? 0
             : static_cast<int>(std::min<std::uint64_t>(limit.rlim_cur - needed, numbers_a_rank));
}

void give_back_low_numbers() noexcept {
  for (int number = 0; number < numbers_a_rank; ++number)
    if (runtimes.kept_free[static_cast<std::size_t>(number)]) static_cast<void>(::close(number));
}

/// On rank 0.
void keep_numbers_apart(fabric::Rank ranks) noexcept {
  rlimit limit{};
  const std::uint64_t end = std::uint64_t{ranks} * numbers_a_rank;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && end + numbers_a_rank <= limit.rlim_cur && end < numbers_most)
    runtimes.end_of_others = static_cast<int>(end);
}

/// A descriptor under a number of at least `first`, where there is one.
int move_descriptor(int descriptor, int first) noexcept {
  const int flags = ::fcntl(descriptor, F_GETFD);
  const int moved = ::fcntl(descriptor, (flags & FD_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD, first);
  if (moved < 0) return descriptor;
  static_cast<void>(::close(descriptor));
  return moved;
}

LentNumbers* map_lent(int memory) noexcept {
  void* const mapped = ::mmap(nullptr, sizeof(LentNumbers), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<LentNumbers*>(mapped);
}

/// At rank 0, where there are others.
std::atomic<LentNumbers*> own_lent{nullptr};

void lend(space::Agreement& agreement) {
  // For processes below the node's daemon, which are this job's ranks. Without Yama it says EINVAL, and is
  // not needed.
  static_cast<void>(::prctl(PR_SET_PTRACER, ::getppid(), 0, 0, 0));
  const UniqueFd memory(::memfd_create("craton-lent", MFD_CLOEXEC));
  LentNumbers* const lent =
      memory && ::ftruncate(memory.get(), sizeof(LentNumbers)) == 0 ? map_lent(memory.get()) : nullptr;
  if (lent == nullptr) {
    throw Error(ErrorCode::out_of_resources, {.asked = "cannot share the descriptors of this program",
                                              .happened = "no memory for what others borrow",
                                              .limit = {},
                                              .remedy = "raise ulimit -n or ulimit -v"});
  }
  agreement.gather(static_cast<std::uint64_t>(memory.get()));
  agreement.meet();  // all have it
  own_lent.store(lent, std::memory_order_release);
}

/// Where each rank has one of its own.
bool is_output(int number) noexcept {
  return number == STDOUT_FILENO || number == STDERR_FILENO;
}

/// Once. What they print is in the C library's streams there, which write by themselves.
void tell_of_far_output(int number) noexcept {
  static std::atomic<bool> is_told{false};
  const fabric::Fabric& fabric = shared_program()->fabric();
  bool has_far = false;
  for (fabric::Rank rank = 0; rank < fabric.size(); ++rank)
    has_far = has_far || fabric.node_of(rank) != fabric.node_of(0);
  if (!has_far || is_told.exchange(true)) return;
  const std::string line = fmt::format(
      "craton: the program has put another file under descriptor {}; what threads on other nodes print goes "
      "where it went before\n",
      number);
  write_fully(STDERR_FILENO, line);
}

/// What rank 0 has under the number may have changed: so that nobody keeps what it has closed.
void tell_if_lent(int number) noexcept {
  LentNumbers* const lent = own_lent.load(std::memory_order_acquire);
  if (lent == nullptr || number < 0 || number >= numbers_most) return;
  auto& mark = (*lent)[static_cast<std::size_t>(number)];
  // Where rank 0 has closed its output, as many programs do at the end, that of the others stays.
  const bool is_elsewhere = is_output(number) && is_open(number);
  if (mark.load() == 0 && !is_elsewhere) [[likely]]
    return;
  Everywhere* const others = everywhere_now();
  if (others == nullptr || !shared_program()->is_this_process()) return;
  const KeptErrno kept;
  if (is_elsewhere) tell_of_far_output(number);
  mark.store(0);
  others->make(Everywhere::Kind::descriptor, &number, sizeof number);
}

}  // namespace

// Not asked for one by one where that can be helped: rank 0 is in the program already, and waits for this
// rank where that wants it.
void visit_descriptors(FunctionRef<void(int)> visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (folder == nullptr) {
    for (int number = 0; number < numbers_most; ++number)
      if (is_open(number)) visit(number);
    return;
  }
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number >= 0 && number < numbers_most && number != ::dirfd(folder.get())) visit(number);
  }
}

void make_room_for_descriptors() noexcept {
  constexpr int numbers = 1024;  // as the limit usually is
  const int nothing = ::open("/", O_PATH | O_CLOEXEC);
  if (nothing < 0) return;
  { const UniqueFd last(::fcntl(nothing, F_DUPFD_CLOEXEC, numbers - 1)); }
  const int end = numbers_to_keep_free();
  int taken = nothing;
  while (taken >= 0 && taken < end) {
    runtimes.kept_free.set(static_cast<std::size_t>(taken));
    taken = ::fcntl(nothing, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  }
  if (taken >= 0) static_cast<void>(::close(taken));
}

void share_descriptors(SharedProgram& program, space::Agreement& agreement) {
  note_runtimes();
  if (program.rank() == 0) {
    if (program.fabric().size() > 1) lend(agreement);
    keep_numbers_apart(program.fabric().size());
    return give_back_low_numbers();
  }
  const pid_t first_process = static_cast<pid_t>(program.first_process());
  Borrowing& own = borrowing();
  own.program = &program;
  own.first_process = first_process;
  const auto lent_memory = agreement.gather(0)[0];
  if (program.fabric().node_of(0) == program.fabric().node_of(program.rank())) {
    own.first.reset(static_cast<int>(::syscall(SYS_pidfd_open, first_process, 0)));
    const UniqueFd memory(
        static_cast<int>(::syscall(SYS_pidfd_getfd, own.first.get(), static_cast<int>(lent_memory), 0)));
    if (memory) own.lent = map_lent(memory.get());
  }
  agreement.meet();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
    const auto wanted = static_cast<std::uint64_t>(program.rank()) * numbers_a_rank;
    const std::uint64_t room = std::min<std::uint64_t>(limit.rlim_cur, numbers_most);
    own.first_number = wanted + numbers_a_rank <= room ? static_cast<int>(wanted) : 0;
    if (room >= numbers_enough) take_low_numbers();
  }
  visit_descriptors([&own](int number) { own.withheld[static_cast<std::size_t>(number)].store(1); });
  is_borrower.store(true, std::memory_order_release);
}

int descriptor_here(int number, const char* function) noexcept {
  if (!is_borrower.load(std::memory_order_acquire)) [[likely]]
    return descriptor_is_runtimes(number) ? no_descriptor : number;
  Borrowing& own = borrowing();
  if (is_local(own, number)) return number;
  if (own.first) return borrow(own, number, function);
  if (number == STDIN_FILENO) return number;  // it is not a program's fault that a library asks what it is
  own.program->fail(fmt::format(
      "{}(): descriptor {} was not opened on this rank, and rank 0 is on another node; open the file in the "
      "threads that use it, or use it outside of parallel regions",
      function, number));
}

int directory_here(int number, const char* function) noexcept {
  return number == AT_FDCWD ? number : descriptor_here(number, function);
}

int descriptor_made(int descriptor) noexcept {
  if (descriptor < 0) return descriptor;
  const KeptErrno kept;
  if (!is_borrower.load(std::memory_order_acquire)) [[likely]] {
    if (is_output(descriptor)) tell_if_lent(descriptor);
    const bool is_others = descriptor >= numbers_a_rank && descriptor < runtimes.end_of_others;
    return is_others ? move_descriptor(descriptor, runtimes.end_of_others) : descriptor;
  }
  Borrowing& own = borrowing();
  const bool is_others = own.first_number != 0 && descriptor < own.first_number;
  const int number = is_others ? move_descriptor(descriptor, own.first_number) : descriptor;
  note_made(own, number, true);
  return number;
}

bool descriptor_is_runtimes(int number) noexcept {
  return runtimes_are_known.load(std::memory_order_acquire) && number >= runtimes.first &&
         number < numbers_most && runtimes.has[static_cast<std::size_t>(number)];
}

bool descriptor_is_foreign(int number) noexcept {
  return is_borrower.load(std::memory_order_acquire) && !is_local(borrowing(), number);
}

bool descriptor_is_far(int number) noexcept {
  return descriptor_is_foreign(number) && !borrowing().first;
}

bool read_first_process(const void* from, void* to, std::size_t bytes) noexcept {
  if (!is_borrower.load(std::memory_order_acquire) || !borrowing().first) return false;
  const iovec there{.iov_base = const_cast<void*>(from), .iov_len = bytes};
  const iovec here{.iov_base = to, .iov_len = bytes};
  const KeptErrno kept;
  const ssize_t got = ::process_vm_readv(borrowing().first_process, &here, 1, &there, 1, 0);
  return got == static_cast<ssize_t>(bytes);
}

int descriptor_to_keep(int number, const char* function) noexcept {
  const int here = descriptor_here(number, function);
  return descriptor_is_foreign(number) ? descriptor_made(::fcntl(here, F_DUPFD_CLOEXEC, 0)) : here;
}

void descriptor_replacing(int number) noexcept {
  if (number < 0 || number >= numbers_most || !is_borrower.load(std::memory_order_acquire)) [[likely]]
    return;
  Borrowing& own = borrowing();
  if (own.withheld[static_cast<std::size_t>(number)].load() == 0 || !own.program->is_this_process()) return;
  const SignalSection section;
  const std::lock_guard lock(own.lock);
  for (auto& slot : own.borrowed) {
    if (slot.load() != number + 1) continue;
    slot.store(0);
    own.withheld[static_cast<std::size_t>(number)].store(0);
  }
}

void descriptor_replaced(int number) noexcept {
  if (number < 0 || number >= numbers_most) return;
  if (is_borrower.load(std::memory_order_acquire))
    borrowing().made[static_cast<std::size_t>(number)].store(1);
  tell_if_lent(number);
}

void refuse_foreign_close(int number) noexcept {
  // A child without memory of its own closes what it has inherited.
  if (!descriptor_is_foreign(number) || !borrowing().program->is_this_process()) [[likely]]
    return;
  borrowing().program->fail(
      fmt::format("close(): descriptor {} was opened on another rank, and a handler of a signal cannot close "
                  "it; close it where it was opened",
                  number));
}

ClosingDescriptor::ClosingDescriptor(int number) noexcept : number_(number) {
  if (is_borrower.load(std::memory_order_acquire)) note_made(borrowing(), number, false);
}

ClosingDescriptor::~ClosingDescriptor() {
  tell_if_lent(number_);
}

void close_unused(int descriptor) noexcept {
  const KeptErrno kept;
  const ClosingDescriptor closing(descriptor);
  CRATON_REAL(close)(descriptor);
}

bool renew_descriptor_as_told(int number) noexcept {
  if (number < 0 || number >= numbers_most || !is_borrower.load(std::memory_order_acquire)) return true;
  Borrowing& own = borrowing();
  const std::lock_guard lock(own.lock);
  if (is_output(number)) {
    // What rank 0 has closed stays here, or the number would be given to something else.
    const UniqueFd got(own.first ? get_first(own, number) : -1);
    if (got) static_cast<void>(::dup3(got.get(), number, 0));
  } else if (own.borrowed[static_cast<std::size_t>(number)].load() != 0) {
    static_cast<void>(renew(own, number));
  }
  return true;
}

}  // namespace craton::posix
