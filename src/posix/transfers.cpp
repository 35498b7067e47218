// Reading and writing: through private memory where the program's is shared (kernel_memory.hpp), in pieces.
// Long transfers of files are whole; of pipes and sockets a read may be short, as it always may.
#include <fcntl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "base/kept_errno.hpp"
#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/remote_files.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
// What programs call that were built with _FORTIFY_SOURCE.
ssize_t __read_chk(int fd, void* buffer, std::size_t bytes, std::size_t room);
ssize_t __pread_chk(int fd, void* buffer, std::size_t bytes, off_t offset, std::size_t room);
ssize_t __pread64_chk(int fd, void* buffer, std::size_t bytes, off64_t offset, std::size_t room);
ssize_t __recv_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void* buffer, std::size_t bytes, std::size_t room, int flags,
                       sockaddr* address, socklen_t* address_bytes);
[[noreturn]] void __chk_fail();
// Of C libraries from 2.36 on, and of libbsd.
void arc4random_buf(void* buffer, std::size_t bytes) noexcept;
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::at_once_bytes_most;
using craton::posix::descriptor_here;
using craton::posix::keeps_messages;
using craton::posix::may_fault;
using craton::posix::own_offset;
using craton::posix::piece_bytes;
using craton::posix::Pieces;
using craton::posix::PrivateBuffer;
using craton::posix::RemoteFile;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::Values;

/// The kernel's own limits of lists of pieces, which it does not see where one buffer stands for them.
bool is_refused(const Pieces& pieces, int count) noexcept {
  if (count <= IOV_MAX && pieces.bytes() <= static_cast<std::size_t>(SSIZE_MAX)) return false;
  errno = EINVAL;
  return true;
}

bool is_file(int fd) noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// So much goes through private memory at a time.
std::size_t bytes_at_a_time(int fd, std::size_t bytes, std::size_t messages_most) noexcept {
  return bytes > piece_bytes && keeps_messages(fd) ? std::min(bytes, messages_most) : piece_bytes;
}

/// \param read (to, bytes, done) as read(2) \param put (from, bytes, done) has the program's memory
template <typename Read, typename Put>
ssize_t read_in_pieces(int fd, std::size_t bytes, Read read, Put put) {
  const std::size_t most = bytes_at_a_time(fd, bytes, at_once_bytes_most);
  PrivateBuffer piece(std::min(bytes, most));
  if (piece.data() == nullptr) return -1;
  std::size_t done = 0;
  do {
    const std::size_t wanted = std::min(bytes - done, most);
    const ssize_t got = read(piece.data(), wanted, done);
    if (got < 0) return done != 0 ? static_cast<ssize_t>(done) : got;
    put(piece.data(), static_cast<std::size_t>(got), done);
    done += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < wanted) break;
  } while (done < bytes && is_file(fd));
  return static_cast<ssize_t>(done);
}

/// Likewise. A piece that is not written whole is the last: the kernel had its reason. \param take (to,
/// bytes, done)
template <typename Write, typename Take>
ssize_t write_in_pieces(int fd, std::size_t bytes, Write write, Take take) {
  const std::size_t most = bytes_at_a_time(fd, bytes, bytes);
  PrivateBuffer piece(std::min(bytes, most));
  if (piece.data() == nullptr) return -1;
  std::size_t done = 0;
  do {
    const std::size_t wanted = std::min(bytes - done, most);
    take(piece.data(), wanted, done);
    const ssize_t put = write(piece.data(), wanted, done);
    if (put < 0) return done != 0 ? static_cast<ssize_t>(done) : put;
    done += static_cast<std::size_t>(put);
    if (static_cast<std::size_t>(put) < wanted) break;
  } while (done < bytes);
  return static_cast<ssize_t>(done);
}

/// The part of a file that a call has taken for itself, by moving the offset over it before it moves any
/// bytes.
class Claim {
 public:
  Claim(int fd, std::size_t bytes) noexcept : fd_(fd), bytes_(static_cast<off64_t>(bytes)) {
    const off64_t end = CRATON_REAL(lseek64)(fd, bytes_, SEEK_CUR);
    if (end >= bytes_) begin_ = end - bytes_;
  }
  /// Not where the offset cannot be moved so far.
  bool is_made() const noexcept { return begin_ >= 0; }
  off64_t begin() const noexcept { return begin_; }
  /// Gives back what was not used. \returns `moved`, with its errno
  ssize_t done(ssize_t moved) const noexcept {
    const craton::KeptErrno kept;
    if (moved < bytes_) CRATON_REAL(lseek64)(fd_, std::max<off64_t>(moved, 0) - bytes_, SEEK_CUR);
    return moved;
  }

