// Messages with a header: their parts go through private memory where the program's is shared
// (kernel_memory.hpp), and descriptors that they carry have the program's numbers (descriptors.hpp).
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"

namespace {

using craton::posix::address_bytes;
using craton::posix::descriptor_here;
using craton::posix::descriptor_made;
using craton::posix::may_fault;
using craton::posix::Pieces;
using craton::posix::PrivateBuffer;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::Value;
using craton::posix::Values;

/// Changes each number of a descriptor that a message carries.
template <typename Change>
void for_each_descriptor(msghdr& message, Change change) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    unsigned char* const numbers = CMSG_DATA(part);
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int number = 0;
      std::memcpy(&number, numbers + at, sizeof number);
      number = change(number);
      std::memcpy(numbers + at, &number, sizeof number);
    }
  }
}

bool may_fault(const msghdr& message, const Pieces& pieces) noexcept {
  return pieces.may_fault() || may_fault(message.msg_name) || may_fault(message.msg_control);
}

/// \param message not in memory that may fault, though what it points to is
ssize_t receive_copy(int fd, msghdr& message, const Pieces& pieces, int flags) {
  const std::size_t most = craton::posix::received_at_once(fd, pieces.bytes(), flags);
  PrivateBuffer copy(most);
  if (copy.data() == nullptr) return -1;
  ssize_t got = 0;
  {
    const Results name(message.msg_name, address_bytes(message.msg_namelen));
    const Results control(message.msg_control, message.msg_controllen);
    iovec whole{.iov_base = copy.data(), .iov_len = most};
    msghdr shadow = message;
    shadow.msg_name = name;
    shadow.msg_control = control;
    shadow.msg_iov = &whole;
    shadow.msg_iovlen = 1;
    got = CRATON_REAL(recvmsg)(fd, &shadow, flags);
    if (got >= 0) {
      for_each_descriptor(shadow, descriptor_made);
      message.msg_namelen = shadow.msg_namelen;
      message.msg_controllen = shadow.msg_controllen;
      message.msg_flags = shadow.msg_flags;
    }
  }
  if (got > 0) pieces.scatter(copy.data(), 0, std::min(static_cast<std::size_t>(got), most));
  return got;
}

/// What is left until `end`, as recvmmsg() says it; nothing is 0.
timespec time_until(const timespec& end) noexcept {
  constexpr long second_ns = 1'000'000'000;
  timespec now{};
  CRATON_REAL(clock_gettime)(CLOCK_MONOTONIC, &now);
  timespec left{.tv_sec = end.tv_sec - now.tv_sec, .tv_nsec = end.tv_nsec - now.tv_nsec};
  if (left.tv_nsec < 0) {
    left.tv_nsec += second_ns;
    --left.tv_sec;
  }
  return left.tv_sec < 0 ? timespec{} : left;
}

timespec time_after(const timespec& wait) noexcept {
  constexpr long second_ns = 1'000'000'000;
  timespec end{};
  CRATON_REAL(clock_gettime)(CLOCK_MONOTONIC, &end);
  end.tv_sec += wait.tv_sec + (end.tv_nsec + wait.tv_nsec) / second_ns;
  end.tv_nsec = (end.tv_nsec + wait.tv_nsec) % second_ns;
  return end;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] ssize_t recvmsg(int number, msghdr* message, int flags) {
  const int fd = descriptor_here(number, "recvmsg");
  const Result own(message);
  msghdr* const used = own;
  const Pieces pieces(used->msg_iov, static_cast<int>(used->msg_iovlen));
  if (may_fault(*used, pieces)) return receive_copy(fd, *used, pieces, flags);
  const ssize_t got = CRATON_REAL(recvmsg)(fd, used, flags);
  if (got >= 0) for_each_descriptor(*used, descriptor_made);
  return got;
}

[[gnu::visibility("default")]] ssize_t sendmsg(int number, const msghdr* message, int flags) {
  const int fd = descriptor_here(number, "sendmsg");
  const Value own(message);
  const msghdr* const used = own;
  const Pieces pieces(used->msg_iov, static_cast<int>(used->msg_iovlen));
  if (!may_fault(*used, pieces) && used->msg_controllen == 0) return CRATON_REAL(sendmsg)(fd, used, flags);
  const Values name(used->msg_name, address_bytes(used->msg_namelen));
  PrivateBuffer control(used->msg_controllen);
  const bool is_read_later = (flags & MSG_ZEROCOPY) != 0;
  PrivateBuffer copy(pieces.bytes(), is_read_later ? PrivateBuffer::Life::once : PrivateBuffer::Life::call);
  if (control.data() == nullptr || copy.data() == nullptr) return -1;
  pieces.gather(copy.data(), 0, pieces.bytes());
  iovec whole{.iov_base = copy.data(), .iov_len = pieces.bytes()};
  msghdr shadow = *used;
  shadow.msg_name = const_cast<void*>(static_cast<const void*>(name));
  shadow.msg_iov = &whole;
  shadow.msg_iovlen = 1;
  if (used->msg_controllen != 0 && used->msg_control != nullptr) {
    std::memcpy(control.data(), used->msg_control, used->msg_controllen);
    shadow.msg_control = control.data();
    for_each_descriptor(shadow, [](int each) { return descriptor_here(each, "sendmsg"); });
  }
  return CRATON_REAL(sendmsg)(fd, &shadow, flags);
}

// ---- Several at a time: one after the other

[[gnu::visibility("default")]] int sendmmsg(int number, mmsghdr* messages, unsigned count, int flags) {
  unsigned done = 0;
  for (; done < count; ++done) {
    const ssize_t sent = sendmsg(number, &messages[done].msg_hdr, flags);
    if (sent < 0) break;
    messages[done].msg_len = static_cast<unsigned>(sent);
  }
  return done == 0 && count != 0 ? -1 : static_cast<int>(done);
}

[[gnu::visibility("default")]] int recvmmsg(int number, mmsghdr* messages, unsigned count, int flags,
                                            timespec* timeout) {
  const timespec end = timeout == nullptr ? timespec{} : time_after(*timeout);
  unsigned done = 0;
  while (done < count) {
    const ssize_t got = recvmsg(number, &messages[done].msg_hdr, flags & ~MSG_WAITFORONE);
    if (got < 0) break;
    messages[done++].msg_len = static_cast<unsigned>(got);
    if ((flags & MSG_WAITFORONE) != 0) flags |= MSG_DONTWAIT;
    if (timeout == nullptr) continue;
    *timeout = time_until(end);
    if (timeout->tv_sec == 0 && timeout->tv_nsec == 0) break;
  }
  return done == 0 && count != 0 ? -1 : static_cast<int>(done);
}

}  // extern "C"
