/// \file
/// What a pool of tasks needs of its rank: messages, memory that others learn, and waiting. A running rank
/// has it from the fabric, the space and the kernel (rank_team.cpp), the schedules of tests/teams from the
/// simulator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/types.hpp"
#include "omp/message.hpp"

namespace craton::omp {

class TaskHost {
 public:
  TaskHost() = default;
  TaskHost(const TaskHost&) = delete;
  TaskHost& operator=(const TaskHost&) = delete;
  virtual ~TaskHost() = default;

  virtual fabric::Rank rank() const noexcept = 0;
  /// Of the job.
  virtual fabric::Rank ranks() const noexcept = 0;
  virtual std::uint32_t threads_a_rank() const noexcept = 0;
  virtual TimeNs now_ns() const noexcept = 0;

  /// Has TaskPool::arrived() called at a rank, in the order in which this one sends. To the dead: who waits
  /// will notice. Blocks where there is no room, and runs handlers meanwhile.
  virtual void send(fabric::Rank to, const Message& message) = 0;
  /// Runs the handlers of what has come.
  virtual void serve() = 0;
  /// What this rank has written until now is there for those who learn from it.
  virtual void publish() = 0;
  /// What that rank published is there to be seen.
  virtual void learn(fabric::Rank rank) = 0;
  virtual void flush_output() = 0;
  /// The memory that an ended task's block lay in.
  virtual void give_block(void* block, std::size_t bytes) = 0;
  /// Whether what the calling thread runs is cancelled.
  virtual bool is_cancelled() const noexcept = 0;

  /// Blocks until the condition holds, which is looked at again after each message and each notify_fabric().
  /// Ends the job where a rank is lost.
  virtual void wait_in_fabric(FunctionRef<bool()> condition) = 0;
  virtual void notify_fabric() noexcept = 0;
  /// The same among the rank's threads: it is looked at again after each open_gate().
  virtual void wait_at_gate(FunctionRef<bool()> condition) = 0;
  virtual void open_gate() noexcept = 0;
};

}  // namespace craton::omp
