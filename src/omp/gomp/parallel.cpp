/// \file
/// Regions: `parallel`, and `parallel` with a loop or sections at once.
#include "omp/gomp/abi.hpp"
#include "omp/gomp/reductions.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::gomp {

namespace {

Region region_of(Function function, void* data, unsigned flags = 0) noexcept {
  constexpr unsigned bind_bits = 7;
  return {.function = function,
          .data = data,
          .loop = {},
          .bind = binding_of(flags & bind_bits),
          .site = site_of(reinterpret_cast<std::uintptr_t>(function))};
}

Region loop_region(Function function, void* data, Schedule schedule, long start, long end, long step,
                   long chunk, unsigned flags = 0) {
  Region region = region_of(function, data, flags);
  region.loop =
      loop_of(schedule, chunk < 0 ? 0 : static_cast<std::uint64_t>(chunk), Iterations::of(start, end, step));
  return region;
}

}  // namespace

// The lowest bits of the last argument are the clause proc_bind.

CRATON_GOMP void GOMP_parallel(Function function, void* data, unsigned threads, unsigned flags) {
  run_region(region_of(function, data, flags), threads);
}
CRATON_GOMP void GOMP_parallel_start(Function function, void* data, unsigned threads) {
  begin_region(region_of(function, data), threads);
}
CRATON_GOMP void GOMP_parallel_end() {
  end_region();
}

/// With reductions over tasks, which the first word of `data` points to. \returns of how many threads they
/// are
CRATON_GOMP unsigned GOMP_parallel_reductions(Function function, void* data, unsigned threads,
                                              unsigned flags) {
  Region region = region_of(function, data, flags);
  region.reduces = true;
  region.prepare = [](void* first, std::uint32_t size) {
    register_reductions(*static_cast<Reductions**>(first), nullptr, nullptr, size);
  };
  begin_region(region, threads);
  const std::uint32_t size = team_size();
  function(data);
  end_region();
  return size;
}

CRATON_GOMP void GOMP_parallel_sections(Function function, void* data, unsigned threads, unsigned count,
                                        unsigned flags) {
  Region region = region_of(function, data, flags);
  region.loop = sections_of(count);
  run_region(region, threads);
}
CRATON_GOMP void GOMP_parallel_sections_start(Function function, void* data, unsigned threads,
                                              unsigned count) {
  Region region = region_of(function, data);
  region.loop = sections_of(count);
  begin_region(region, threads);
}

// ---- With a loop

CRATON_GOMP void GOMP_parallel_loop_static(Function function, void* data, unsigned threads, long start,
                                           long end, long step, long chunk, unsigned flags) {
  run_region(loop_region(function, data, Schedule::fixed, start, end, step, chunk, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_dynamic(Function function, void* data, unsigned threads, long start,
                                            long end, long step, long chunk, unsigned flags) {
  run_region(loop_region(function, data, Schedule::dynamic, start, end, step, chunk, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_guided(Function function, void* data, unsigned threads, long start,
                                           long end, long step, long chunk, unsigned flags) {
  run_region(loop_region(function, data, Schedule::guided, start, end, step, chunk, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_runtime(Function function, void* data, unsigned threads, long start,
                                            long end, long step, unsigned flags) {
  run_region(loop_region(function, data, Schedule::runtime, start, end, step, 0, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_nonmonotonic_dynamic(Function function, void* data, unsigned threads,
                                                         long start, long end, long step, long chunk,
                                                         unsigned flags) {
  run_region(loop_region(function, data, Schedule::dynamic, start, end, step, chunk, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_nonmonotonic_guided(Function function, void* data, unsigned threads,
                                                        long start, long end, long step, long chunk,
                                                        unsigned flags) {
  run_region(loop_region(function, data, Schedule::guided, start, end, step, chunk, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_nonmonotonic_runtime(Function function, void* data, unsigned threads,
                                                         long start, long end, long step, unsigned flags) {
  run_region(loop_region(function, data, Schedule::runtime, start, end, step, 0, flags), threads);
}
CRATON_GOMP void GOMP_parallel_loop_maybe_nonmonotonic_runtime(Function function, void* data,
                                                               unsigned threads, long start, long end,
                                                               long step, unsigned flags) {
  run_region(loop_region(function, data, Schedule::runtime, start, end, step, 0, flags), threads);
}

CRATON_GOMP void GOMP_parallel_loop_static_start(Function function, void* data, unsigned threads, long start,
                                                 long end, long step, long chunk) {
  begin_region(loop_region(function, data, Schedule::fixed, start, end, step, chunk), threads);
}
CRATON_GOMP void GOMP_parallel_loop_dynamic_start(Function function, void* data, unsigned threads, long start,
                                                  long end, long step, long chunk) {
  begin_region(loop_region(function, data, Schedule::dynamic, start, end, step, chunk), threads);
}
CRATON_GOMP void GOMP_parallel_loop_guided_start(Function function, void* data, unsigned threads, long start,
                                                 long end, long step, long chunk) {
  begin_region(loop_region(function, data, Schedule::guided, start, end, step, chunk), threads);
}
CRATON_GOMP void GOMP_parallel_loop_runtime_start(Function function, void* data, unsigned threads, long start,
                                                  long end, long step) {
  begin_region(loop_region(function, data, Schedule::runtime, start, end, step, 0), threads);
}

}  // namespace craton::omp::gomp
