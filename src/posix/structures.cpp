// Calls that take structures from the program, or fill its own.
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <mutex>
#include <optional>

#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"
#include "posix/descriptors.hpp"
#include "posix/everywhere.hpp"
#include "posix/forwarding.hpp"
#include "posix/futexes.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/notifications.hpp"
#include "posix/pages.hpp"
#include "posix/shared_program.hpp"
#include "posix/signals.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __poll_chk(pollfd* list, nfds_t count, int timeout_ms, std::size_t room);
int __ppoll_chk(pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask, std::size_t room);
int __getgroups_chk(int count, gid_t* list, std::size_t room);
[[noreturn]] void __chk_fail();
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::address_bytes;
using craton::posix::ChildEnd;
using craton::posix::descriptor_here;
using craton::posix::descriptor_made;
using craton::posix::Forwarded;
using craton::posix::ForwardedCall;
using craton::posix::Forwarding;
using craton::posix::Mask;
using craton::posix::may_fault;
using craton::posix::Notification;
using craton::posix::PrivateBuffer;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::shared_program;
using craton::posix::touch;
using craton::posix::Value;
using craton::posix::Values;

/// The list of poll(), with the numbers that descriptors have in this process.
class PollList {
 public:
  PollList(pollfd* list, nfds_t count, const char* function) noexcept
      : list_(list), count_(count), copy_(count * sizeof *list) {
    if (here() == nullptr) return;
    for (nfds_t i = 0; i < count; ++i) {
      here()[i] = list[i];
      if (list[i].fd >= 0) here()[i].fd = descriptor_here(list[i].fd, function);
    }
  }
  PollList(const PollList&) = delete;
  PollList& operator=(const PollList&) = delete;
  ~PollList() {
    if (here() == nullptr) return;
    for (nfds_t i = 0; i < count_; ++i) {
      if (list_[i].revents != here()[i].revents) list_[i].revents = here()[i].revents;
    }
  }
  operator pollfd*() noexcept { return here(); }  // NOLINT(google-explicit-constructor)

 private:
  pollfd* here() noexcept { return reinterpret_cast<pollfd*>(copy_.data()); }

  pollfd* const list_;
  const nfds_t count_;
  PrivateBuffer copy_;
};

/// So many bytes of a set of descriptors does the kernel look at.
std::size_t set_bytes(int count) noexcept {
  constexpr int bits = 64;
  return static_cast<std::size_t>((count + bits - 1) / bits) * sizeof(long);
}

/// The sets of select(), likewise: a descriptor may have a number here that is beyond those of the program.
class SelectSets {
 public:
  using Three = std::array<fd_set*, 3>;

  SelectSets(int count, const Three& sets, const char* function) noexcept
      : asked_(std::clamp(count, 0, FD_SETSIZE)), count_(count), sets_(sets) {
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      FD_ZERO(&here_[set]);
      for (int number = 0; sets_[set] != nullptr && number < asked_; ++number) {
        if (!FD_ISSET(number, sets_[set])) continue;
        const int own = descriptor_here(number, function);
        is_closed_ = is_closed_ || own == craton::posix::no_descriptor;
        if (own < 0 || own >= FD_SETSIZE) {
          is_beyond_ = true;
          continue;
        }
        FD_SET(own, &here_[set]);
        count_ = std::max(count_, own + 1);
      }
    }
  }
  int count() const noexcept { return is_beyond_ ? -1 : count_; }  // the kernel says EINVAL
  /// One of the descriptors is not open.
  bool has_closed() const noexcept { return is_closed_; }
  fd_set* operator[](std::size_t set) noexcept { return sets_[set] == nullptr ? nullptr : &here_[set]; }
  /// Puts back what the call has left in the sets. \returns the call's result
  int done(int result) noexcept {
    const craton::KeptErrno kept;
    for (std::size_t set = 0; result >= 0 && set < sets_.size(); ++set) {
      for (int number = 0; sets_[set] != nullptr && number < asked_; ++number) {
        if (!FD_ISSET(number, sets_[set])) continue;
        const int own = descriptor_here(number, "select");  // which another thread may have closed by now
        if (own >= FD_SETSIZE || !FD_ISSET(own, &here_[set])) FD_CLR(number, sets_[set]);
      }
    }
    return result;
  }

 private:
  const int asked_;
  int count_;
  bool is_beyond_ = false;
  bool is_closed_ = false;
  const Three sets_;
  std::array<fd_set, 3> here_{};
};

