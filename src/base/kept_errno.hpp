/// \file
/// errno as it was at the beginning of a scope: programs set it to 0, call what does not change it where it
/// succeeds, and look at it.
#pragma once

#include <cerrno>

namespace craton {

class KeptErrno {
 public:
  KeptErrno() = default;
  KeptErrno(const KeptErrno&) = delete;
  KeptErrno& operator=(const KeptErrno&) = delete;
  ~KeptErrno() { errno = value_; }

 private:
  const int value_ = errno;
};

}  // namespace craton
