/// \file
/// The internal control variables that a task has of its own (OpenMP 5.0, section 2.5). A task inherits those
/// of the task that generates it; a region those of its parent.
#pragma once

#include <cstdint>
#include <limits>

namespace craton::omp {

/// As in omp_sched_t and in what the compiler passes.
enum class Schedule : std::uint32_t { runtime = 0, fixed = 1, dynamic = 2, guided = 3, automatic = 4 };
/// Added to a schedule by the monotonic modifier.
inline constexpr std::uint32_t monotonic_bit = std::uint32_t{1} << 31U;
inline constexpr std::uint32_t no_thread_limit = std::numeric_limits<std::uint32_t>::max();
/// The most nested active regions.
inline constexpr std::uint32_t active_levels_at_most = 255;

/// How threads of a region are bound to places; as in omp_proc_bind_t and in what compilers pass.
enum class Binding : std::uint8_t {
  none = 0,
  any = 1,      ///< as `close`
  primary = 2,  ///< all to the place of who starts the region
  close = 3,    ///< to the places that follow it
  spread = 4,   ///< far from each other
};

/// Of a number that a compiler passes.
constexpr Binding binding_of(unsigned number) noexcept {
  return number <= static_cast<unsigned>(Binding::spread) ? static_cast<Binding>(number) : Binding::none;
}

struct Icvs {
  std::uint32_t threads = 1;        ///< nthreads-var
  bool threads_are_chosen = false;  ///< by the user; else they follow from the machine
  bool dynamic = false;
  Binding bind = Binding::none;
  std::uint32_t max_active_levels = 1;
  std::uint32_t schedule = static_cast<std::uint32_t>(Schedule::dynamic);  ///< maybe with monotonic_bit
  std::int32_t chunk = 1;
  std::uint32_t thread_limit = no_thread_limit;
  std::int32_t default_device = 0;
  std::uint64_t default_allocator = 1;  ///< as in omp_allocator_handle_t
};

}  // namespace craton::omp
