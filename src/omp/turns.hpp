/// \file
/// Whose turn it is in the ordered parts of loops. The turn is the number of an iteration: the first one
/// whose ordered part is not done. Who has the chunk that begins there may go on; it passes the turn on when
/// it is done with the chunk: within the rank by memory, to other ranks by a message after a release.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "fabric/types.hpp"
#include "fiber/fiber.hpp"
#include "omp/loops.hpp"
#include "omp/message.hpp"

namespace craton::omp {

class TaskHost;
class TaskPool;

class Turns {
 public:
  /// \param tasks whose wake() reaches all who wait in the team
  Turns(TaskHost& host, TaskPool& tasks) noexcept : host_(host), tasks_(tasks) {}

  /// Before a region. \param first_share the number of its first work share
  void begin(const Loops::Shape& shape, std::uint64_t first_share, std::uint32_t region);

  /// Blocks until it is the turn of a chunk, and sees what the ordered parts before it wrote.
  void wait(const LoopPosition& position);
  /// The chunk is done: waits for its turn, if it was not waited for, and passes it on.
  void pass(const LoopPosition& position, std::uint32_t thread_number);
  /// A thread has left the loop.
  void end(std::uint64_t share);

  /// In a handler.
  void arrived(fabric::Rank source, const Message& message);

 private:
  /// Of a loop, on this rank.
  struct Turn {
    std::atomic<std::uint64_t> iteration{0};
    std::atomic<fabric::Rank> from{0};  ///< who had it before; this rank, once that is known here
    std::uint32_t ended = 0;            ///< threads that have left the loop; with the lock
  };
  Turn& turn_of(std::uint64_t share);
  /// The rank that has the chunk that begins where this one ends; all of them, if that is not known.
  fabric::Rank next_rank(const LoopPosition& position, std::uint32_t thread_number) const noexcept;
  void send(fabric::Rank to, std::uint64_t share, std::uint64_t iteration);

  static constexpr fabric::Rank any_rank = ~fabric::Rank{0};

  TaskHost& host_;
  TaskPool& tasks_;
  Loops::Shape shape_;
  std::uint32_t region_ = 0;
  fiber::Mutex lock_;
  std::map<std::uint64_t, Turn> turns_;
  std::uint64_t ended_ = 0;  ///< no thread of this rank is in a work share up to this one
};

}  // namespace craton::omp
