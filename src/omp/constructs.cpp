#include "omp/constructs.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "omp/looking.hpp"
#include "omp/polling.hpp"
#include "omp/runtime.hpp"

namespace craton::omp {

namespace {

/// Takes the place's block to read, as a strong one, and perhaps waits for a change there.
void see(Platform& platform, const space::Segment& segment, const std::byte* address, std::size_t bytes,
         std::optional<std::uint64_t> turn) {
  // One that writes takes the block away, which ends the wait.
  constexpr TimeNs longest_wait_ns = 1'000'000;
  constinit thread_local Looking looking;
  std::array<std::byte, sizeof(std::uint64_t)> found{};
  const std::span<std::byte> begin(found.data(), std::min(bytes, found.size()));
  const auto load = [&] {
    for (std::size_t i = 0; i < begin.size(); ++i)
      begin[i] = *static_cast<const volatile std::byte*>(address + i);
  };
  coherence::Exclusive& exclusive = platform.space().exclusive();
  const auto offset = static_cast<std::uint64_t>(address - segment.data());
  if (!exclusive.run_atomic(segment.blocks().id(), offset, load) || !turn) return;
  const Clock& clock = platform.fabric().clock();
  const TimeNs now_ns = clock.now_ns();
  const TimeNs wait_ns = looking.found(*turn, begin, now_ns, longest_wait_ns, 8);
  if (wait_ns != 0) exclusive.wait_while(segment.blocks().id(), offset, begin, now_ns + wait_ns);
  looking.ended(wait_ns != 0 ? clock.now_ns() : now_ns);
}

}  // namespace

void run_region(const Region& region, std::uint32_t threads) {
  begin_region(region, threads);
  region.function(region.data);
  end_region();
}

void begin_region(const Region& region, std::uint32_t threads) {
  if (Runtime* const here = runtime()) return here->begin_region(region, threads);
  if (region.prepare != nullptr) region.prepare(region.data, 1);
}

void end_region() {
  if (Runtime* const here = runtime()) here->end_region();
}

void barrier(std::uint32_t site) {
  if (Team* const team = self().state.team) team->meet(site);
}

bool cancellable_barrier(std::uint32_t site) {
  Team* const team = self().state.team;
  return team != nullptr && team->meet_or_end(site);
}

Loop loop_of(Schedule schedule, std::uint64_t chunk, const Iterations& iterations, bool ordered) {
  Loop loop{.kind = WorkKind::fixed, .ordered = ordered, .chunk = chunk, .iterations = iterations};
  if (schedule == Schedule::runtime) {
    const Icvs& icvs = self().task->icvs;
    schedule = static_cast<Schedule>(icvs.schedule & ~monotonic_bit);
    loop.chunk = icvs.chunk < 0 ? 0 : static_cast<std::uint64_t>(icvs.chunk);
  }
  if (schedule == Schedule::automatic) loop.chunk = 0;
  if (schedule == Schedule::dynamic) loop.kind = WorkKind::dynamic;
  if (schedule == Schedule::guided) loop.kind = WorkKind::guided;
  if (loop.kind != WorkKind::fixed) loop.chunk = std::max<std::uint64_t>(loop.chunk, 1);
  return loop;
}

Loop sections_of(std::uint64_t count) {
  return {.kind = WorkKind::sections,
          .chunk = 1,
          .iterations = {.start = 1, .step = 1, .end = count + 1, .count = count}};
}

void begin_share(const Loop& loop) {
  TeamState& state = self().state;
  state.position = {.loop = loop, .number = ++state.shares};
}

void begin_doacross(Loop loop, std::span<const std::uint64_t> counts) {
  TeamState& state = self().state;
  loop.doacross = state.team != nullptr && state.team->size() > 1;
  begin_share(loop);
  if (loop.doacross) state.team->doacross().enter(state.position, counts);
}

std::size_t doacross_dimensions() {
  const TeamState& state = self().state;
  return state.position.loop.doacross ? state.team->doacross().dimensions(state.position) : 0;
}

void post(std::span<const std::uint64_t> iteration) {
  const TeamState& state = self().state;
  state.team->doacross().post(state.position, iteration);
}

void wait_for_post(std::span<const std::uint64_t> iteration) {
  const TeamState& state = self().state;
  state.team->doacross().wait(state.position, iteration);
}

bool next_chunk(LoopPosition*& position) {
  TeamState& state = self().state;
  position = &state.position;
  if (state.team != nullptr) return state.team->next_chunk(state);
  // Outside of all regions: sections one by one, loops whole.
  const std::uint64_t trip = state.position.trip++;
  const bool is_sections = state.position.loop.kind == WorkKind::sections;
  const std::uint64_t count = state.position.loop.iterations.count;
  position->first = trip;
  position->last = is_sections ? trip + 1 : count;
  return is_sections ? trip < count : trip == 0 && count != 0;
}

void begin_ordered() {
  const TeamState& state = self().state;
  if (state.team != nullptr && state.team->size() > 1) state.team->turns().wait(state.position);
}

void end_share() {
  TeamState& state = self().state;
  if (state.team != nullptr) {
    state.team->end_share(state.position);
  } else if (state.memory != nullptr) {
    std::free(std::exchange(state.memory, nullptr));
  }
}

void* shared_memory(std::size_t bytes) {
  TeamState& state = self().state;
  if (state.team == nullptr) return state.memory = std::calloc(1, bytes);
  return state.team->shared_memory(bytes, state.number == 0);
}

bool is_first() noexcept {
  return self().state.number == 0;
}

bool is_single() noexcept {
  TeamState& state = self().state;
  if (state.team == nullptr || state.team->ranks() > 1) return state.number == 0;
  return state.team->is_first_to_come(++state.singles);
}

void* give_all(void* pointer, std::uint32_t site) {
  Team* const team = self().state.team;
  return team == nullptr ? pointer : team->meet_with(pointer, site);
}

void flush() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Runtime* const here = runtime();
  if (here == nullptr || !here->unlock_publishes()) return;
  here->guard([&] {
    here->platform().flush_output();
    constinit thread_local Polling polling;
    const Clock& clock = here->platform().fabric().clock();
    const TimeNs began_ns = clock.now_ns();
    const bool found = here->platform().space().flush();
    const TimeNs ended_ns = clock.now_ns();
    if (!polling.is_to_sleep(found, began_ns, ended_ns, here->is_crowded())) return;
    static constexpr std::atomic<std::uint32_t> never = 0;
    futex_wait(never, 0, ended_ns + Polling::sleep_ns);
    polling.woke(clock.now_ns());
  });
}