int failed_with(int error) noexcept {
  errno = error;
  return -1;
}

/// epoll_ctl() of a descriptor of rank 0's. The kernel knows an entry by the open file and by its number in
/// the calling process, so the call is made where the file has the program's number: on a thread with a table
/// of descriptors of its own.
struct ForeignEntry {
  int epoll;
  int operation;
  int number;  ///< the program's
  int here;
  epoll_event event;
  int error = 0;

  static void* change(void* self) noexcept {
    auto& entry = *static_cast<ForeignEntry*>(self);
    // What stands for the set may have the very number that the file is to have.
    const bool worked = ::unshare(CLONE_FILES) == 0 && entry.take_number() &&
                        CRATON_REAL(epoll_ctl)(entry.epoll, entry.operation, entry.number, &entry.event) == 0;
    entry.error = worked ? 0 : errno;
    return nullptr;
  }
  bool take_number() noexcept {
    if (epoll == number) epoll = CRATON_REAL(dup)(epoll);
    return here == number || (epoll >= 0 && CRATON_REAL(dup3)(here, number, O_CLOEXEC) >= 0);
  }
};

int change_foreign_entry(ForeignEntry entry) noexcept {
  // No handler of the program's may run on that thread.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  CRATON_REAL(pthread_sigmask)(SIG_BLOCK, &all, &before);
  pthread_t thread{};
  const int error = CRATON_REAL(pthread_create)(&thread, nullptr, &ForeignEntry::change, &entry);
  CRATON_REAL(pthread_sigmask)(SIG_SETMASK, &before, nullptr);
  if (error != 0) return failed_with(error);
  CRATON_REAL(pthread_join)(thread, nullptr);
  return entry.error == 0 ? 0 : failed_with(entry.error);
}

std::size_t room_of(const socklen_t* bytes) noexcept {
  return bytes == nullptr ? 0 : address_bytes(*bytes);
}

/// A limit of the memory that the program sets itself is not the kernel's, which would count all that ranks
/// share, and what is reserved for it, hundreds of GiB: what the program allocates and maps is counted here.
struct MemoryLimits {
  std::mutex mutex;
  std::optional<rlimit> addresses;
  std::optional<rlimit> data;

  std::optional<rlimit>* of(int resource) noexcept {
    if (shared_program() == nullptr) return nullptr;
    return resource == RLIMIT_AS ? &addresses : resource == RLIMIT_DATA ? &data : nullptr;
  }
  static rlim_t soft(const std::optional<rlimit>& limit) noexcept {
    return limit.has_value() ? limit->rlim_cur : RLIM_INFINITY;
  }
  void tell() const noexcept {
    static_assert(RLIM_INFINITY == craton::posix::SharedProgram::unlimited_bytes);
    shared_program()->limit_memory(std::min(soft(addresses), soft(data)), soft(addresses));
  }
};
constinit MemoryLimits memory_limits;

/// prlimit() of this process. \param limit null: none is set
int limit_here(int resource, const rlimit* limit, rlimit* was) noexcept {
  const auto what = static_cast<__rlimit_resource>(resource);
  std::optional<rlimit>* const kept = memory_limits.of(resource);
  if (kept == nullptr) return CRATON_REAL(prlimit)(0, what, limit, was);
  rlimit before{};
  if (CRATON_REAL(prlimit)(0, what, nullptr, &before) != 0) return -1;
  const craton::SignalSection section;
  const std::lock_guard lock(memory_limits.mutex);
  before = kept->value_or(before);
  if (limit != nullptr && limit->rlim_cur > limit->rlim_max) return failed_with(EINVAL);
  if (limit != nullptr && limit->rlim_max > before.rlim_max && ::geteuid() != 0) return failed_with(EPERM);
  if (limit != nullptr) {
    *kept = *limit;
    memory_limits.tell();
  }
  if (was != nullptr) *was = before;
  return 0;
}

bool is_here(pid_t process) noexcept {
  return process == 0 || process == ::getpid();
}

