#include "omp/regions.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "omp/float_control.hpp"

namespace craton::omp {

namespace {

// The words of the note that starts a region.
enum Word : std::uint32_t {
  site_and_kind = TeamHost::site_word,
  function,
  data,
  size_and_control,
  threads_and_chunk,
  schedule_and_marks,
  limit_and_ranks,
  teams,
  shares,
  allocator,
  loop_chunk,
  loop_start,
  loop_step,
  loop_end,
  words
};
static_assert(words <= space::BarrierNote::words_at_most);
static_assert(fabric::max_ranks <= 0xffff);

constexpr std::uint64_t pack(std::uint32_t low, std::uint32_t high) noexcept {
  return std::uint64_t{high} << 32U | low;
}
constexpr std::uint32_t low(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint32_t high(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> 32U);
}
constexpr std::uint32_t marks_of(const Icvs& icvs, Binding bind) noexcept {
  return (icvs.dynamic ? 1U : 0U) | (icvs.threads_are_chosen ? 2U : 0U) |
         static_cast<std::uint32_t>(icvs.bind) << 2U | static_cast<std::uint32_t>(bind) << 5U |
         icvs.max_active_levels << 8U | static_cast<std::uint32_t>(icvs.default_device) << 16U;
}

space::BarrierNote note_of(const Team::Beginning& beginning) noexcept {
  space::BarrierNote note;
  auto& word = note.words;
  const Region& region = beginning.region;
  const Loop& loop = region.loop;
  const Icvs& icvs = beginning.icvs;
  const TeamState& outer = beginning.outer;
  word[site_and_kind] =
      pack(region.site, static_cast<std::uint32_t>(loop.kind) | (loop.ordered ? 1U << 8U : 0U) |
                            (region.reduces ? 1U << 9U : 0U) | (region.float_control != 0 ? 1U << 10U : 0U) |
                            beginning.number << 16U);
  word[function] = reinterpret_cast<std::uintptr_t>(region.function);
  word[data] = reinterpret_cast<std::uintptr_t>(region.data);
  word[size_and_control] = pack(beginning.shape.size, float_control());
  word[threads_and_chunk] = pack(icvs.threads, static_cast<std::uint32_t>(icvs.chunk));
  word[schedule_and_marks] = pack(icvs.schedule, marks_of(icvs, beginning.bind));
  word[limit_and_ranks] = pack(icvs.thread_limit, beginning.shape.ranks | outer.level << 16U);
  word[teams] = pack(outer.league.number, outer.league.count);
  word[shares] = beginning.shares;
  word[allocator] = icvs.default_allocator;
  note.count = allocator + 1;
  if (loop.kind == WorkKind::none) return note;
  word[loop_chunk] = loop.chunk;
  word[loop_start] = loop.iterations.start;
  word[loop_step] = loop.iterations.step;
  word[loop_end] = loop.iterations.end;
  note.count = words;
  return note;
}

/// There are no more regions.
space::BarrierNote last_note() noexcept {
  space::BarrierNote note;
  note.count = allocator + 1;
  std::fill_n(note.words.begin(), note.count, 0);
  return note;
}

Region region_of(const space::BarrierNote& note, bool is_first) noexcept {
  const auto& word = note.words;
  const std::uint32_t kind = high(word[site_and_kind]);
  Region region{.function = reinterpret_cast<void (*)(void*)>(word[function]),
                .data = reinterpret_cast<void*>(word[data]),
                .loop = {},
                .reduces = (kind >> 9U & 1U) != 0,
                .site = low(word[site_and_kind])};
  // In their first one threads take it as those that rank 0's had made for it.
  if (is_first || (kind >> 10U & 1U) != 0) region.float_control = high(word[size_and_control]);
  if (note.count < words) return region;
  region.loop = {
      .kind = static_cast<WorkKind>(kind & 0xffU),
      .ordered = (kind >> 8U & 1U) != 0,
      .chunk = word[loop_chunk],
      // The loops that regions begin with are of signed variables.
      .iterations = Iterations::of(static_cast<long>(word[loop_start]), static_cast<long>(word[loop_end]),
                                   static_cast<long>(word[loop_step]))};
  return region;
}

Icvs icvs_of(const space::BarrierNote& note) noexcept {
  const auto& word = note.words;
  const std::uint32_t marks = high(word[schedule_and_marks]);
  return {.threads = low(word[threads_and_chunk]),
          .threads_are_chosen = (marks & 2U) != 0,
          .dynamic = (marks & 1U) != 0,
          .bind = static_cast<Binding>(marks >> 2U & 7U),
          .max_active_levels = marks >> 8U & 0xffU,
          .schedule = low(word[schedule_and_marks]),
          .chunk = static_cast<std::int32_t>(high(word[threads_and_chunk])),
          .thread_limit = low(word[limit_and_ranks]),
          .default_device = static_cast<std::int16_t>(marks >> 16U),
          .default_allocator = word[allocator]};
}

fabric::Rank ranks_of(const space::BarrierNote& note) noexcept {
  return high(note.words[limit_and_ranks]) & 0xffffU;
}

/// What rank `own` begins.
Team::Beginning beginning_of(const space::BarrierNote& note, const Region& region,
                             fabric::Rank own) noexcept {
  const auto& word = note.words;
  const League league{.number = low(word[teams]), .count = high(word[teams])};
  return {.shape = Regions::shape_of(own, ranks_of(note), low(word[size_and_control])),
          .outer = {.level = high(word[limit_and_ranks]) >> 16U, .position = {}, .league = league},
          .parent = nullptr,
          .region = region,
          .reach = note.reach,
          .shares = word[shares],
          .number = high(word[site_and_kind]) >> 16U,
          .icvs = icvs_of(note),
          .bind = static_cast<Binding>(high(word[schedule_and_marks]) >> 5U & 7U)};
}

}  // namespace

Team::Shape Regions::shape_of(fabric::Rank own, fabric::Rank ranks, std::uint32_t size) noexcept {
  return {.own = own,
          .ranks = ranks,
          .size = size,
          .local = Team::first_of(own + 1, size, ranks) - Team::first_of(own, size, ranks)};
}

void Regions::begin(Team::Beginning beginning) {
  CRATON_ASSERT(host_.rank() == 0U);
  host_.flush_output();
  beginning.shares = team_.shares();
  beginning.number = ++number_ & 0xffffU;
  beginning.reach = host_.tell(beginning.shape.ranks, note_of(beginning));
  events::enter_region(beginning.region.function);  // who calls leaves it, behind Team::end()
  start_(beginning);
}

void Regions::work() {
  CRATON_ASSERT(host_.rank() != 0U);
  for (bool is_first = true;;) {
    const space::BarrierNote note = team_.hear();
    if (note.words[function] == 0) return;
    if (host_.rank() >= ranks_of(note)) {
      host_.gather(note.reach, low(note.words[site_and_kind]), nullptr, false);
      continue;
    }
    const Region region = region_of(note, std::exchange(is_first, false));
    start_(beginning_of(note, region, host_.rank()));
    team_.enter(host_.self(), 0);
    events::enter_region(region.function);
    region.function(region.data);
    // It stays in the team till it hears of the next one, for tasks of others.
    team_.end(region.site);
    events::leave_region();
  }
}

void Regions::stop() {
  static_cast<void>(host_.tell(host_.ranks(), last_note()));
}

}  // namespace craton::omp
