/// \file
/// What is to be done at the end of a scope however it ends; for what no class of its own owns.
#pragma once

#include <utility>

namespace craton {

template <typename Do>
class ScopeExit {
 public:
  explicit ScopeExit(Do at_exit) noexcept : do_(std::move(at_exit)) {}
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;
  ~ScopeExit() { do_(); }

 private:
  Do do_;
};

}  // namespace craton