/// A limit of this process is one of all ranks. \param was gets what it was
int set_limit(pid_t process, int resource, const rlimit& limit, rlimit& was) noexcept {
  using craton::posix::Everywhere;
  const craton::posix::LimitChange change{.resource = resource, .limit = limit};
  if (!is_here(process))
    return CRATON_REAL(prlimit)(process, static_cast<__rlimit_resource>(resource), &change.limit, &was);
  Everywhere* const others = craton::posix::everywhere_now();
  if (others == nullptr) return limit_here(resource, &change.limit, &was);
  int result = 0;
  craton::posix::in_one_order([&] {
    result = limit_here(resource, &change.limit, &was);
    if (result == 0) others->make(Everywhere::Kind::limit, &change, sizeof change);
  });
  return result;
}

/// A child is that of the rank that has started it: where none of this rank's is meant, others are asked.
/// \param here makes the call here \param take is given what another rank says
template <typename End, typename Here, typename Take>
int wait_for_child(Here here, const Forwarded& call, Take take) {
  const int before = errno;
  const int result = here();
  Forwarding* const others = result == -1 && errno == ECHILD ? craton::posix::forwarding_now() : nullptr;
  if (others == nullptr) return result;
  const craton::fabric::Fabric& fabric = shared_program()->fabric();
  for (craton::fabric::Rank rank = 0; rank < fabric.size(); ++rank) {
    if (rank == fabric.rank()) continue;
    ::pthread_testcancel();
    craton::posix::ForwardedBytes bytes;
    const craton::posix::Returned told = others->ask(rank, call, bytes);
    if (told.error == ECHILD || told.is_refused || bytes.size() != sizeof(End)) continue;
    errno = told.error != 0 ? told.error : before;
    End end;
    std::memcpy(&end, bytes.data(), sizeof end);
    if (told.value != -1) take(end);
    return static_cast<int>(told.value);
  }
  errno = ECHILD;
  return -1;
}

}  // namespace

namespace craton::posix {

bool set_limit_as_told(const LimitChange& change) noexcept {
  return limit_here(change.resource, &change.limit, nullptr) == 0;
}

}  // namespace craton::posix

#define CRATON_FD(name) descriptor_here(fd, #name)
#define CRATON_EPOLL(name) descriptor_here(epoll, #name)

extern "C" {

// ---- Waiting for descriptors

[[gnu::visibility("default")]] int poll(pollfd* list, nfds_t count, int timeout_ms) {
  PollList here(list, count, "poll");
  return CRATON_REAL(poll)(here, count, timeout_ms);
}
[[gnu::visibility("default")]] int __poll_chk(pollfd* list, nfds_t count, int timeout_ms, std::size_t room) {
  if (room / sizeof *list < count) __chk_fail();
  return poll(list, count, timeout_ms);
}
[[gnu::visibility("default")]] int ppoll(pollfd* list, nfds_t count, const timespec* timeout,
                                         const sigset_t* mask) {
  PollList here(list, count, "ppoll");
  return CRATON_REAL(ppoll)(here, count, Value(timeout), Mask(mask));
}
[[gnu::visibility("default")]] int __ppoll_chk(pollfd* list, nfds_t count, const timespec* timeout,
                                               const sigset_t* mask, std::size_t room) {
  if (room / sizeof *list < count) __chk_fail();
  return ppoll(list, count, timeout, mask);
}
[[gnu::visibility("default")]] int select(int count, fd_set* read, fd_set* write, fd_set* except,
                                          timeval* timeout) {
  // Larger sets than the type has room for are allowed where descriptors are those of the process.
  if (count > FD_SETSIZE)
    return CRATON_REAL(select)(count, Results(read, set_bytes(count)), Results(write, set_bytes(count)),
                               Results(except, set_bytes(count)), Result(timeout));
  SelectSets here(count, {read, write, except}, "select");
  if (here.has_closed()) return failed_with(EBADF);
  return here.done(CRATON_REAL(select)(here.count(), here[0], here[1], here[2], Result(timeout)));
}
[[gnu::visibility("default")]] int pselect(int count, fd_set* read, fd_set* write, fd_set* except,
                                           const timespec* timeout, const sigset_t* mask) {
  if (count > FD_SETSIZE)
    return CRATON_REAL(pselect)(count, Results(read, set_bytes(count)), Results(write, set_bytes(count)),
                                Results(except, set_bytes(count)), Value(timeout), Mask(mask));
  SelectSets here(count, {read, write, except}, "pselect");
  if (here.has_closed()) return failed_with(EBADF);
  return here.done(CRATON_REAL(pselect)(here.count(), here[0], here[1], here[2], Value(timeout), Mask(mask)));
}
[[gnu::visibility("default")]] int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  const int epoll_here = CRATON_EPOLL(epoll_ctl);
  const int here = CRATON_FD(epoll_ctl);
  if (here != craton::posix::no_descriptor && craton::posix::descriptor_is_foreign(fd))
    return change_foreign_entry({.epoll = epoll_here,
                                 .operation = operation,
                                 .number = fd,
                                 .here = here,
                                 .event = event == nullptr ? epoll_event{} : *event});
  return CRATON_REAL(epoll_ctl)(epoll_here, operation, here,
                                const_cast<epoll_event*>(static_cast<const epoll_event*>(Value(event))));
}
CRATON_CALL(int, epoll_wait, (int epoll, epoll_event* events, int count, int timeout_ms),
            (CRATON_EPOLL(epoll_wait),
             Results(events, static_cast<std::size_t>(std::max(count, 0)) * sizeof *events), count,
             timeout_ms))
