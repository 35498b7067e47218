/// \file
/// A thread that looks again and again at a place for what another does there, in a loop of the program's
/// own, and nothing else: it may wait between two looks. (Polling is of those that flush in such a loop.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/clock.hpp"

namespace craton::omp {

/// The decision alone, of one thread. Knows the few places that it looked at last: a loop may wait for either
/// of two.
class Looking {
 public:
  /// Less than this a thread does between two looks of one wait.
  static constexpr TimeNs longest_gap_ns = 5'000;
  static constexpr TimeNs shortest_wait_ns = 50'000;

  /// \param turn what is the same in each turn of a loop, and differs when the thread comes to it again: what
  /// it then finds may be what it wants, and was what it wanted before
  /// \param begin of what it has found, up to 8 bytes
  /// \returns how long it is to wait for something else to be there: a part of what it has waited already, so
  /// that what is not seen at once is late by that part of it; 0: not at all
  TimeNs found(std::uint64_t turn, std::span<const std::byte> begin, TimeNs now_ns, TimeNs longest_wait_ns,
               TimeNs part) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, begin.data(), begin.size());
    const auto known =
        std::find_if(looks_.begin(), looks_.end(), [=](const Look& look) { return look.turn == turn; });
    Look& look = known != looks_.end() ? *known : looks_[next_++ % looks_.size()];
    const bool is_in_vain =
        known != looks_.end() && look.value == value && now_ns - last_ns_ <= longest_gap_ns;
    if (!is_in_vain) look = {.turn = turn, .value = value, .began_ns = now_ns};
    last_ns_ = now_ns;
    return is_in_vain ? std::clamp((now_ns - look.began_ns) / part, shortest_wait_ns, longest_wait_ns) : 0;
  }
  /// When the look is over.
  void ended(TimeNs now_ns) noexcept { last_ns_ = now_ns; }

 private:
  struct Look {
    std::uint64_t turn = 0;
    std::uint64_t value = 0;
    TimeNs began_ns = 0;  ///< to find this value
  };

  std::array<Look, 4> looks_{};
  std::size_t next_ = 0;
  TimeNs last_ns_ = 0;
};

}  // namespace craton::omp
