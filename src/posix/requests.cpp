// Requests to devices and files (ioctl), and options of sockets: their arguments are memory of which only
// some tell the size, and some point to more.
#include <linux/ethtool.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/pages.hpp"

namespace {

using craton::posix::descriptor_here;
using craton::posix::may_fault;
using craton::posix::page_bytes;
using craton::posix::Result;
using craton::posix::Results;
using craton::posix::Values;

/// What nothing tells the size of is no larger.
constexpr std::size_t untold_bytes = 4096;
/// Nor is what a network interface says of itself.
constexpr std::size_t interface_bytes = std::size_t{64} * 1024;
/// Values of options and lists have no more room than this, whatever the program tells.
constexpr std::size_t value_bytes_most = std::size_t{16} * 1024 * 1024;

/// So much of `bytes` from there on is memory that may fault.
std::size_t shared_bytes(const void* begin, std::size_t bytes) noexcept {
  const auto* const first = static_cast<const std::byte*>(begin);
  std::size_t shared = 0;
  while (shared < bytes && may_fault(first + shared)) {
    const auto at = reinterpret_cast<std::uintptr_t>(first + shared);
    shared += page_bytes - at % page_bytes;
  }
  return std::min(shared, bytes);
}

/// What the kernel uses of the argument. The size that a request tells is that of the head only, where a list
/// follows; such lists that are not known here have what is behind the head.
std::size_t argument_bytes(unsigned long request, const void* argument) noexcept {
  std::size_t told = _IOC_DIR(request) == _IOC_NONE ? 0 : _IOC_SIZE(request);
  if (request == FS_IOC_FIEMAP) {
    told += sizeof(fiemap_extent) * static_cast<const fiemap*>(argument)->fm_extent_count;
  } else if (request == FIDEDUPERANGE) {
    told += sizeof(file_dedupe_range_info) * static_cast<const file_dedupe_range*>(argument)->dest_count;
  } else if (request == FS_IOC_GETFSMAP) {
    told += sizeof(fsmap) * static_cast<const fsmap_head*>(argument)->fmh_count;
  }
  return std::max(told, shared_bytes(argument, untold_bytes));
}

int list_interfaces(int fd, ifconf& list) {
  ifconf own = list;
  own.ifc_len =
      static_cast<int>(std::min(static_cast<std::size_t>(std::max(list.ifc_len, 0)), value_bytes_most));
  const Results entries(list.ifc_buf, static_cast<std::size_t>(own.ifc_len));
  own.ifc_buf = entries;
  const int result = CRATON_REAL(ioctl)(fd, SIOCGIFCONF, &own);
  if (result == 0) list.ifc_len = own.ifc_len;
  return result;
}

int ask_interface(int fd, const ifreq& request) {
  ifreq own = request;
  const Results data(request.ifr_data, shared_bytes(request.ifr_data, interface_bytes));
  own.ifr_data = data;
  return CRATON_REAL(ioctl)(fd, SIOCETHTOOL, &own);
}

/// An argument of ioctl() is a number, or memory.
int control(int fd, unsigned long request, void* argument) {
  if (request == SIOCGIFCONF && argument != nullptr)
    return list_interfaces(fd, *static_cast<ifconf*>(argument));
  if (request == SIOCETHTOOL && argument != nullptr) return ask_interface(fd, *static_cast<ifreq*>(argument));
  if (!may_fault(argument)) return CRATON_REAL(ioctl)(fd, request, argument);
  return CRATON_REAL(ioctl)(fd, request,
                            static_cast<void*>(Results(argument, argument_bytes(request, argument))));
}

std::size_t value_room(const socklen_t* bytes) noexcept {
  return bytes == nullptr || static_cast<int>(*bytes) < 0 ? 0
                                                          : std::min<std::size_t>(*bytes, value_bytes_most);
}

bool has_filter(int level, int name, socklen_t bytes) noexcept {
  return level == SOL_SOCKET && (name == SO_ATTACH_FILTER || name == SO_ATTACH_REUSEPORT_CBPF) &&
         bytes == sizeof(sock_fprog);
}

int attach_filter(int fd, int name, sock_fprog program) {
  const Values instructions(program.filter, program.len * sizeof *program.filter);
  program.filter = const_cast<sock_filter*>(static_cast<const sock_filter*>(instructions));
  return CRATON_REAL(setsockopt)(fd, SOL_SOCKET, name, &program, sizeof program);
}

}  // namespace

#define CRATON_FD(name) descriptor_here(fd, #name)

extern "C" {

[[gnu::visibility("default")]] int ioctl(int fd, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return control(CRATON_FD(ioctl), request, argument);
}

CRATON_CALL(int, getsockopt, (int fd, int level, int name, void* value, socklen_t* bytes),
            (CRATON_FD(getsockopt), level, name, Results(value, value_room(bytes)), Result(bytes)))

[[gnu::visibility("default")]] int setsockopt(int fd, int level, int name, const void* value,
                                              socklen_t bytes) {
  const int here = CRATON_FD(setsockopt);
  if (value != nullptr && has_filter(level, name, bytes))
    return attach_filter(here, name, *static_cast<const sock_fprog*>(value));
  return CRATON_REAL(setsockopt)(here, level, name, Values(value, value_room(&bytes)), bytes);
}

}  // extern "C"