 private:
  const int fd_;
  const off64_t bytes_;
  off64_t begin_ = -1;
};

bool appends(int fd) noexcept {
  return (CRATON_REAL(fcntl)(fd, F_GETFL) & O_APPEND) != 0;
}

/// Of a file; 0 where it does not say, as those of /proc.
off64_t bytes_of(int fd) noexcept {
  struct stat64 status {};
  return ::fstat64(fd, &status) == 0 ? status.st_size : 0;
}

// From where the file's offset is. Of a file that is one operation, between those of other threads, as POSIX
// has it (2.9.7): in pieces of a part of the file that is claimed before, or by one call through a buffer of
// the whole size. Claims are faster, since the pieces' buffer is there already and in the processor's cache.
// Where a claim gives something back, another thread's may already be behind it: so not for what may be
// short, at the file's end, unless the buffer would be too large.

/// \param read (to, bytes) \param read_at (to, bytes, offset)
template <typename Read, typename ReadAt, typename Put>
ssize_t read_next(int fd, std::size_t bytes, Read read, ReadAt read_at, Put put) {
  const auto read_on = [&](void* to, std::size_t count, std::size_t /*done*/) { return read(to, count); };
  if (bytes <= piece_bytes || !is_file(fd)) return read_in_pieces(fd, bytes, read_on, put);
  const off64_t all = bytes_of(fd);
  const bool is_inside = CRATON_REAL(lseek64)(fd, 0, SEEK_CUR) <= all - static_cast<off64_t>(bytes);
  if (!is_inside && bytes <= at_once_bytes_most) {
    PrivateBuffer whole(bytes);
    if (whole.data() != nullptr) {
      const ssize_t got = read(whole.data(), bytes);
      if (got > 0) put(whole.data(), static_cast<std::size_t>(got), std::size_t{0});
      return got;
    }
  }
  if (all == 0) return read_in_pieces(fd, bytes, read_on, put);
  const Claim claim(fd, bytes);
  if (!claim.is_made()) return read_in_pieces(fd, bytes, read_on, put);
  const auto read_claimed = [&](void* to, std::size_t count, std::size_t done) {
    return read_at(to, count, claim.begin() + static_cast<off64_t>(done));
  };
  return claim.done(read_in_pieces(fd, bytes, read_claimed, put));
}

/// What is appended has its place only when it is written, so it cannot be claimed.
template <typename Write, typename WriteAt, typename Take>
ssize_t write_next(int fd, std::size_t bytes, bool appends, Write write, WriteAt write_at, Take take) {
  const auto write_on = [&](const void* from, std::size_t count, std::size_t /*done*/) {
    return write(from, count);
  };
  if (bytes <= piece_bytes || !is_file(fd)) return write_in_pieces(fd, bytes, write_on, take);
  if (appends && bytes <= at_once_bytes_most) {
    PrivateBuffer whole(bytes);
    if (whole.data() != nullptr) {
      take(whole.data(), bytes, std::size_t{0});
      return write(whole.data(), bytes);
    }
  }
  if (appends) return write_in_pieces(fd, bytes, write_on, take);
  const Claim claim(fd, bytes);
  if (!claim.is_made()) return write_in_pieces(fd, bytes, write_on, take);
  const auto write_claimed = [&](const void* from, std::size_t count, std::size_t done) {
    return write_at(from, count, claim.begin() + static_cast<off64_t>(done));
  };
  return claim.done(write_in_pieces(fd, bytes, write_claimed, take));
}

/// How a buffer of the program's gets what was read, and gives what is to be written.
auto put_into(void* buffer) noexcept {
  return [buffer](const void* from, std::size_t count, std::size_t done) {
    std::memcpy(static_cast<std::byte*>(buffer) + done, from, count);
  };
}
auto take_from(const void* buffer) noexcept {
  return [buffer](void* to, std::size_t count, std::size_t done) {
    std::memcpy(to, static_cast<const std::byte*>(buffer) + done, count);
  };
}
auto put_into(const Pieces& pieces) noexcept {
  return
      [&pieces](const void* from, std::size_t count, std::size_t done) { pieces.scatter(from, done, count); };
}
auto take_from(const Pieces& pieces) noexcept {
  return [&pieces](void* to, std::size_t count, std::size_t done) { pieces.gather(to, done, count); };
}