CRATON_CALL(int, epoll_pwait,
            (int epoll, epoll_event* events, int count, int timeout_ms, const sigset_t* mask),
            (CRATON_EPOLL(epoll_pwait),
             Results(events, static_cast<std::size_t>(std::max(count, 0)) * sizeof *events), count,
             timeout_ms, Mask(mask)))
CRATON_CALL(int, epoll_pwait2,
            (int epoll, epoll_event* events, int count, const timespec* timeout, const sigset_t* mask),
            (CRATON_EPOLL(epoll_pwait2),
             Results(events, static_cast<std::size_t>(std::max(count, 0)) * sizeof *events), count,
             Value(timeout), Mask(mask)))

// ---- Sockets

[[gnu::visibility("default")]] int socket(int domain, int type, int protocol) {
  return descriptor_made(CRATON_REAL(socket)(domain, type, protocol));
}
[[gnu::visibility("default")]] int socketpair(int domain, int type, int protocol, int ends[2]) {
  int made[2];
  if (CRATON_REAL(socketpair)(domain, type, protocol, made) != 0) return -1;
  ends[0] = descriptor_made(made[0]);
  ends[1] = descriptor_made(made[1]);
  return 0;
}
[[gnu::visibility("default")]] int accept(int fd, sockaddr* address, socklen_t* bytes) {
  return descriptor_made(
      CRATON_REAL(accept)(CRATON_FD(accept), Results(address, room_of(bytes)), Result(bytes)));
}
[[gnu::visibility("default")]] int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  return descriptor_made(
      CRATON_REAL(accept4)(CRATON_FD(accept4), Results(address, room_of(bytes)), Result(bytes), flags));
}
CRATON_CALL(int, listen, (int fd, int backlog), (CRATON_FD(listen), backlog))
CRATON_CALL(int, isfdtype, (int fd, int type), (CRATON_FD(isfdtype), type))
CRATON_CALL(int, sockatmark, (int fd), (CRATON_FD(sockatmark)))
CRATON_CALL(int, shutdown, (int fd, int how), (CRATON_FD(shutdown), how))
CRATON_CALL(int, bind, (int fd, const sockaddr* address, socklen_t bytes),
            (CRATON_FD(bind), Values(address, address_bytes(bytes)), bytes))
CRATON_CALL(int, connect, (int fd, const sockaddr* address, socklen_t bytes),
            (CRATON_FD(connect), Values(address, address_bytes(bytes)), bytes))
CRATON_CALL(int, getsockname, (int fd, sockaddr* address, socklen_t* bytes),
            (CRATON_FD(getsockname), Results(address, room_of(bytes)), Result(bytes)))
CRATON_CALL(int, getpeername, (int fd, sockaddr* address, socklen_t* bytes),
            (CRATON_FD(getpeername), Results(address, room_of(bytes)), Result(bytes)))

// ---- Clocks and timers

CRATON_CALL(int, gettimeofday, (timeval * time, void* zone),
            (Result(time), Result(static_cast<struct timezone*>(zone))))
CRATON_CALL(int, clock_gettime, (clockid_t clock, timespec* time), (clock, Result(time)))
CRATON_CALL(int, clock_getres, (clockid_t clock, timespec* time), (clock, Result(time)))
CRATON_CALL(int, clock_settime, (clockid_t clock, const timespec* time), (clock, Value(time)))
CRATON_CALL(int, nanosleep, (const timespec* time, timespec* left), (Value(time), Result(left)))
CRATON_CALL(int, clock_nanosleep, (clockid_t clock, int flags, const timespec* time, timespec* left),
            (clock, flags, Value(time), Result(left)))
