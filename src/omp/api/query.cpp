/// \file
/// Routines that say where the caller is, and what time it is.
#include <ctime>

#include "omp/api/api.hpp"
#include "omp/team.hpp"

namespace craton::omp::api {

namespace {

/// What the caller was in at an outer level; null if there is none.
const TeamState* state_at(int level) {
  const TeamState* state = &self().state;
  if (level < 0 || static_cast<std::uint32_t>(level) > state->level) return nullptr;
  while (state->level > static_cast<std::uint32_t>(level) && state->team != nullptr)
    state = &state->team->outer();
  // Levels around a region of all ranks have one thread.
  static const TeamState alone;
  return state->level == static_cast<std::uint32_t>(level) ? state : &alone;
}

constexpr double ns_a_second = 1e9;

double seconds(const timespec& time) noexcept {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / ns_a_second;
}

}  // namespace

CRATON_OMP int omp_get_thread_num() {
  return static_cast<int>(self().state.number);
}
CRATON_OMP int omp_get_num_threads() {
  const Team* const team = self().state.team;
  return team != nullptr ? static_cast<int>(team->size()) : 1;
}
CRATON_OMP int omp_in_parallel() {
  return self().state.active_level != 0 ? 1 : 0;
}
CRATON_OMP int omp_get_level() {
  return static_cast<int>(self().state.level);
}
CRATON_OMP int omp_get_active_level() {
  return static_cast<int>(self().state.active_level);
}
CRATON_OMP int omp_get_ancestor_thread_num(int level) {
  const TeamState* const state = state_at(level);
  return state != nullptr ? static_cast<int>(state->number) : -1;
}
CRATON_OMP int omp_get_team_size(int level) {
  const TeamState* const state = state_at(level);
  if (state == nullptr) return -1;
  return state->team != nullptr ? static_cast<int>(state->team->size()) : 1;
}
CRATON_OMP int omp_in_final() {
  return self().task->is_final ? 1 : 0;
}
CRATON_OMP int omp_get_num_teams() {
  return static_cast<int>(self().state.league.count);
}
CRATON_OMP int omp_get_team_num() {
  return static_cast<int>(self().state.league.number);
}

CRATON_OMP double omp_get_wtime() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(now);
}
CRATON_OMP double omp_get_wtick() {
  timespec tick{};
  ::clock_getres(CLOCK_MONOTONIC, &tick);
  return seconds(tick);
}

// ---- Fortran

CRATON_OMP std::int32_t omp_get_thread_num_() {
  return omp_get_thread_num();
}
CRATON_OMP std::int32_t omp_get_num_threads_() {
  return omp_get_num_threads();
}
CRATON_OMP std::int32_t omp_in_parallel_() {
  return omp_in_parallel();
}
CRATON_OMP std::int32_t omp_get_level_() {
  return omp_get_level();
}
CRATON_OMP std::int32_t omp_get_active_level_() {
  return omp_get_active_level();
}
CRATON_OMP std::int32_t omp_get_ancestor_thread_num_(const std::int32_t* level) {
  return omp_get_ancestor_thread_num(*level);
}
CRATON_OMP std::int32_t omp_get_ancestor_thread_num_8_(const std::int64_t* level) {
  return omp_get_ancestor_thread_num(to_int(*level));
}
CRATON_OMP std::int32_t omp_get_team_size_(const std::int32_t* level) {
  return omp_get_team_size(*level);
}
CRATON_OMP std::int32_t omp_get_team_size_8_(const std::int64_t* level) {
  return omp_get_team_size(to_int(*level));
}
CRATON_OMP std::int32_t omp_in_final_() {
  return omp_in_final();
}
CRATON_OMP std::int32_t omp_get_num_teams_() {
  return omp_get_num_teams();
}
CRATON_OMP std::int32_t omp_get_team_num_() {
  return omp_get_team_num();
}
CRATON_OMP double omp_get_wtime_() {
  return omp_get_wtime();
}
CRATON_OMP double omp_get_wtick_() {
  return omp_get_wtick();
}

}  // namespace craton::omp::api