/// read() and its like into what `put` fills, write() and its like from what `take` gives.
template <typename Put>
ssize_t read_file(int fd, std::size_t bytes, Put put) {
  return read_next(
      fd, bytes, [fd](void* to, std::size_t count) { return CRATON_REAL(read)(fd, to, count); },
      [fd](void* to, std::size_t count, off64_t offset) {
        return CRATON_REAL(pread64)(fd, to, count, offset);
      },
      put);
}
template <typename Take>
ssize_t write_file(int fd, std::size_t bytes, Take take) {
  return write_next(
      fd, bytes, bytes > piece_bytes && appends(fd),
      [fd](const void* from, std::size_t count) { return CRATON_REAL(write)(fd, from, count); },
      [fd](const void* from, std::size_t count, off64_t offset) {
        return CRATON_REAL(pwrite64)(fd, from, count, offset);
      },
      take);
}

template <typename Read>
ssize_t read_into(int fd, void* buffer, std::size_t bytes, Read read) {
  if (!may_fault(buffer)) return read(buffer, bytes, 0);
  return read_in_pieces(fd, bytes, read, put_into(buffer));
}

template <typename Write>
ssize_t write_from(int fd, const void* buffer, std::size_t bytes, Write write) {
  if (!may_fault(buffer)) return write(buffer, bytes, 0);
  return write_in_pieces(fd, bytes, write, take_from(buffer));
}

/// With MSG_ZEROCOPY the kernel may read the memory after the call, and the program counts the calls.
template <typename Send>
ssize_t send_from(int fd, const void* buffer, std::size_t bytes, int flags, Send send) {
  if ((flags & MSG_ZEROCOPY) == 0 || !may_fault(buffer)) return write_from(fd, buffer, bytes, send);
  PrivateBuffer copy(bytes, PrivateBuffer::Life::once);
  if (copy.data() == nullptr) return -1;
  std::memcpy(copy.data(), buffer, bytes);
  return send(copy.data(), bytes, 0);
}

template <typename Offset>
ssize_t read_at(int number, const char* function, void* buffer, std::size_t bytes, Offset offset) {
  if (RemoteFile::is_one(number)) return RemoteFile(number).read(bytes, offset, put_into(buffer));
  const int fd = descriptor_here(number, function);
  return read_into(fd, buffer, bytes, [=](void* to, std::size_t count, std::size_t done) {
    return CRATON_REAL(pread64)(fd, to, count, offset + static_cast<Offset>(done));
  });
}

template <typename Offset>
ssize_t write_at(int number, const char* function, const void* buffer, std::size_t bytes, Offset offset) {
  if (RemoteFile::is_one(number)) return RemoteFile(number).write(bytes, offset, take_from(buffer));
  const int fd = descriptor_here(number, function);
  return write_from(fd, buffer, bytes, [=](const void* from, std::size_t count, std::size_t done) {
    return CRATON_REAL(pwrite64)(fd, from, count, offset + static_cast<Offset>(done));
  });
}

ssize_t receive(int fd, void* buffer, std::size_t bytes, int flags, sockaddr* address,
                socklen_t* address_bytes) {
  if (!may_fault(buffer)) return CRATON_REAL(recvfrom)(fd, buffer, bytes, flags, address, address_bytes);
  const std::size_t most = craton::posix::received_at_once(fd, bytes, flags);
  PrivateBuffer copy(most);
  if (copy.data() == nullptr) return -1;
  const ssize_t got = CRATON_REAL(recvfrom)(fd, copy.data(), most, flags, address, address_bytes);
  if (got > 0) std::memcpy(buffer, copy.data(), std::min(static_cast<std::size_t>(got), most));
  return got;
}

}  // namespace

