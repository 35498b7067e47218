/// \file
/// What is put off needs of its rank: words of other ranks, a thread for what is late, and the program's
/// variables. A running program's ranks have it from the runtime (rank_updates.hpp), the schedules of
/// tests/teams from the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/function_ref.hpp"
#include "fabric/types.hpp"

namespace craton::omp {

struct UpdateList;

class UpdatesHost {
 public:
  UpdatesHost() = default;
  UpdatesHost(const UpdatesHost&) = delete;
  UpdatesHost& operator=(const UpdatesHost&) = delete;
  virtual ~UpdatesHost() = default;

  virtual fabric::Rank rank() const noexcept = 0;
  /// Of the job.
  virtual fabric::Rank ranks() const noexcept = 0;
  /// Whether Updates::beat() is called now and then.
  virtual bool beats() const noexcept = 0;
  /// Before the first wake_thread(): starts a thread that calls Updates::do_now() after each. \returns false
  /// where there can be none
  virtual bool start_thread() noexcept = 0;
  virtual void wake_thread() noexcept = 0;

  struct Claiming {
    fabric::Rank rank;
    std::uint64_t before = 0;  ///< what its PutOff::claim was
  };
  /// Has the claims that are 0 become `as`, of all these ranks at once. Blocks. \throws Error peer_lost
  virtual void claim(std::span<Claiming> claims, std::uint64_t as) = 0;
  /// Gets the lists of all ranks but 0, of which it is called. Blocks. \throws Error peer_lost
  virtual void read(std::span<UpdateList> lists) = 0;
  /// For a moment, while another thread is at it. Runs handlers. \throws Error peer_lost
  virtual void pause() = 0;
  /// As an atomic instruction of the program. Blocks. \throws Error peer_lost, not_supported
  virtual void run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body) = 0;
};

}  // namespace craton::omp
