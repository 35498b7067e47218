/// \file
/// What a rank tells of its writes, and hears of others', where memory is handed on otherwise than by a mutex
/// or a barrier. A running rank has it from its space, the schedules of tests/space from the simulator.
#pragma once

#include <vector>

#include "fabric/types.hpp"

namespace craton::space {

/// All of it: any thread; blocks. \throws Error peer_lost
class Learning {
 public:
  Learning() = default;
  Learning(const Learning&) = delete;
  Learning& operator=(const Learning&) = delete;
  virtual ~Learning() = default;

  /// A release that others can learn of by learn().
  virtual void publish() = 0;
  /// Acquires what these ranks, which are asked together, have published so far.
  virtual void learn(std::vector<fabric::Rank> ranks) = 0;
  virtual void learn_from_all() = 0;
};

}  // namespace craton::space
