#include "base/unix_socket.hpp"

#include <unistd.h>

#include <cstring>

#include "base/assert.hpp"

namespace craton {

AbstractAddress::AbstractAddress(std::string_view name) noexcept
    : bytes_(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
  CRATON_ASSERT(name.size() <= name_bytes_most);
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path + 1, name.data(), name.size());
}

bool is_same_user(int socket) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

}  // namespace craton