extern "C" {

// ---- read, write

[[gnu::visibility("default")]] ssize_t read(int number, void* buffer, std::size_t bytes) {
  if (RemoteFile::is_one(number)) return RemoteFile(number).read(bytes, own_offset, put_into(buffer));
  const int fd = descriptor_here(number, "read");
  return may_fault(buffer) ? read_file(fd, bytes, put_into(buffer)) : CRATON_REAL(read)(fd, buffer, bytes);
}

[[gnu::visibility("default")]] ssize_t __read_chk(int number, void* buffer, std::size_t bytes,
                                                  std::size_t room) {
  if (bytes > room) __chk_fail();
  return read(number, buffer, bytes);
}

[[gnu::visibility("default")]] ssize_t write(int number, const void* buffer, std::size_t bytes) {
  if (RemoteFile::is_one(number)) return RemoteFile(number).write(bytes, own_offset, take_from(buffer));
  const int fd = descriptor_here(number, "write");
  return may_fault(buffer) ? write_file(fd, bytes, take_from(buffer)) : CRATON_REAL(write)(fd, buffer, bytes);
}

[[gnu::visibility("default")]] ssize_t pread(int number, void* buffer, std::size_t bytes, off_t offset) {
  return read_at(number, "pread", buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t pread64(int number, void* buffer, std::size_t bytes, off64_t offset) {
  return read_at(number, "pread64", buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t __pread_chk(int number, void* buffer, std::size_t bytes, off_t offset,
                                                   std::size_t room) {
  if (bytes > room) __chk_fail();
  return pread(number, buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t __pread64_chk(int number, void* buffer, std::size_t bytes,
                                                     off64_t offset, std::size_t room) {
  if (bytes > room) __chk_fail();
  return pread64(number, buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t pwrite(int number, const void* buffer, std::size_t bytes,
                                              off_t offset) {
  return write_at(number, "pwrite", buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t pwrite64(int number, const void* buffer, std::size_t bytes,
                                                off64_t offset) {
  return write_at(number, "pwrite64", buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t readv(int number, const iovec* list, int count) {
  const Pieces pieces(list, count);
  if (RemoteFile::is_one(number)) {
    if (is_refused(pieces, count)) return -1;
    return RemoteFile(number).read(pieces.bytes(), own_offset, put_into(pieces));
  }
  const int fd = descriptor_here(number, "readv");
  if (!pieces.may_fault()) return CRATON_REAL(readv)(fd, list, count);
  if (is_refused(pieces, count)) return -1;
  return read_file(fd, pieces.bytes(), put_into(pieces));
}

[[gnu::visibility("default")]] ssize_t writev(int number, const iovec* list, int count) {
  const Pieces pieces(list, count);
  if (RemoteFile::is_one(number)) {
    if (is_refused(pieces, count)) return -1;
    return RemoteFile(number).write(pieces.bytes(), own_offset, take_from(pieces));
  }
  const int fd = descriptor_here(number, "writev");
  if (!pieces.may_fault()) return CRATON_REAL(writev)(fd, list, count);
  if (is_refused(pieces, count)) return -1;
  return write_file(fd, pieces.bytes(), take_from(pieces));
}

[[gnu::visibility("default")]] ssize_t preadv64(int number, const iovec* list, int count, off64_t offset) {
  const int fd = descriptor_here(number, "preadv");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(preadv64)(fd, list, count, offset);
  if (is_refused(pieces, count)) return -1;
  const auto read = [=](void* to, std::size_t bytes, std::size_t done) {
    return CRATON_REAL(pread64)(fd, to, bytes, offset + static_cast<off64_t>(done));
  };
  return read_in_pieces(fd, pieces.bytes(), read, put_into(pieces));
}

[[gnu::visibility("default")]] ssize_t preadv(int number, const iovec* list, int count, off_t offset) {
  return preadv64(number, list, count, offset);
}

[[gnu::visibility("default")]] ssize_t pwritev64(int number, const iovec* list, int count, off64_t offset) {
  const int fd = descriptor_here(number, "pwritev");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(pwritev64)(fd, list, count, offset);
  if (is_refused(pieces, count)) return -1;
  const auto write = [=](const void* from, std::size_t bytes, std::size_t done) {
    return CRATON_REAL(pwrite64)(fd, from, bytes, offset + static_cast<off64_t>(done));
  };
  return write_in_pieces(fd, pieces.bytes(), write, take_from(pieces));
}

[[gnu::visibility("default")]] ssize_t pwritev(int number, const iovec* list, int count, off_t offset) {
  return pwritev64(number, list, count, offset);
}

// With flags for the call alone; an offset of -1 is the file's.

[[gnu::visibility("default")]] ssize_t preadv64v2(int number, const iovec* list, int count, off64_t offset,
                                                  int flags) {
  const int fd = descriptor_here(number, "preadv2");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(preadv64v2)(fd, list, count, offset, flags);
  if (is_refused(pieces, count)) return -1;
  const auto read_at = [=](void* to, std::size_t bytes, off64_t at) {
    const iovec one{.iov_base = to, .iov_len = bytes};
    return CRATON_REAL(preadv64v2)(fd, &one, 1, at, flags);
  };
  if (offset == -1) {
    const auto read = [&](void* to, std::size_t bytes) { return read_at(to, bytes, -1); };
    return read_next(fd, pieces.bytes(), read, read_at, put_into(pieces));
  }
  const auto read = [&](void* to, std::size_t bytes, std::size_t done) {
    return read_at(to, bytes, offset + static_cast<off64_t>(done));
  };
  return read_in_pieces(fd, pieces.bytes(), read, put_into(pieces));
}

[[gnu::visibility("default")]] ssize_t preadv2(int number, const iovec* list, int count, off_t offset,
                                               int flags) {
  return preadv64v2(number, list, count, offset, flags);
}

[[gnu::visibility("default")]] ssize_t pwritev64v2(int number, const iovec* list, int count, off64_t offset,
                                                   int flags) {
  const int fd = descriptor_here(number, "pwritev2");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(pwritev64v2)(fd, list, count, offset, flags);
  if (is_refused(pieces, count)) return -1;
  const auto write_at = [=](const void* from, std::size_t bytes, off64_t at) {
    const iovec one{.iov_base = const_cast<void*>(from), .iov_len = bytes};
    return CRATON_REAL(pwritev64v2)(fd, &one, 1, at, flags);
  };
  if (offset == -1) {
    const auto write = [&](const void* from, std::size_t bytes) { return write_at(from, bytes, -1); };
    const bool at_end = (flags & RWF_APPEND) != 0 || appends(fd);
    return write_next(fd, pieces.bytes(), at_end, write, write_at, take_from(pieces));
  }
  const auto write = [&](const void* from, std::size_t bytes, std::size_t done) {
    return write_at(from, bytes, offset + static_cast<off64_t>(done));
  };
  return write_in_pieces(fd, pieces.bytes(), write, take_from(pieces));
}

[[gnu::visibility("default")]] ssize_t pwritev2(int number, const iovec* list, int count, off_t offset,
                                                int flags) {
  return pwritev64v2(number, list, count, offset, flags);
}

// ---- Sockets

[[gnu::visibility("default")]] ssize_t recvfrom(int number, void* buffer, std::size_t bytes, int flags,
                                                sockaddr* address, socklen_t* address_bytes) {
  const int fd = descriptor_here(number, "recvfrom");
  const Result room(address_bytes);
  const std::size_t used = address_bytes == nullptr ? 0 : craton::posix::address_bytes(*address_bytes);
  return receive(fd, buffer, bytes, flags, Results(address, used), room);
}

[[gnu::visibility("default")]] ssize_t __recvfrom_chk(int number, void* buffer, std::size_t bytes,
                                                      std::size_t room, int flags, sockaddr* address,
                                                      socklen_t* address_bytes) {
  if (bytes > room) __chk_fail();
  return recvfrom(number, buffer, bytes, flags, address, address_bytes);
}

[[gnu::visibility("default")]] ssize_t recv(int number, void* buffer, std::size_t bytes, int flags) {
  return receive(descriptor_here(number, "recv"), buffer, bytes, flags, nullptr, nullptr);
}

[[gnu::visibility("default")]] ssize_t __recv_chk(int number, void* buffer, std::size_t bytes,
                                                  std::size_t room, int flags) {
  if (bytes > room) __chk_fail();
  return recv(number, buffer, bytes, flags);
}

[[gnu::visibility("default")]] ssize_t sendto(int number, const void* buffer, std::size_t bytes, int flags,
                                              const sockaddr* address, socklen_t address_bytes) {
  const int fd = descriptor_here(number, "sendto");
  const Values to(address, craton::posix::address_bytes(address_bytes));
  return send_from(fd, buffer, bytes, flags, [&](const void* from, std::size_t count, std::size_t /*done*/) {
    return CRATON_REAL(sendto)(fd, from, count, flags, to, address_bytes);
  });
}

[[gnu::visibility("default")]] ssize_t send(int number, const void* buffer, std::size_t bytes, int flags) {
  const int fd = descriptor_here(number, "send");
  return send_from(fd, buffer, bytes, flags, [=](const void* from, std::size_t count, std::size_t /*done*/) {
    return CRATON_REAL(send)(fd, from, count, flags);
  });
}

// ---- Others that move bytes

[[gnu::visibility("default")]] ssize_t getrandom(void* buffer, std::size_t bytes, unsigned flags) {
  if (!may_fault(buffer)) return CRATON_REAL(getrandom)(buffer, bytes, flags);
  PrivateBuffer copy(std::min(bytes, piece_bytes));
  if (copy.data() == nullptr) return -1;
  std::size_t done = 0;
  do {
    const std::size_t wanted = std::min(bytes - done, piece_bytes);
    const ssize_t got = CRATON_REAL(getrandom)(copy.data(), wanted, flags);
    if (got < 0) return done != 0 ? static_cast<ssize_t>(done) : got;
    std::memcpy(static_cast<std::byte*>(buffer) + done, copy.data(), static_cast<std::size_t>(got));
    done += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) < wanted) break;
  } while (done < bytes);
  return static_cast<ssize_t>(done);
}

/// The C library's aborts where the kernel cannot use the memory.
[[gnu::visibility("default")]] void arc4random_buf(void* buffer, std::size_t bytes) noexcept {
  const craton::KeptErrno kept;
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = getrandom(static_cast<std::byte*>(buffer) + done, bytes - done, 0);
    if (got < 0 && errno != EINTR) std::abort();
    done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
}

[[gnu::visibility("default")]] int getentropy(void* buffer, std::size_t bytes) {
  return CRATON_REAL(getentropy)(Results(buffer, bytes), bytes);
}

[[gnu::visibility("default")]] ssize_t sendfile(int out, int in, off_t* offset, std::size_t bytes) {
  return CRATON_REAL(sendfile)(descriptor_here(out, "sendfile"), descriptor_here(in, "sendfile"),
                               Result(offset), bytes);
}

[[gnu::visibility("default")]] ssize_t sendfile64(int out, int in, off64_t* offset, std::size_t bytes) {
  return CRATON_REAL(sendfile64)(descriptor_here(out, "sendfile"), descriptor_here(in, "sendfile"),
                                 Result(offset), bytes);
}

[[gnu::visibility("default")]] ssize_t copy_file_range(int in, off64_t* in_offset, int out,
                                                       off64_t* out_offset, std::size_t bytes,
                                                       unsigned flags) {
  return CRATON_REAL(copy_file_range)(descriptor_here(in, "copy_file_range"), Result(in_offset),
                                      descriptor_here(out, "copy_file_range"), Result(out_offset), bytes,
                                      flags);
}

[[gnu::visibility("default")]] ssize_t splice(int in, off64_t* in_offset, int out, off64_t* out_offset,
                                              std::size_t bytes, unsigned flags) {
  return CRATON_REAL(splice)(descriptor_here(in, "splice"), Result(in_offset), descriptor_here(out, "splice"),
                             Result(out_offset), bytes, flags);
}

CRATON_CALL(ssize_t, tee, (int in, int out, std::size_t bytes, unsigned flags),
            (descriptor_here(in, "tee"), descriptor_here(out, "tee"), bytes, flags))

/// What may fault is copied: the pipe cannot have the program's pages.
[[gnu::visibility("default")]] ssize_t vmsplice(int number, const iovec* list, std::size_t count,
                                                unsigned flags) {
  const int fd = descriptor_here(number, "vmsplice");
  if (!Pieces(list, static_cast<int>(count)).may_fault())
    return CRATON_REAL(vmsplice)(fd, list, count, flags);
  const bool writes = (CRATON_REAL(fcntl)(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
  return writes ? writev(number, list, static_cast<int>(count))
                : readv(number, list, static_cast<int>(count));
}

}  // extern "C"
