/// \file
/// Doacross loops: an iteration posts that it is done, others wait for that. An iteration is numbered among
/// all those of the loop's nest; what has been posted is known for each *part* of the loop whose iterations
/// are done one after the other: a thread's (static), or a chunk (dynamic), or one of the outermost
/// iterations (guided). A post is told to all ranks of the team, after a release, so that who waits for it
/// need not ask; who has waited learns what the poster knew.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fabric/types.hpp"
#include "fiber/fiber.hpp"
#include "omp/loops.hpp"
#include "omp/message.hpp"

namespace craton::omp {

class TaskHost;
class TaskPool;

class Doacross {
 public:
  /// \param tasks whose wake() reaches all who wait in the team
  Doacross(TaskHost& host, TaskPool& tasks) noexcept : host_(host), tasks_(tasks) {}

  /// Before a region. \param first_share the number of its first work share
  void begin(const Loops::Shape& shape, std::uint64_t first_share);
  /// A thread meets such a loop. \param counts of iterations, outermost first: those that are shared out, and
  /// those of the loops inside
  void enter(const LoopPosition& position, std::span<const std::uint64_t> counts);
  /// How many numbers name an iteration of the loop.
  std::size_t dimensions(const LoopPosition& position);
  /// The iteration is done. \param iteration a number for each loop, from 0
  void post(const LoopPosition& position, std::span<const std::uint64_t> iteration);
  /// Blocks until the iteration is done, and sees what it wrote.
  void wait(const LoopPosition& position, std::span<const std::uint64_t> iteration);
  /// A thread has left the loop.
  void end(std::uint64_t share);

  /// In a handler.
  void arrived(fabric::Rank source, const Message& message);

 private:
  struct Part {
    std::atomic<std::uint64_t> posted{0};  ///< iterations of the nest up to the last one that is done
    std::atomic<std::uint64_t> learnt{0};  ///< so far, this rank has learnt what the poster knew
    std::atomic<fabric::Rank> from{0};     ///< who posts
  };
  /// A loop, on this rank.
  struct Nest {
    std::vector<std::uint64_t> counts;  ///< empty: no thread of this rank has met it yet
    std::map<std::uint64_t, Part> parts;
    std::uint32_t ended = 0;  ///< threads that have left it
  };
  struct Place {
    std::uint64_t iteration;  ///< of the nest
    std::uint64_t part;
    Part* state;
  };
  Place place_of(const LoopPosition& position, std::span<const std::uint64_t> iteration);
  std::uint64_t part_of(const Loop& loop, std::uint64_t iteration) const noexcept;

  TaskHost& host_;
  TaskPool& tasks_;
  Loops::Shape shape_;
  fiber::Mutex lock_;
  std::map<std::uint64_t, Nest> nests_;  ///< by the number of the work share; with the lock
  std::uint64_t ended_ = 0;              ///< no thread of this rank is in a work share up to this one
};

}  // namespace craton::omp
