// Reading and writing: through private memory where the program's is shared (kernel_memory.hpp), in pieces.
// Long transfers of files are whole; of pipes and sockets a read may be short, as it always may.
#include <fcntl.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"

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
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::descriptor_here;
using craton::posix::may_fault;
using craton::posix::piece_bytes;
using craton::posix::Pieces;
using craton::posix::PrivateBuffer;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::Value;
using craton::posix::Values;

/// A receiver that asks for more than this at a time gets it in parts.
constexpr std::size_t message_bytes_most = std::size_t{1024} * 1024;

bool is_file(int fd) noexcept {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

/// Whether each call is a message, which no one may split.
bool keeps_messages(int fd) noexcept {
  int type = 0;
  socklen_t bytes = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type != SOCK_STREAM;
}

/// \param read (to, bytes, done) as read(2) \param put (from, bytes, done) has the program's memory
template <typename Read, typename Put>
ssize_t read_in_pieces(int fd, std::size_t bytes, Read read, Put put) {
  PrivateBuffer piece(std::min(bytes, piece_bytes));
  if (piece.data() == nullptr) return -1;
  std::size_t done = 0;
  do {
    const std::size_t wanted = std::min(bytes - done, piece_bytes);
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
  const std::size_t most = bytes > piece_bytes && keeps_messages(fd) ? bytes : piece_bytes;
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

template <typename Read>
ssize_t read_into(int fd, void* buffer, std::size_t bytes, Read read) {
  if (!may_fault(buffer)) return read(buffer, bytes, 0);
  return read_in_pieces(fd, bytes, read, [buffer](const void* from, std::size_t count, std::size_t done) {
    std::memcpy(static_cast<std::byte*>(buffer) + done, from, count);
  });
}

template <typename Write>
ssize_t write_from(int fd, const void* buffer, std::size_t bytes, Write write) {
  if (!may_fault(buffer)) return write(buffer, bytes, 0);
  return write_in_pieces(fd, bytes, write, [buffer](void* to, std::size_t count, std::size_t done) {
    std::memcpy(to, static_cast<const std::byte*>(buffer) + done, count);
  });
}

template <typename Offset>
ssize_t read_at(int fd, void* buffer, std::size_t bytes, Offset offset) {
  return read_into(fd, buffer, bytes, [=](void* to, std::size_t count, std::size_t done) {
    return CRATON_REAL(pread64)(fd, to, count, offset + static_cast<Offset>(done));
  });
}

template <typename Offset>
ssize_t write_at(int fd, const void* buffer, std::size_t bytes, Offset offset) {
  return write_from(fd, buffer, bytes, [=](const void* from, std::size_t count, std::size_t done) {
    return CRATON_REAL(pwrite64)(fd, from, count, offset + static_cast<Offset>(done));
  });
}

template <typename Read>
ssize_t read_pieces(int fd, const Pieces& pieces, Read read) {
  return read_in_pieces(fd, pieces.bytes(), read,
                        [&pieces](const void* from, std::size_t count, std::size_t done) {
                          pieces.scatter(from, done, count);
                        });
}

template <typename Write>
ssize_t write_pieces(int fd, const Pieces& pieces, Write write) {
  return write_in_pieces(fd, pieces.bytes(), write, [&pieces](void* to, std::size_t count, std::size_t done) {
    pieces.gather(to, done, count);
  });
}

ssize_t receive(int fd, void* buffer, std::size_t bytes, int flags, sockaddr* address,
                socklen_t* address_bytes) {
  if (!may_fault(buffer)) return CRATON_REAL(recvfrom)(fd, buffer, bytes, flags, address, address_bytes);
  const std::size_t most = (flags & MSG_WAITALL) != 0 ? bytes : std::min(bytes, message_bytes_most);
  PrivateBuffer copy(most);
  if (copy.data() == nullptr) return -1;
  const ssize_t got = CRATON_REAL(recvfrom)(fd, copy.data(), most, flags, address, address_bytes);
  if (got > 0) std::memcpy(buffer, copy.data(), std::min(static_cast<std::size_t>(got), most));
  return got;
}

bool may_fault(const msghdr& message, const Pieces& pieces) noexcept {
  return pieces.may_fault() || may_fault(message.msg_name) || may_fault(message.msg_control);
}

}  // namespace

extern "C" {

// ---- read, write

[[gnu::visibility("default")]] ssize_t read(int number, void* buffer, std::size_t bytes) {
  const int fd = descriptor_here(number, "read");
  return read_into(fd, buffer, bytes, [fd](void* to, std::size_t count, std::size_t /*done*/) {
    return CRATON_REAL(read)(fd, to, count);
  });
}

[[gnu::visibility("default")]] ssize_t __read_chk(int number, void* buffer, std::size_t bytes,
                                                  std::size_t room) {
  if (bytes > room) __chk_fail();
  return read(number, buffer, bytes);
}

[[gnu::visibility("default")]] ssize_t write(int number, const void* buffer, std::size_t bytes) {
  const int fd = descriptor_here(number, "write");
  return write_from(fd, buffer, bytes, [fd](const void* from, std::size_t count, std::size_t /*done*/) {
    return CRATON_REAL(write)(fd, from, count);
  });
}

[[gnu::visibility("default")]] ssize_t pread(int number, void* buffer, std::size_t bytes, off_t offset) {
  return read_at(descriptor_here(number, "pread"), buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t pread64(int number, void* buffer, std::size_t bytes, off64_t offset) {
  return read_at(descriptor_here(number, "pread64"), buffer, bytes, offset);
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
  return write_at(descriptor_here(number, "pwrite"), buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t pwrite64(int number, const void* buffer, std::size_t bytes,
                                                off64_t offset) {
  return write_at(descriptor_here(number, "pwrite64"), buffer, bytes, offset);
}

[[gnu::visibility("default")]] ssize_t readv(int number, const iovec* list, int count) {
  const int fd = descriptor_here(number, "readv");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(readv)(fd, list, count);
  return read_pieces(fd, pieces, [fd](void* to, std::size_t bytes, std::size_t /*done*/) {
    return CRATON_REAL(read)(fd, to, bytes);
  });
}

[[gnu::visibility("default")]] ssize_t writev(int number, const iovec* list, int count) {
  const int fd = descriptor_here(number, "writev");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(writev)(fd, list, count);
  return write_pieces(fd, pieces, [fd](const void* from, std::size_t bytes, std::size_t /*done*/) {
    return CRATON_REAL(write)(fd, from, bytes);
  });
}

[[gnu::visibility("default")]] ssize_t preadv64(int number, const iovec* list, int count, off64_t offset) {
  const int fd = descriptor_here(number, "preadv");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(preadv64)(fd, list, count, offset);
  return read_pieces(fd, pieces, [=](void* to, std::size_t bytes, std::size_t done) {
    return CRATON_REAL(pread64)(fd, to, bytes, offset + static_cast<off64_t>(done));
  });
}

[[gnu::visibility("default")]] ssize_t preadv(int number, const iovec* list, int count, off_t offset) {
  return preadv64(number, list, count, offset);
}

[[gnu::visibility("default")]] ssize_t pwritev64(int number, const iovec* list, int count, off64_t offset) {
  const int fd = descriptor_here(number, "pwritev");
  const Pieces pieces(list, count);
  if (!pieces.may_fault()) return CRATON_REAL(pwritev64)(fd, list, count, offset);
  return write_pieces(fd, pieces, [=](const void* from, std::size_t bytes, std::size_t done) {
    return CRATON_REAL(pwrite64)(fd, from, bytes, offset + static_cast<off64_t>(done));
  });
}

[[gnu::visibility("default")]] ssize_t pwritev(int number, const iovec* list, int count, off_t offset) {
  return pwritev64(number, list, count, offset);
}

// ---- Sockets

[[gnu::visibility("default")]] ssize_t recvfrom(int number, void* buffer, std::size_t bytes, int flags,
                                                sockaddr* address, socklen_t* address_bytes) {
  const int fd = descriptor_here(number, "recvfrom");
  const Result room(address_bytes);
  return receive(fd, buffer, bytes, flags, Results(address, address_bytes == nullptr ? 0 : *address_bytes),
                 room);
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
  const Values to(address, address_bytes);
  return write_from(fd, buffer, bytes, [&](const void* from, std::size_t count, std::size_t /*done*/) {
    return CRATON_REAL(sendto)(fd, from, count, flags, to, address_bytes);
  });
}

[[gnu::visibility("default")]] ssize_t send(int number, const void* buffer, std::size_t bytes, int flags) {
  const int fd = descriptor_here(number, "send");
  return write_from(fd, buffer, bytes, [=](const void* from, std::size_t count, std::size_t /*done*/) {
    return CRATON_REAL(send)(fd, from, count, flags);
  });
}

[[gnu::visibility("default")]] ssize_t recvmsg(int number, msghdr* message, int flags) {
  const int fd = descriptor_here(number, "recvmsg");
  const Result own(message);
  msghdr* const used = own;
  const Pieces pieces(used->msg_iov, static_cast<int>(used->msg_iovlen));
  if (!may_fault(*used, pieces)) return CRATON_REAL(recvmsg)(fd, used, flags);
  const std::size_t most =
      (flags & MSG_WAITALL) != 0 ? pieces.bytes() : std::min(pieces.bytes(), message_bytes_most);
  PrivateBuffer copy(most);
  if (copy.data() == nullptr) return -1;
  ssize_t got = 0;
  {
    const Results name(used->msg_name, used->msg_namelen);
    const Results control(used->msg_control, used->msg_controllen);
    iovec whole{.iov_base = copy.data(), .iov_len = most};
    msghdr shadow = *used;
    shadow.msg_name = name;
    shadow.msg_control = control;
    shadow.msg_iov = &whole;
    shadow.msg_iovlen = 1;
    got = CRATON_REAL(recvmsg)(fd, &shadow, flags);
    if (got >= 0) {
      used->msg_namelen = shadow.msg_namelen;
      used->msg_controllen = shadow.msg_controllen;
      used->msg_flags = shadow.msg_flags;
    }
  }
  if (got > 0) pieces.scatter(copy.data(), 0, std::min(static_cast<std::size_t>(got), most));
  return got;
}

[[gnu::visibility("default")]] ssize_t sendmsg(int number, const msghdr* message, int flags) {
  const int fd = descriptor_here(number, "sendmsg");
  const Value own(message);
  const msghdr* const used = own;
  const Pieces pieces(used->msg_iov, static_cast<int>(used->msg_iovlen));
  if (!may_fault(*used, pieces)) return CRATON_REAL(sendmsg)(fd, used, flags);
  const Values name(used->msg_name, used->msg_namelen);
  const Values control(used->msg_control, used->msg_controllen);
  PrivateBuffer copy(pieces.bytes());
  if (copy.data() == nullptr) return -1;
  pieces.gather(copy.data(), 0, pieces.bytes());
  iovec whole{.iov_base = copy.data(), .iov_len = pieces.bytes()};
  msghdr shadow = *used;
  shadow.msg_name = const_cast<void*>(static_cast<const void*>(name));
  shadow.msg_control = const_cast<void*>(static_cast<const void*>(control));
  shadow.msg_iov = &whole;
  shadow.msg_iovlen = 1;
  return CRATON_REAL(sendmsg)(fd, &shadow, flags);
}

// ---- Others that move bytes

[[gnu::visibility("default")]] ssize_t getrandom(void* buffer, std::size_t bytes, unsigned flags) {
  if (!may_fault(buffer)) return CRATON_REAL(getrandom)(buffer, bytes, flags);
  PrivateBuffer copy(std::min(bytes, piece_bytes));
  if (copy.data() == nullptr) return -1;
  const ssize_t got = CRATON_REAL(getrandom)(copy.data(), std::min(bytes, piece_bytes), flags);
  if (got > 0) std::memcpy(buffer, copy.data(), static_cast<std::size_t>(got));
  return got;
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

CRATON_CALL(int, msgsnd, (int queue, const void* message, std::size_t bytes, int flags),
            (queue, Values(message, bytes + sizeof(long)), bytes, flags))

CRATON_CALL(ssize_t, msgrcv, (int queue, void* message, std::size_t bytes, long type, int flags),
            (queue, Results(message, bytes + sizeof(long)), bytes, type, flags))

}  // extern "C"
