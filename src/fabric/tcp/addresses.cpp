#include "fabric/tcp/addresses.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/host.hpp"

namespace craton::fabric::tcp {

namespace {

struct Interface {
  std::string name;
  std::string address;
  int family;
  bool loopback;
};

std::string host_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text.data(),
                text.size());
  }
  return text.data();
}

/// Interfaces that are up, IPv4 first, then IPv6 without link-local addresses (they need a scope).
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw Error::from_errno("cannot list network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family || (each->ifa_flags & IFF_UP) == 0)
        continue;
      if (family == AF_INET6 &&
          IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr)) {
        continue;
      }
      found.push_back({.name = each->ifa_name,
                       .address = host_text(each->ifa_addr),
                       .family = family,
                       .loopback = (each->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return found;
}

bool make_address(const std::string& host, std::uint16_t port, SocketAddress& address) {
  address = {};
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.bytes = sizeof v4;
    address.text = fmt::format("{}:{}", host, port);
    return true;
  }
  if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.bytes = sizeof v6;
    address.text = fmt::format("[{}]:{}", host, port);
    return true;
  }
  return false;
}

/// The address of the interface that the user named, by name or by address.
std::string chosen_address(const std::string& interface) {
  std::string known;
  for (const Interface& each : interfaces()) {
    if (each.name == interface || each.address == interface) return each.address;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each.name, each.address);
  }
  throw Error(ErrorCode::not_found, {.asked = fmt::format("cannot listen on tcp interface \"{}\"", interface),
                                     .happened = "there is no such interface or address that is up",
                                     .limit = "up are " + known,
                                     .remedy = "name one of them with --tcp-interface"});
}

std::string bind_host(const std::string& interface, bool loopback_only) {
  if (!interface.empty()) return chosen_address(interface);
  return loopback_only ? "127.0.0.1" : "0.0.0.0";
}

std::uint16_t port_of(int listener) {
  sockaddr_storage bound{};
  socklen_t bytes = sizeof bound;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    throw Error::from_errno("cannot find out the port of a tcp listener", errno);
  }
  return ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                          : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
}

}  // namespace

std::string network_identity() {
  std::string boot = boot_id();
  struct stat status {};
  // Without /proc, ranks of one host do not recognise each other, and use the addresses of interfaces.
  if (::stat("/proc/self/ns/net", &status) != 0) return boot;
  return fmt::format("{}/{}", boot, status.st_ino);
}

UniqueFd listen_somewhere(const std::string& interface, bool loopback_only) {
  const std::string host = bind_host(interface, loopback_only);
  SocketAddress address;
  make_address(host, 0, address);
  UniqueFd listener(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    throw Error::from_errno("cannot listen for tcp connections on " + host, errno, "ulimit -n");
  }
  return listener;
}

std::string describe_listener(int listener, const std::string& interface, bool loopback_only) {
  std::string hosts;
  if (!interface.empty() || loopback_only) {
    hosts = bind_host(interface, loopback_only);
  } else {
    for (const Interface& each : interfaces()) {
      if (each.loopback || each.family != AF_INET) continue;
      if (!hosts.empty()) hosts += ',';
      hosts += each.address;
    }
    if (hosts.empty()) hosts = "127.0.0.1";
  }
  return fmt::format("{};{};{}", port_of(listener), network_identity(), hosts);
}

std::vector<SocketAddress> candidates(const std::string& description) {
  const auto malformed = [&](const char* what) {
    return Error(ErrorCode::protocol,
                 {.asked = "cannot understand a rank's tcp address \"" + description + "\"",
                  .happened = what,
                  .limit = {},
                  .remedy = {}});
  };
  std::istringstream parts(description);
  std::string port_text;
  std::string identity;
  std::string hosts;
  if (!std::getline(parts, port_text, ';') || !std::getline(parts, identity, ';') ||
      !std::getline(parts, hosts)) {
    throw malformed("it has fewer than three parts");
  }
  unsigned long port = 0;
  try {
    port = std::stoul(port_text);
  } catch (const std::exception&) {
    throw malformed("its port is not a number");
  }
  if (port == 0 || port > 65535) throw malformed("its port is out of range");
  std::vector<std::string> names;
  std::istringstream host_parts(hosts);
  for (std::string host; std::getline(host_parts, host, ',');) names.push_back(host);
  // On the same network stack any of the host's addresses loops back; the loopback one needs no interface.
  const bool bound_to_all = names.size() > 1 || (names.size() == 1 && names[0] != "127.0.0.1");
  if (identity == network_identity() && bound_to_all) {
    names.emplace_back("127.0.0.1");
    std::rotate(names.begin(), names.end() - 1, names.end());
  }
  std::vector<SocketAddress> found;
  for (const std::string& host : names) {
    SocketAddress address;
    if (!make_address(host, static_cast<std::uint16_t>(port), address))
      throw malformed("an address in it is malformed");
    found.push_back(address);
  }
  if (found.empty()) throw malformed("it names no address");
  return found;
}

std::string remote_text(const sockaddr_storage& storage) {
  const auto* address = reinterpret_cast<const sockaddr*>(&storage);
  const std::uint16_t port =
      ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(storage).sin_port
                                         : reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return fmt::format("{}:{}", host_text(address), port);
}

}  // namespace craton::fabric::tcp