CRATON_CALL(int, getitimer, (__itimer_which_t which, itimerval* value), (which, Result(value)))
CRATON_CALL(int, setitimer, (__itimer_which_t which, const itimerval* value, itimerval* before),
            (which, Value(value), Result(before)))
CRATON_CALL(int, timer_create, (clockid_t clock, sigevent* event, timer_t* timer),
            (clock, Notification(event), Result(timer)))
CRATON_CALL(int, timer_settime, (timer_t timer, int flags, const itimerspec* value, itimerspec* before),
            (timer, flags, Value(value), Result(before)))
CRATON_CALL(int, timer_gettime, (timer_t timer, itimerspec* value), (timer, Result(value)))
CRATON_CALL(clock_t, times, (tms * buffer), (Result(buffer)))

// ---- The process and the machine

CRATON_CALL(int, getrusage, (__rusage_who_t who, rusage* usage), (who, Result(usage)))
CRATON_CALL(int, uname, (utsname * name), (Result(name)))
CRATON_CALL(int, sysinfo, (struct sysinfo * information), (Result(information)))
[[gnu::visibility("default")]] int getrlimit(__rlimit_resource_t what, rlimit* limit) noexcept {
  return limit_here(what, nullptr, Result(limit));
}
[[gnu::visibility("default")]] int getrlimit64(__rlimit_resource_t what, rlimit64* limit) noexcept {
  return getrlimit(what, reinterpret_cast<rlimit*>(limit));  // on 64 bits they are one
}
[[gnu::visibility("default")]] int setrlimit(__rlimit_resource_t what, const rlimit* limit) noexcept {
  rlimit was{};
  return set_limit(0, what, *limit, was);
}
[[gnu::visibility("default")]] int setrlimit64(__rlimit_resource_t what, const rlimit64* limit) noexcept {
  return setrlimit(what, reinterpret_cast<const rlimit*>(limit));
}
[[gnu::visibility("default")]] int prlimit(pid_t process, __rlimit_resource what, const rlimit* limit,
                                           rlimit* before) noexcept {
  if (limit == nullptr) {
    return is_here(process) ? limit_here(what, nullptr, Result(before))
                            : CRATON_REAL(prlimit)(process, what, nullptr, Result(before));
  }
  rlimit was{};
  const int result = set_limit(process, what, *limit, was);
  if (result == 0 && before != nullptr) *before = was;
  return result;
}
[[gnu::visibility("default")]] int prlimit64(pid_t process, __rlimit_resource what, const rlimit64* limit,
                                             rlimit64* before) noexcept {
  return prlimit(process, what, reinterpret_cast<const rlimit*>(limit), reinterpret_cast<rlimit*>(before));
}
[[gnu::visibility("default")]] int getgroups(int count, gid_t* list) {
  return CRATON_REAL(getgroups)(count,
                                Results(list, static_cast<std::size_t>(std::max(count, 0)) * sizeof *list));
}
[[gnu::visibility("default")]] int __getgroups_chk(int count, gid_t* list, std::size_t room) {
  if (count > 0 && room / sizeof *list < static_cast<std::size_t>(count)) __chk_fail();
  return getgroups(count, list);
}
CRATON_CALL(int, sched_getparam, (pid_t process, sched_param* parameters), (process, Result(parameters)))
CRATON_CALL(int, setgroups, (std::size_t count, const gid_t* list),
            (count, Values(list, std::min<std::size_t>(count, NGROUPS_MAX) * sizeof *list)))
CRATON_CALL(int, getresuid, (uid_t * real, uid_t* effective, uid_t* saved),
            (Result(real), Result(effective), Result(saved)))
CRATON_CALL(int, getresgid, (gid_t * real, gid_t* effective, gid_t* saved),
            (Result(real), Result(effective), Result(saved)))
CRATON_CALL(int, sched_rr_get_interval, (pid_t process, timespec* interval), (process, Result(interval)))
CRATON_CALL(int, sched_setparam, (pid_t process, const sched_param* parameters), (process, Value(parameters)))
CRATON_CALL(int, sched_setscheduler, (pid_t process, int policy, const sched_param* parameters),
            (process, policy, Value(parameters)))

