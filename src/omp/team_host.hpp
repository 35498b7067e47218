/// \file
/// What a team needs of its rank, beside what its tasks do: a running program's ranks have it from the
/// runtime (rank_team.hpp), the schedules of tests/teams from the simulator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/events.hpp"
#include "fabric/types.hpp"
#include "omp/task_host.hpp"
#include "space/barrier.hpp"

namespace craton::omp {

class Team;
struct Thread;

class TeamHost : public TaskHost {
 public:
  /// The word of rank 0's notes that says where in the program it is.
  static constexpr std::uint32_t site_word = 0;

  /// The calling thread's.
  virtual Thread& self() = 0;
  /// A thread has become the `local`th of this rank's in the team: puts it where that one runs.
  virtual void sit(Thread& thread, const Team& team, std::uint32_t local) noexcept = 0;
  /// Whether anything may be cancelled.
  virtual bool may_cancel() const noexcept = 0;
  /// Whether the region at a place in the program is one whose threads make tasks. \param makes_now whether
  /// they do in this one
  virtual bool makes_tasks(std::uint32_t site, bool makes_now) noexcept = 0;

  // ---- Words of rank 0. Block for the network. \param offset in Words \return what was there

  virtual std::uint64_t compare_exchange(std::size_t offset, std::uint64_t expected,
                                         std::uint64_t desired) = 0;
  virtual std::uint64_t fetch_add(std::size_t offset, std::uint64_t value) = 0;

  // ---- Meetings of ranks: see space::Barrier

  virtual void meet(fabric::Rank ranks, std::uint32_t site, space::BarrierNote& note,
                    const space::Meanwhile& meanwhile) = 0;
  virtual bool gather(fabric::Rank ranks, std::uint32_t site, const space::Meanwhile* meanwhile,
                      bool marks) = 0;
  virtual fabric::Rank tell(fabric::Rank ranks, const space::BarrierNote& note) = 0;
  virtual space::BarrierNote hear(const space::Meanwhile* meanwhile, events::Kind kind) = 0;

  // ---- What threads have put off until they meet: see Updates

  virtual bool has_put_off() const noexcept = 0;
  virtual void apply_put_off() = 0;
  virtual void put_off_is_applied() noexcept = 0;

  // ---- Memory

  /// Where this rank's part of a reduction is, for rank 0 to find after the next meeting.
  virtual void show_partial(void* partial) noexcept = 0;
  virtual void* partial_of(fabric::Rank rank) = 0;
  /// In memory that all ranks share.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* pointer) = 0;
};

}  // namespace craton::omp
