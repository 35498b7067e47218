/// \file
/// Routines that read and set control variables.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

#include "omp/api/api.hpp"

namespace craton::omp::api {

const Settings& settings() {
  static const Settings defaults;
  return runtime() != nullptr ? runtime()->settings() : defaults;
}

namespace {

constexpr int int_at_most = 0x7fffffff;

int to_int(std::uint32_t value) noexcept {
  return static_cast<int>(std::min<std::uint32_t>(value, int_at_most));
}

/// Numbers that the program chooses for all of its threads: words of rank 0's.
void choose(std::size_t word, int number) {
  if (number < 0 || runtime() == nullptr) return;
  const std::uint64_t chosen = static_cast<std::uint64_t>(number) + 1;
  runtime()->write_words(word, &chosen, sizeof chosen);
}

int chosen_or(std::size_t word, int otherwise) {
  std::uint64_t chosen = 0;
  if (runtime() != nullptr) runtime()->read_words(&chosen, word, sizeof chosen);
  return chosen != 0 ? static_cast<int>(chosen - 1) : otherwise;
}

}  // namespace

CRATON_OMP void omp_set_num_threads(int threads) {
  icvs().threads = static_cast<std::uint32_t>(std::max(threads, 1));
  icvs().threads_are_chosen = true;
}
CRATON_OMP int omp_get_max_threads() {
  return to_int(icvs().threads);
}
/// Of all ranks: as many as a region has threads if nothing else is said.
CRATON_OMP int omp_get_num_procs() {
  return runtime() != nullptr ? to_int(runtime()->default_threads()) : 1;
}
CRATON_OMP int omp_get_thread_limit() {
  return to_int(icvs().thread_limit);
}
CRATON_OMP void omp_set_dynamic(int value) {
  icvs().dynamic = value != 0;
}
CRATON_OMP int omp_get_dynamic() {
  return icvs().dynamic ? 1 : 0;
}

CRATON_OMP void omp_set_max_active_levels(int levels) {
  if (levels >= 0)
    icvs().max_active_levels =
        std::min<std::uint32_t>(static_cast<std::uint32_t>(levels), active_levels_at_most);
}
CRATON_OMP int omp_get_max_active_levels() {
  return to_int(icvs().max_active_levels);
}
CRATON_OMP int omp_get_supported_active_levels() {
  return static_cast<int>(active_levels_at_most);
}
CRATON_OMP void omp_set_nested(int value) {
  Icvs& own = icvs();
  own.max_active_levels =
      value != 0 ? active_levels_at_most : std::min<std::uint32_t>(own.max_active_levels, 1);
}
CRATON_OMP int omp_get_nested() {
  const std::uint32_t levels = icvs().max_active_levels;
  return levels > 1 && levels > self().state.active_level ? 1 : 0;
}

/// \param kind omp_sched_t
CRATON_OMP void omp_set_schedule(std::uint32_t kind, int chunk) {
  Icvs& own = icvs();
  switch (static_cast<Schedule>(kind & ~monotonic_bit)) {
    case Schedule::fixed:
      own.chunk = std::max(chunk, 0);
      break;
    case Schedule::dynamic:
    case Schedule::guided:
      own.chunk = std::max(chunk, 1);
      break;
    case Schedule::automatic:
      break;
    default:
      return;
  }
  own.schedule = kind;
}
CRATON_OMP void omp_get_schedule(std::uint32_t* kind, int* chunk) {
  *kind = icvs().schedule;
  *chunk = icvs().chunk;
}

CRATON_OMP int omp_get_cancellation() {
  return settings().cancellation ? 1 : 0;
}
CRATON_OMP int omp_get_max_task_priority() {
  return settings().max_task_priority;
}
CRATON_OMP int omp_get_proc_bind() {
  return static_cast<int>(icvs().bind);
}

CRATON_OMP void omp_set_num_teams(int teams) {
  choose(offsetof(Words, teams_chosen), teams);
}
CRATON_OMP int omp_get_max_teams() {
  return chosen_or(offsetof(Words, teams_chosen), settings().teams);
}
CRATON_OMP void omp_set_teams_thread_limit(int threads) {
  choose(offsetof(Words, teams_thread_limit_chosen), threads);
}
CRATON_OMP int omp_get_teams_thread_limit() {
  return chosen_or(offsetof(Words, teams_thread_limit_chosen), settings().teams_thread_limit);
}

CRATON_OMP void omp_display_env(int verbose) {
  if (runtime() == nullptr) return;
  const std::string text = settings().text(runtime()->default_threads(), verbose != 0);
  static_cast<void>(std::fputs(text.c_str(), stderr));
}

// ---- Fortran

CRATON_OMP void omp_set_num_threads_(const std::int32_t* threads) {
  omp_set_num_threads(*threads);
}
CRATON_OMP void omp_set_num_threads_8_(const std::int64_t* threads) {
  omp_set_num_threads(api::to_int(*threads));
}
CRATON_OMP std::int32_t omp_get_max_threads_() {
  return omp_get_max_threads();
}
CRATON_OMP std::int32_t omp_get_num_procs_() {
  return omp_get_num_procs();
}
CRATON_OMP std::int32_t omp_get_thread_limit_() {
  return omp_get_thread_limit();
}
CRATON_OMP void omp_set_dynamic_(const std::int32_t* value) {
  omp_set_dynamic(*value);
}
CRATON_OMP void omp_set_dynamic_8_(const std::int64_t* value) {
  omp_set_dynamic(*value != 0 ? 1 : 0);
}
CRATON_OMP std::int32_t omp_get_dynamic_() {
  return omp_get_dynamic();
}
CRATON_OMP void omp_set_nested_(const std::int32_t* value) {
  omp_set_nested(*value);
}
CRATON_OMP void omp_set_nested_8_(const std::int64_t* value) {
  omp_set_nested(*value != 0 ? 1 : 0);
}
CRATON_OMP std::int32_t omp_get_nested_() {
  return omp_get_nested();
}
CRATON_OMP void omp_set_max_active_levels_(const std::int32_t* levels) {
  omp_set_max_active_levels(*levels);
}
CRATON_OMP void omp_set_max_active_levels_8_(const std::int64_t* levels) {
  omp_set_max_active_levels(api::to_int(*levels));
}
CRATON_OMP std::int32_t omp_get_max_active_levels_() {
  return omp_get_max_active_levels();
}
CRATON_OMP std::int32_t omp_get_supported_active_levels_() {
  return omp_get_supported_active_levels();
}
CRATON_OMP void omp_set_schedule_(const std::int32_t* kind, const std::int32_t* chunk) {
  omp_set_schedule(static_cast<std::uint32_t>(*kind), *chunk);
}
CRATON_OMP void omp_set_schedule_8_(const std::int32_t* kind, const std::int64_t* chunk) {
  omp_set_schedule(static_cast<std::uint32_t>(*kind), api::to_int(*chunk));
}
/// Without the monotonic bit, which older programs do not know.
CRATON_OMP void omp_get_schedule_(std::int32_t* kind, std::int32_t* chunk) {
  *kind = static_cast<std::int32_t>(icvs().schedule & ~monotonic_bit);
  *chunk = icvs().chunk;
}
CRATON_OMP void omp_get_schedule_8_(std::int32_t* kind, std::int64_t* chunk) {
  *kind = static_cast<std::int32_t>(icvs().schedule & ~monotonic_bit);
  *chunk = icvs().chunk;
}
CRATON_OMP std::int32_t omp_get_cancellation_() {
  return omp_get_cancellation();
}
CRATON_OMP std::int32_t omp_get_max_task_priority_() {
  return omp_get_max_task_priority();
}
CRATON_OMP std::int32_t omp_get_proc_bind_() {
  return omp_get_proc_bind();
}
CRATON_OMP void omp_set_num_teams_(const std::int32_t* teams) {
  omp_set_num_teams(*teams);
}
CRATON_OMP void omp_set_num_teams_8_(const std::int64_t* teams) {
  omp_set_num_teams(api::to_int(*teams));
}
CRATON_OMP std::int32_t omp_get_max_teams_() {
  return omp_get_max_teams();
}
CRATON_OMP void omp_set_teams_thread_limit_(const std::int32_t* threads) {
  omp_set_teams_thread_limit(*threads);
}
CRATON_OMP void omp_set_teams_thread_limit_8_(const std::int64_t* threads) {
  omp_set_teams_thread_limit(api::to_int(*threads));
}
CRATON_OMP std::int32_t omp_get_teams_thread_limit_() {
  return omp_get_teams_thread_limit();
}
CRATON_OMP void omp_display_env_(const std::int32_t* verbose) {
  omp_display_env(*verbose);
}
CRATON_OMP void omp_display_env_8_(const std::int64_t* verbose) {
  omp_display_env(*verbose != 0 ? 1 : 0);
}

}  // namespace craton::omp::api
