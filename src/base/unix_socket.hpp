/// \file
/// Unix sockets whose names are in the abstract namespace: they leave no file, whatever happens. Everybody on
/// the host sees such a name and can take it, so whoever connects or accepts looks who is on the other side.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string_view>

namespace craton {

/// As bind() and connect() take it.
class AbstractAddress {
 public:
  static constexpr std::size_t name_bytes_most = sizeof(sockaddr_un::sun_path) - 1;

  /// \param name at most name_bytes_most bytes: callers look before, where it comes from outside
  explicit AbstractAddress(std::string_view name) noexcept;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t bytes() const noexcept { return bytes_; }

 private:
  sockaddr_un address_{};
  socklen_t bytes_;
};

/// Whether the process at the other end of a connected Unix socket runs, or ran when it listened or
/// connected, as the user that this process runs as.
bool is_same_user(int socket) noexcept;

}  // namespace craton
