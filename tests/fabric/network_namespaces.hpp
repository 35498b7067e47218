/// \file
/// Two network namespaces joined by a veth pair, for tests of what crosses a network. They have no names and
/// belong to two processes of the test, so that they are gone when the test is, however it ends.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>

#include "base/unique_fd.hpp"

namespace craton::fabric::conformance {

class NetworkNamespaces {
 public:
  /// Makes them, or finds out why that is not allowed here. Takes some 50 ms. Needs root and the `ip`
  /// command.
  NetworkNamespaces();
  ~NetworkNamespaces();
  NetworkNamespaces(const NetworkNamespaces&) = delete;
  NetworkNamespaces& operator=(const NetworkNamespaces&) = delete;

  /// Empty if they can be used.
  const std::string& reason_why_not() const noexcept { return reason_; }
  /// Moves the calling process, which has one thread, into one of them. \throws Error
  void enter(unsigned which) const;

 private:
  /// A process that keeps a namespace alive.
  struct Holder {
    pid_t pid = -1;
    UniqueFd socket;
    UniqueFd net;
  };
  bool start(Holder& holder, unsigned which);
  bool hear(const Holder& holder, const char* what);

  std::string reason_;
  std::array<Holder, 2> holders_;
};

}  // namespace craton::fabric::conformance
