/// \file
/// Barriers, `single`, `master`, `critical`, `ordered`, reductions, flushes, cancellation.
#include "omp/kmpc/abi.hpp"
#include "omp/locks.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

CRATON_KMPC void __kmpc_barrier(Location* /*at*/, std::int32_t /*thread*/) {
  barrier(site_of(__builtin_return_address(0)));
}
CRATON_KMPC std::int32_t __kmpc_cancel_barrier(Location* /*at*/, std::int32_t /*thread*/) {
  return cancellable_barrier(site_of(__builtin_return_address(0))) ? 1 : 0;
}
/// \returns whether the caller is the one that does what follows, before the others go on
CRATON_KMPC std::int32_t __kmpc_barrier_master(Location* /*at*/, std::int32_t /*thread*/) {
  const std::uint32_t site = site_of(__builtin_return_address(0));
  barrier(site);
  if (is_first()) return 1;
  barrier(site);
  return 0;
}
CRATON_KMPC void __kmpc_end_barrier_master(Location* /*at*/, std::int32_t /*thread*/) {
  barrier(site_of(__builtin_return_address(0)));
}
CRATON_KMPC std::int32_t __kmpc_barrier_master_nowait(Location* /*at*/, std::int32_t /*thread*/) {
  barrier(site_of(__builtin_return_address(0)));
  return is_first() ? 1 : 0;
}
CRATON_KMPC void __kmpc_flush(Location* /*at*/) {
  flush();
}

// ---- Single, master

CRATON_KMPC std::int32_t __kmpc_single(Location* /*at*/, std::int32_t /*thread*/) {
  return is_single() ? 1 : 0;
}
CRATON_KMPC void __kmpc_end_single(Location* /*at*/, std::int32_t /*thread*/) {}
/// \param own the caller's variables \param copy copies from the second to the first \param did_it whether
/// the caller ran the `single`
CRATON_KMPC void __kmpc_copyprivate(Location* /*at*/, std::int32_t /*thread*/, std::size_t /*bytes*/,
                                    void* own, void (*copy)(void*, void*), std::int32_t did_it) {
  const std::uint32_t site = site_of(__builtin_return_address(0));
  void* const given = give_all(did_it != 0 ? own : nullptr, site);
  // In a cancelled region the giver may be at its end already.
  if (did_it == 0 && !is_region_cancelled()) copy(own, given);
  barrier(site);  // what is copied lies on the giver's stack
}
CRATON_KMPC std::int32_t __kmpc_master(Location* /*at*/, std::int32_t /*thread*/) {
  return number() == 0 ? 1 : 0;
}
CRATON_KMPC void __kmpc_end_master(Location* /*at*/, std::int32_t /*thread*/) {}
CRATON_KMPC std::int32_t __kmpc_masked(Location* /*at*/, std::int32_t /*thread*/, std::int32_t wanted) {
  return number() == wanted ? 1 : 0;
}
CRATON_KMPC void __kmpc_end_masked(Location* /*at*/, std::int32_t /*thread*/) {}
CRATON_KMPC void __kmpc_scope(Location* /*at*/, std::int32_t /*thread*/, void* /*reserved*/) {}
CRATON_KMPC void __kmpc_end_scope(Location* /*at*/, std::int32_t /*thread*/, void* /*reserved*/) {}

// ---- Critical

/// \param name a variable of the program's, whose address is the name
CRATON_KMPC void __kmpc_critical(Location* /*at*/, std::int32_t /*thread*/, void* name) {
  lock_critical(name);
}
CRATON_KMPC void __kmpc_critical_with_hint(Location* /*at*/, std::int32_t /*thread*/, void* name,
                                           std::uint32_t /*hint*/) {
  lock_critical(name);
}
CRATON_KMPC void __kmpc_end_critical(Location* /*at*/, std::int32_t /*thread*/, void* name) {
  unlock_critical(name);
}

// ---- Ordered

CRATON_KMPC void __kmpc_ordered(Location* /*at*/, std::int32_t /*thread*/) {
  begin_ordered();
}
/// The turn goes on when the thread takes its next chunk.
CRATON_KMPC void __kmpc_end_ordered(Location* /*at*/, std::int32_t /*thread*/) {}

// ---- Reductions: combined by the runtime, so that no atomic instruction runs

namespace {

bool reduce(void* part, Team::Combine combine, std::uint32_t site) {
  Team* const team = self().state.team;
  return team == nullptr || team->size() == 1 || team->reduce(part, combine, site);
}

}  // namespace

/// \param part pointers to the caller's parts \returns whether the caller adds its part to the program's
/// variables: it then has those of all
CRATON_KMPC std::int32_t __kmpc_reduce_nowait(Location* /*at*/, std::int32_t /*thread*/,
                                              std::int32_t /*count*/, std::size_t /*bytes*/, void* part,
                                              Team::Combine combine, void* /*lock*/) {
  const std::uint32_t site = site_of(__builtin_return_address(0));
  const bool has_all = reduce(part, combine, site);
  barrier(site);  // the parts lie on their owners' stacks
  return has_all ? 1 : 0;
}
CRATON_KMPC void __kmpc_end_reduce_nowait(Location* /*at*/, std::int32_t /*thread*/, void* /*lock*/) {}
/// The same; the others go on when the caller that has all calls __kmpc_end_reduce.
CRATON_KMPC std::int32_t __kmpc_reduce(Location* /*at*/, std::int32_t /*thread*/, std::int32_t /*count*/,
                                       std::size_t /*bytes*/, void* part, Team::Combine combine,
                                       void* /*lock*/) {
  const std::uint32_t site = site_of(__builtin_return_address(0));
  if (reduce(part, combine, site)) return 1;
  barrier(site);
  return 0;
}
CRATON_KMPC void __kmpc_end_reduce(Location* /*at*/, std::int32_t /*thread*/, void* /*lock*/) {
  barrier(site_of(__builtin_return_address(0)));
}

// ---- Cancellation

namespace {

enum Cancelled : std::int32_t { region = 1, loop, sections, group };

bool is_cancelled(std::int32_t which) {
  if (!may_cancel()) return false;
  if (which == loop || which == sections) return is_share_cancelled();
  return which == group ? is_group_cancelled() : is_region_cancelled();
}

}  // namespace

/// \returns whether it is cancelled, so that the caller goes to its end
CRATON_KMPC std::int32_t __kmpc_cancellationpoint(Location* /*at*/, std::int32_t /*thread*/,
                                                  std::int32_t which) {
  return is_cancelled(which) ? 1 : 0;
}
CRATON_KMPC std::int32_t __kmpc_cancel(Location* /*at*/, std::int32_t /*thread*/, std::int32_t which) {
  if (!may_cancel()) return 0;
  if (which == loop || which == sections) {
    cancel_share();
  } else if (which == group) {
    cancel_group();
  } else {
    cancel_region();
  }
  return 1;
}

}  // namespace craton::omp::kmpc
