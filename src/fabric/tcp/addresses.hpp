/// \file
/// Where a rank listens, and how others find it: host identity, port, and the addresses to try, best first.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace craton::fabric::tcp {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  std::string text;  ///< as a person writes it, with the port
};

/// What identifies a network stack: boot id and network namespace. Ranks with the same one reach each other
/// over the loopback address.
std::string network_identity();

/// Opens a listening socket, non-blocking, on a free port.
/// \param interface an interface name or an address; empty: all interfaces
/// \param loopback_only every rank of the job is on this host
/// \throws Error not_found for an unknown interface, out_of_resources
UniqueFd listen_somewhere(const std::string& interface, bool loopback_only);

/// The text that peers turn into candidates: `port;identity;address,address,...`
std::string describe_listener(int listener, const std::string& interface, bool loopback_only);

/// The addresses at which the described listener may be reached from here, best first.
/// \throws Error protocol for a malformed description
std::vector<SocketAddress> candidates(const std::string& description);

/// For messages: the other end of an accepted connection.
std::string remote_text(const sockaddr_storage& storage);

}  // namespace craton::fabric::tcp