void look(const void* address, std::size_t bytes, std::optional<std::uint64_t> turn) {
  Runtime* const here = runtime();
  if (here == nullptr || !here->unlock_publishes()) return;
  here->guard([&] {
    const space::Segment* const segment = here->platform().space().find(address);
    if (segment == nullptr) return;
    see(here->platform(), *segment, static_cast<const std::byte*>(address), bytes, turn);
  });
}

void lock_critical(const void* name) {
  Runtime* const here = runtime();
  if (here != nullptr) here->guard([&] { here->locks().lock_critical(name); });
}

void unlock_critical(const void* name) {
  Runtime* const here = runtime();
  if (here != nullptr) here->guard([&] { here->locks().unlock_critical(name, here->unlock_publishes()); });
}

void run_target(void (*function)(void*), void* data, std::uint32_t thread_limit) {
  Thread& thread = self();
  Task initial;
  if (const Runtime* const here = runtime()) initial.icvs = here->initial_icvs();
  if (thread_limit != 0) initial.icvs.thread_limit = thread_limit;
  const TeamState outer = std::exchange(thread.state, TeamState{});
  Task* const task = std::exchange(thread.task, &initial);
  // While a region of several ranks runs there cannot be another one.
  const bool was_master = std::exchange(thread.is_master, thread.is_master && outer.active_level == 0);
  function(data);
  thread.is_master = was_master;
  thread.task = task;
  thread.state = outer;
}

}  // namespace craton::omp
