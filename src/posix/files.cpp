// Calls that name files, or say something about open ones.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/remote_files.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
// Of C libraries before 2.33, and of what was built with _FORTIFY_SOURCE.
int __xstat(int version, const char* path, struct stat* status);
int __lxstat(int version, const char* path, struct stat* status);
int __fxstat(int version, int fd, struct stat* status);
int __fxstatat(int version, int directory, const char* path, struct stat* status, int flags);
int __xstat64(int version, const char* path, struct stat64* status);
int __lxstat64(int version, const char* path, struct stat64* status);
int __fxstat64(int version, int fd, struct stat64* status);
int __fxstatat64(int version, int directory, const char* path, struct stat64* status, int flags);
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
ssize_t __readlink_chk(const char* path, char* buffer, std::size_t bytes, std::size_t room);
ssize_t __readlinkat_chk(int directory, const char* path, char* buffer, std::size_t bytes, std::size_t room);
[[noreturn]] void __chk_fail();
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::descriptor_here;
using craton::posix::descriptor_made;
using craton::posix::directory_here;
using craton::posix::ForwardedCall;
using craton::posix::may_fault;
using craton::posix::Name;
using craton::posix::RemoteFile;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::Value;
using craton::posix::Values;

bool has_mode(int flags) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

/// A template that a call makes a name of, in place.
class Template {
 public:
  explicit Template(char* text) noexcept : text_(text, may_fault(text) ? ::strnlen(text, PATH_MAX) + 1 : 0) {}
  operator char*() const noexcept { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  Results text_;
};

/// The kernel refuses longer ones.
std::size_t handle_bytes(const file_handle* handle) noexcept {
  if (handle == nullptr) return 0;
  return sizeof *handle + std::min<std::size_t>(handle->handle_bytes, MAX_HANDLE_SZ);
}

/// Of commands of fcntl() whose argument is a number, or that have none: they mean the same on another node.
bool has_number(int command) noexcept {
  return command == F_GETFL || command == F_SETFL || command == F_GETFD || command == F_SETFD;
}

int no_such_descriptor() noexcept {
  errno = EBADF;
  return -1;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): two lists
#define CRATON_MAKER(name, parameters, arguments)        \
  [[gnu::visibility("default")]] int name parameters {   \
    return descriptor_made(CRATON_REAL(name) arguments); \
  }
// NOLINTEND(bugprone-macro-parentheses)
#define CRATON_FD(name) descriptor_here(fd, #name)
// NOLINTBEGIN(bugprone-macro-parentheses): a type and two lists
// A call that is forwarded to rank 0 where that is on another node.
#define CRATON_FILE_CALL(type, name, parameters, forwarded, arguments)              \
  [[gnu::visibility("default")]] type name parameters {                             \
    if (RemoteFile::is_one(fd)) return static_cast<type>(RemoteFile(fd).forwarded); \
    return CRATON_REAL(name) arguments;                                             \
  }
// NOLINTEND(bugprone-macro-parentheses)
#define CRATON_AT(name) directory_here(directory, #name)

// A call with its twin for 64-bit offsets.
#define CRATON_CALL_64(type, name, parameters, parameters_64, arguments) \
  CRATON_CALL(type, name, parameters, arguments)                         \
  CRATON_CALL(type, name##64, parameters_64, arguments)
#define CRATON_FILE_CALL_64(type, name, parameters, parameters_64, forwarded, arguments) \
  CRATON_FILE_CALL(type, name, parameters, forwarded, arguments)                         \
  CRATON_FILE_CALL(type, name##64, parameters_64, forwarded, arguments)

extern "C" {

// ---- Opening and closing

#define CRATON_OPEN(name)                                                     \
  [[gnu::visibility("default")]] int name(const char* path, int flags, ...) { \
    va_list more;                                                             \
    va_start(more, flags);                                                    \
    const mode_t mode = has_mode(flags) ? va_arg(more, mode_t) : 0;           \
    va_end(more);                                                             \
    return descriptor_made(CRATON_REAL(name)(Name(path), flags, mode));       \
  }
#define CRATON_OPENAT(name)                                                                  \
  [[gnu::visibility("default")]] int name(int directory, const char* path, int flags, ...) { \
    va_list more;                                                                            \
    va_start(more, flags);                                                                   \
    const mode_t mode = has_mode(flags) ? va_arg(more, mode_t) : 0;                          \
    va_end(more);                                                                            \
    return descriptor_made(CRATON_REAL(name)(CRATON_AT(name), Name(path), flags, mode));     \
  }
CRATON_OPEN(open)
CRATON_OPEN(open64)
CRATON_OPENAT(openat)
CRATON_OPENAT(openat64)
CRATON_MAKER(__open_2, (const char* path, int flags), (Name(path), flags))
CRATON_MAKER(__open64_2, (const char* path, int flags), (Name(path), flags))
CRATON_MAKER(__openat_2, (int directory, const char* path, int flags), (CRATON_AT(openat), Name(path), flags))
CRATON_MAKER(__openat64_2, (int directory, const char* path, int flags),
             (CRATON_AT(openat), Name(path), flags))
CRATON_MAKER(creat, (const char* path, mode_t mode), (Name(path), mode))
CRATON_MAKER(creat64, (const char* path, mode_t mode), (Name(path), mode))
CRATON_MAKER(mkstemp, (char* name), (Template(name)))
CRATON_MAKER(mkstemp64, (char* name), (Template(name)))
CRATON_MAKER(mkstemps, (char* name, int suffix), (Template(name), suffix))
CRATON_MAKER(mkstemps64, (char* name, int suffix), (Template(name), suffix))
CRATON_MAKER(mkostemp, (char* name, int flags), (Template(name), flags))
CRATON_MAKER(mkostemp64, (char* name, int flags), (Template(name), flags))
CRATON_MAKER(mkostemps, (char* name, int suffix, int flags), (Template(name), suffix, flags))
CRATON_MAKER(mkostemps64, (char* name, int suffix, int flags), (Template(name), suffix, flags))
CRATON_MAKER(shm_open, (const char* name, int flags, mode_t mode), (Name(name), flags, mode))
CRATON_MAKER(memfd_create, (const char* name, unsigned flags), (Name(name), flags))
CRATON_MAKER(dup, (int fd), (CRATON_FD(dup)))
CRATON_MAKER(epoll_create, (int size), (size))
CRATON_MAKER(epoll_create1, (int flags), (flags))
CRATON_MAKER(eventfd, (unsigned count, int flags), (count, flags))
CRATON_MAKER(timerfd_create, (clockid_t clock, int flags), (clock, flags))
CRATON_MAKER(inotify_init, (), ())
CRATON_MAKER(inotify_init1, (int flags), (flags))

[[gnu::visibility("default")]] int close(int fd) {
  if (craton::posix::descriptor_is_foreign(fd) && craton::posix::forwarding_now() != nullptr)
    return static_cast<int>(RemoteFile(fd).call(ForwardedCall::close_file));
  craton::posix::refuse_foreign_close(fd);
  if (craton::posix::descriptor_is_runtimes(fd)) return no_such_descriptor();
  const craton::posix::ClosingDescriptor closing(fd);
  return CRATON_REAL(close)(fd);
}
/// Of those that are open here: another rank's stay.
[[gnu::visibility("default")]] int close_range(unsigned first, unsigned last, int flags) noexcept {
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) != 0 || first > last)
    return CRATON_REAL(close_range)(first, last, flags);
  craton::posix::visit_descriptors([first, last](int number) {
    if (static_cast<unsigned>(number) >= first && static_cast<unsigned>(number) <= last) ::close(number);
  });
  return 0;
}
[[gnu::visibility("default")]] void closefrom(int first) noexcept {
  close_range(static_cast<unsigned>(std::max(first, 0)), UINT_MAX, 0);
}

/// The program has chosen the number, so it is this rank's, whatever had it.
[[gnu::visibility("default")]] int dup3(int fd, int wanted, int flags) {
  const int here = CRATON_FD(dup3);
  if (fd == wanted) return CRATON_REAL(dup3)(wanted, wanted, flags);  // it has an error for that
  if (craton::posix::descriptor_is_runtimes(wanted)) return no_such_descriptor();
  craton::posix::descriptor_replacing(wanted);
  const int got = CRATON_REAL(dup3)(here, wanted, flags);
  craton::posix::descriptor_replaced(got);
  return got;
}
[[gnu::visibility("default")]] int dup2(int fd, int wanted) {
  const int here = CRATON_FD(dup2);
  if (fd == wanted) return CRATON_REAL(fcntl)(here, F_GETFD) < 0 ? -1 : fd;
  if (craton::posix::descriptor_is_runtimes(wanted)) return no_such_descriptor();
  craton::posix::descriptor_replacing(wanted);
  const int got = CRATON_REAL(dup2)(here, wanted);
  craton::posix::descriptor_replaced(got);
  return got;
}

[[gnu::visibility("default")]] int pipe2(int ends[2], int flags) {
  int opened[2];
  if (CRATON_REAL(pipe2)(opened, flags) != 0) return -1;
  ends[0] = descriptor_made(opened[0]);
  ends[1] = descriptor_made(opened[1]);
  return 0;
}

[[gnu::visibility("default")]] int pipe(int ends[2]) {
  return pipe2(ends, 0);
}

// ---- What is said of files by name

CRATON_CALL_64(int, stat, (const char* path, struct stat* status), (const char* path, struct stat64* status),
               (Name(path), Result(status)))
CRATON_CALL_64(int, lstat, (const char* path, struct stat* status), (const char* path, struct stat64* status),
               (Name(path), Result(status)))
CRATON_CALL_64(int, fstatat, (int directory, const char* path, struct stat* status, int flags),
               (int directory, const char* path, struct stat64* status, int flags),
               (CRATON_AT(fstatat), Name(path), Result(status), flags))
CRATON_CALL_64(int, __xstat, (int version, const char* path, struct stat* status),
               (int version, const char* path, struct stat64* status), (version, Name(path), Result(status)))
CRATON_CALL_64(int, __lxstat, (int version, const char* path, struct stat* status),
               (int version, const char* path, struct stat64* status), (version, Name(path), Result(status)))
CRATON_CALL_64(int, __fxstatat,
               (int version, int directory, const char* path, struct stat* status, int flags),
               (int version, int directory, const char* path, struct stat64* status, int flags),
               (version, CRATON_AT(fstatat), Name(path), Result(status), flags))
CRATON_CALL(int, statx, (int directory, const char* path, int flags, unsigned mask, struct statx* status),
            (CRATON_AT(statx), Name(path), flags, mask, Result(status)))
CRATON_CALL_64(int, statfs, (const char* path, struct statfs* status),
               (const char* path, struct statfs64* status), (Name(path), Result(status)))
CRATON_CALL_64(int, statvfs, (const char* path, struct statvfs* status),
               (const char* path, struct statvfs64* status), (Name(path), Result(status)))
CRATON_CALL(int, access, (const char* path, int mode), (Name(path), mode))
CRATON_CALL(int, faccessat, (int directory, const char* path, int mode, int flags),
            (CRATON_AT(faccessat), Name(path), mode, flags))
CRATON_CALL(int, eaccess, (const char* path, int mode), (Name(path), mode))
CRATON_CALL(int, euidaccess, (const char* path, int mode), (Name(path), mode))
CRATON_CALL(long, pathconf, (const char* path, int name), (Name(path), name))
CRATON_CALL(ssize_t, getxattr, (const char* path, const char* name, void* value, std::size_t bytes),
            (Name(path), Name(name), Results(value, bytes), bytes))
CRATON_CALL(int, setxattr,
            (const char* path, const char* name, const void* value, std::size_t bytes, int flags),
            (Name(path), Name(name), Values(value, bytes), bytes, flags))
CRATON_CALL(ssize_t, listxattr, (const char* path, char* list, std::size_t bytes),
            (Name(path), Results(list, bytes), bytes))

CRATON_CALL(ssize_t, lgetxattr, (const char* path, const char* name, void* value, std::size_t bytes),
            (Name(path), Name(name), Results(value, bytes), bytes))
CRATON_CALL(int, lsetxattr,
            (const char* path, const char* name, const void* value, std::size_t bytes, int flags),
            (Name(path), Name(name), Values(value, bytes), bytes, flags))
CRATON_CALL(ssize_t, llistxattr, (const char* path, char* list, std::size_t bytes),
            (Name(path), Results(list, bytes), bytes))
CRATON_CALL(int, removexattr, (const char* path, const char* name), (Name(path), Name(name)))
CRATON_CALL(int, lremovexattr, (const char* path, const char* name), (Name(path), Name(name)))
CRATON_CALL(int, name_to_handle_at,
            (int directory, const char* path, file_handle* handle, int* mount, int flags),
            (CRATON_AT(name_to_handle_at), Name(path), Results(handle, handle_bytes(handle)), Result(mount),
             flags))
CRATON_MAKER(open_by_handle_at, (int fd, file_handle* handle, int flags),
             (directory_here(fd, "open_by_handle_at"), Results(handle, handle_bytes(handle)), flags))

[[gnu::visibility("default")]] ssize_t readlink(const char* path, char* buffer, std::size_t bytes) {
  return CRATON_REAL(readlink)(Name(path), Results(buffer, bytes), bytes);
}

[[gnu::visibility("default")]] ssize_t __readlink_chk(const char* path, char* buffer, std::size_t bytes,
                                                      std::size_t room) {
  if (bytes > room) __chk_fail();
  return readlink(path, buffer, bytes);
}

[[gnu::visibility("default")]] ssize_t readlinkat(int directory, const char* path, char* buffer,
                                                  std::size_t bytes) {
  return CRATON_REAL(readlinkat)(CRATON_AT(readlinkat), Name(path), Results(buffer, bytes), bytes);
}

[[gnu::visibility("default")]] ssize_t __readlinkat_chk(int directory, const char* path, char* buffer,
                                                        std::size_t bytes, std::size_t room) {
  if (bytes > room) __chk_fail();
  return readlinkat(directory, path, buffer, bytes);
}

// ---- What is done to files by name

CRATON_CALL(int, mkdir, (const char* path, mode_t mode), (Name(path), mode))
CRATON_CALL(int, mkdirat, (int directory, const char* path, mode_t mode),
            (CRATON_AT(mkdirat), Name(path), mode))
CRATON_CALL(int, rmdir, (const char* path), (Name(path)))
CRATON_CALL(int, unlink, (const char* path), (Name(path)))
CRATON_CALL(int, unlinkat, (int directory, const char* path, int flags),
            (CRATON_AT(unlinkat), Name(path), flags))
CRATON_CALL(int, remove, (const char* path), (Name(path)))
CRATON_CALL(int, rename, (const char* from, const char* to), (Name(from), Name(to)))
CRATON_CALL(int, renameat, (int directory, const char* from, int target, const char* to),
            (CRATON_AT(renameat), Name(from), directory_here(target, "renameat"), Name(to)))
CRATON_CALL(int, renameat2, (int directory, const char* from, int target, const char* to, unsigned flags),
            (CRATON_AT(renameat2), Name(from), directory_here(target, "renameat2"), Name(to), flags))
CRATON_CALL(int, link, (const char* from, const char* to), (Name(from), Name(to)))
CRATON_CALL(int, linkat, (int directory, const char* from, int target, const char* to, int flags),
            (CRATON_AT(linkat), Name(from), directory_here(target, "linkat"), Name(to), flags))
CRATON_CALL(int, symlink, (const char* from, const char* to), (Name(from), Name(to)))
CRATON_CALL(int, symlinkat, (const char* from, int directory, const char* to),
            (Name(from), CRATON_AT(symlinkat), Name(to)))
CRATON_CALL(int, mkfifo, (const char* path, mode_t mode), (Name(path), mode))
CRATON_CALL(int, mkfifoat, (int directory, const char* path, mode_t mode),
            (CRATON_AT(mkfifoat), Name(path), mode))
CRATON_CALL(int, mknod, (const char* path, mode_t mode, dev_t device), (Name(path), mode, device))
CRATON_CALL(int, mknodat, (int directory, const char* path, mode_t mode, dev_t device),
            (CRATON_AT(mknodat), Name(path), mode, device))
CRATON_CALL(int, chmod, (const char* path, mode_t mode), (Name(path), mode))
CRATON_CALL(int, fchmodat, (int directory, const char* path, mode_t mode, int flags),
            (CRATON_AT(fchmodat), Name(path), mode, flags))
CRATON_CALL(int, chown, (const char* path, uid_t user, gid_t group), (Name(path), user, group))
CRATON_CALL(int, lchown, (const char* path, uid_t user, gid_t group), (Name(path), user, group))
CRATON_CALL(int, fchownat, (int directory, const char* path, uid_t user, gid_t group, int flags),
            (CRATON_AT(fchownat), Name(path), user, group, flags))
CRATON_CALL_64(int, truncate, (const char* path, off_t bytes), (const char* path, off64_t bytes),
               (Name(path), bytes))
CRATON_CALL(int, utime, (const char* path, const utimbuf* times), (Name(path), Value(times)))
CRATON_CALL(int, utimes, (const char* path, const timeval times[2]),
            (Name(path), Values(times, 2 * sizeof *times)))
CRATON_CALL(int, lutimes, (const char* path, const timeval times[2]),
            (Name(path), Values(times, 2 * sizeof *times)))
CRATON_CALL(int, futimes, (int fd, const timeval times[2]),
            (CRATON_FD(futimes), Values(times, 2 * sizeof *times)))
CRATON_CALL(int, futimens, (int fd, const timespec times[2]),
            (CRATON_FD(futimens), Values(times, 2 * sizeof *times)))
CRATON_CALL(int, utimensat, (int directory, const char* path, const timespec times[2], int flags),
            (CRATON_AT(utimensat), Name(path), Values(times, 2 * sizeof *times), flags))
CRATON_CALL(int, futimesat, (int directory, const char* path, const timeval times[2]),
            (CRATON_AT(futimesat), Name(path), Values(times, 2 * sizeof *times)))
CRATON_CALL(int, shm_unlink, (const char* name), (Name(name)))
CRATON_CALL(int, inotify_add_watch, (int fd, const char* path, std::uint32_t mask),
            (CRATON_FD(inotify_add_watch), Name(path), mask))

[[gnu::visibility("default")]] char* mkdtemp(char* name) {
  return CRATON_REAL(mkdtemp)(Template(name)) == nullptr ? nullptr : name;
}

[[gnu::visibility("default")]] char* mktemp(char* name) {
  CRATON_REAL(mktemp)(Template(name));
  return name;
}

// ---- Open files

CRATON_FILE_CALL_64(int, fstat, (int fd, struct stat* status), (int fd, struct stat64* status),
                    status(status), (CRATON_FD(fstat), Result(status)))
CRATON_FILE_CALL_64(int, __fxstat, (int version, int fd, struct stat* status),
                    (int version, int fd, struct stat64* status), status(status),
                    (version, CRATON_FD(fstat), Result(status)))
CRATON_CALL_64(int, fstatfs, (int fd, struct statfs* status), (int fd, struct statfs64* status),
               (CRATON_FD(fstatfs), Result(status)))
CRATON_CALL_64(int, fstatvfs, (int fd, struct statvfs* status), (int fd, struct statvfs64* status),
               (CRATON_FD(fstatvfs), Result(status)))
CRATON_FILE_CALL_64(off_t, lseek, (int fd, off_t offset, int from), (int fd, off64_t offset, int from),
                    call(ForwardedCall::seek_file, offset, from), (CRATON_FD(lseek), offset, from))
CRATON_FILE_CALL_64(int, ftruncate, (int fd, off_t bytes), (int fd, off64_t bytes),
                    call(ForwardedCall::truncate_file, bytes), (CRATON_FD(ftruncate), bytes))
CRATON_CALL_64(int, posix_fallocate, (int fd, off_t offset, off_t bytes),
               (int fd, off64_t offset, off64_t bytes), (CRATON_FD(posix_fallocate), offset, bytes))
CRATON_FILE_CALL(int, fsync, (int fd), call(ForwardedCall::sync_file), (CRATON_FD(fsync)))
CRATON_FILE_CALL(int, fdatasync, (int fd), call(ForwardedCall::sync_data), (CRATON_FD(fdatasync)))
CRATON_CALL(int, flock, (int fd, int operation), (CRATON_FD(flock), operation))
CRATON_CALL(int, fchmod, (int fd, mode_t mode), (CRATON_FD(fchmod), mode))
CRATON_CALL(int, fchown, (int fd, uid_t user, gid_t group), (CRATON_FD(fchown), user, group))
CRATON_CALL_64(int, fallocate, (int fd, int mode, off_t offset, off_t bytes),
               (int fd, int mode, off64_t offset, off64_t bytes), (CRATON_FD(fallocate), mode, offset, bytes))
CRATON_CALL_64(int, posix_fadvise, (int fd, off_t offset, off_t bytes, int advice),
               (int fd, off64_t offset, off64_t bytes, int advice),
               (CRATON_FD(posix_fadvise), offset, bytes, advice))
CRATON_CALL_64(int, lockf, (int fd, int command, off_t bytes), (int fd, int command, off64_t bytes),
               (CRATON_FD(lockf), command, bytes))
CRATON_CALL(int, syncfs, (int fd), (CRATON_FD(syncfs)))
CRATON_CALL(int, sync_file_range, (int fd, off64_t offset, off64_t bytes, unsigned flags),
            (CRATON_FD(sync_file_range), offset, bytes, flags))
CRATON_CALL(ssize_t, readahead, (int fd, off64_t offset, std::size_t bytes),
            (CRATON_FD(readahead), offset, bytes))
CRATON_CALL(ssize_t, getdents64, (int fd, void* entries, std::size_t bytes),
            (CRATON_FD(getdents64), Results(entries, bytes), bytes))
CRATON_CALL_64(ssize_t, getdirentries, (int fd, char* entries, std::size_t bytes, off_t* position),
               (int fd, char* entries, std::size_t bytes, off64_t* position),
               (CRATON_FD(getdirentries), Results(entries, bytes), bytes, Result(position)))
CRATON_CALL(long, fpathconf, (int fd, int name), (CRATON_FD(fpathconf), name))
CRATON_CALL(ssize_t, fgetxattr, (int fd, const char* name, void* value, std::size_t bytes),
            (CRATON_FD(fgetxattr), Name(name), Results(value, bytes), bytes))
CRATON_CALL(int, fsetxattr, (int fd, const char* name, const void* value, std::size_t bytes, int flags),
            (CRATON_FD(fsetxattr), Name(name), Values(value, bytes), bytes, flags))
CRATON_CALL(ssize_t, flistxattr, (int fd, char* list, std::size_t bytes),
            (CRATON_FD(flistxattr), Results(list, bytes), bytes))
CRATON_CALL(int, fremovexattr, (int fd, const char* name), (CRATON_FD(fremovexattr), Name(name)))
CRATON_CALL(int, inotify_rm_watch, (int fd, int watch), (CRATON_FD(inotify_rm_watch), watch))
CRATON_CALL(int, eventfd_read, (int fd, eventfd_t* value), (CRATON_FD(eventfd_read), Result(value)))
CRATON_CALL(int, eventfd_write, (int fd, eventfd_t value), (CRATON_FD(eventfd_write), value))
CRATON_CALL(int, timerfd_settime, (int fd, int flags, const itimerspec* time, itimerspec* before),
            (CRATON_FD(timerfd_settime), flags, Value(time), Result(before)))
CRATON_CALL(int, timerfd_gettime, (int fd, itimerspec* time), (CRATON_FD(timerfd_gettime), Result(time)))

// ---- Terminals

CRATON_CALL(int, isatty, (int fd), (CRATON_FD(isatty)))
CRATON_CALL(char*, ttyname, (int fd), (CRATON_FD(ttyname)))
CRATON_CALL(int, ttyname_r, (int fd, char* name, std::size_t bytes),
            (CRATON_FD(ttyname_r), Results(name, bytes), bytes))
CRATON_CALL(int, tcgetattr, (int fd, termios* state), (CRATON_FD(tcgetattr), Result(state)))
CRATON_CALL(int, tcsetattr, (int fd, int when, const termios* state),
            (CRATON_FD(tcsetattr), when, Value(state)))
CRATON_CALL(int, tcdrain, (int fd), (CRATON_FD(tcdrain)))
CRATON_CALL(int, tcflow, (int fd, int action), (CRATON_FD(tcflow), action))
CRATON_CALL(int, tcflush, (int fd, int queue), (CRATON_FD(tcflush), queue))
CRATON_CALL(int, tcsendbreak, (int fd, int duration), (CRATON_FD(tcsendbreak), duration))
CRATON_CALL(pid_t, tcgetpgrp, (int fd), (CRATON_FD(tcgetpgrp)))
CRATON_CALL(int, tcsetpgrp, (int fd, pid_t group), (CRATON_FD(tcsetpgrp), group))
CRATON_CALL(pid_t, tcgetsid, (int fd), (CRATON_FD(tcgetsid)))

// ---- Requests

#define CRATON_FCNTL(name)                                                                                \
  [[gnu::visibility("default")]] int name(int fd, int command, ...) {                                     \
    va_list more;                                                                                         \
    va_start(more, command);                                                                              \
    void* const argument = va_arg(more, void*);                                                           \
    va_end(more);                                                                                         \
    if (has_number(command) && RemoteFile::is_one(fd))                                                    \
      return static_cast<int>(RemoteFile(fd).call(ForwardedCall::control_file, command,                   \
                                                  reinterpret_cast<std::intptr_t>(argument)));            \
    const int here = CRATON_FD(name);                                                                     \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)                                                 \
      return descriptor_made(CRATON_REAL(name)(here, command, argument));                                 \
    return CRATON_REAL(name)(here, command, static_cast<void*>(Results(argument, sizeof(struct flock)))); \
  }
CRATON_FCNTL(fcntl)
CRATON_FCNTL(fcntl64)

}  // extern "C"