/// What may lie in memory is the second argument: a number, a pointer, or the name of a thread.
[[gnu::visibility("default")]] int prctl(int option, ...) {
  constexpr std::size_t bytes = 16;
  va_list more;
  va_start(more, option);
  void* const second = va_arg(more, void*);
  const auto third = va_arg(more, unsigned long);
  const auto fourth = va_arg(more, unsigned long);
  const auto fifth = va_arg(more, unsigned long);
  va_end(more);
  return CRATON_REAL(prctl)(option, static_cast<void*>(Results(second, bytes)), third, fourth, fifth);
}

// ---- Memory that is to stay

CRATON_CALL(int, mincore, (void* begin, std::size_t bytes, unsigned char* pages),
            (begin, bytes, Results(pages, craton::posix::page_up(bytes) / craton::posix::page_bytes)))

// What ranks share is moved as they need it, and never paged out by the kernel: there is nothing to lock.

[[gnu::visibility("default")]] int mlock(const void* begin, std::size_t bytes) {
  return may_fault(begin) ? 0 : CRATON_REAL(mlock)(begin, bytes);
}
[[gnu::visibility("default")]] int mlock2(const void* begin, std::size_t bytes, unsigned flags) {
  return may_fault(begin) ? 0 : CRATON_REAL(mlock2)(begin, bytes, flags);
}
[[gnu::visibility("default")]] int munlock(const void* begin, std::size_t bytes) {
  return may_fault(begin) ? 0 : CRATON_REAL(munlock)(begin, bytes);
}
/// The kernel would count all that is reserved.
[[gnu::visibility("default")]] int mlockall(int flags) {
  return shared_program() != nullptr ? 0 : CRATON_REAL(mlockall)(flags);
}

// ---- Children

[[gnu::visibility("default")]] pid_t wait4(pid_t process, int* status, int flags, rusage* usage) {
  const auto here = [&] { return CRATON_REAL(wait4)(process, Result(status), flags, Result(usage)); };
  const Forwarded call{
      .call = ForwardedCall::wait_child, .object = static_cast<std::uint64_t>(process), .first = flags};
  const auto take = [&](const ChildEnd& end) {
    if (status != nullptr) *status = end.status;
    if (usage != nullptr) *usage = end.usage;
  };
  return wait_for_child<ChildEnd>(here, call, take);
}
[[gnu::visibility("default")]] pid_t wait3(int* status, int flags, rusage* usage) {
  return wait4(-1, status, flags, usage);
}
[[gnu::visibility("default")]] pid_t waitpid(pid_t process, int* status, int flags) {
  return wait4(process, status, flags, nullptr);
}
[[gnu::visibility("default")]] pid_t wait(int* status) {
  return wait4(-1, status, 0, nullptr);
}
[[gnu::visibility("default")]] int waitid(idtype_t what, id_t process, siginfo_t* information, int flags) {
  const auto here = [&] { return CRATON_REAL(waitid)(what, process, Result(information), flags); };
  const Forwarded call{
      .call = ForwardedCall::inform_of_child, .object = process, .first = what, .second = flags};
  const auto take = [&](const siginfo_t& found) {
    if (information != nullptr) *information = found;
  };
  return wait_for_child<siginfo_t>(here, call, take);
}

// ---- Those that the C library has no function for

/// What an argument is only the call knows. One that fails for a page is repeated with more pages accessible.
[[gnu::visibility("default")]] long syscall(long number, ...) {
  constexpr std::size_t count = 6;
  constexpr std::size_t pages_most = 1024;
  long arguments[count];
  va_list more;
  va_start(more, number);
  for (long& argument : arguments) argument = va_arg(more, long);
  va_end(more);
  long result_of_futex = 0;
  if (number == SYS_futex && craton::posix::run_shared_futex(arguments, result_of_futex))
    return result_of_futex;
  const int before = errno;
  for (std::size_t pages = 1;; pages *= 2) {
    const long result = CRATON_REAL(syscall)(number, arguments[0], arguments[1], arguments[2], arguments[3],
                                             arguments[4], arguments[5]);
    if (result != -1 || errno != EFAULT || pages > pages_most) return result;
    bool any = false;
    for (const long argument : arguments) {
      const auto* const address = reinterpret_cast<const void*>(argument);
      if (!may_fault(address)) continue;
      any = true;
      touch(address, pages * craton::posix::page_bytes, true);
    }
    if (!any) return result;
    errno = before;
  }
}

}  // extern "C"
