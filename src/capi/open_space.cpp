#include "capi/open_space.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/line_writer.hpp"
#include "base/scope_exit.hpp"
#include "coherence/block_lock.hpp"

namespace craton::capi {

namespace {

// Regions and handlers of the fabric; the space has those from here on.
constexpr fabric::RegionId agreement_region = 0;
constexpr fabric::RegionId mutex_region = 1;
constexpr fabric::RegionId space_regions = 2;
constexpr fabric::HandlerId agreement_handler = job::barrier_handler + 1;
constexpr fabric::HandlerId collection_handler = job::barrier_handler + 2;
constexpr fabric::HandlerId heap_handler = job::barrier_handler + 3;
constexpr fabric::HandlerId large_heap_handler = job::barrier_handler + 4;
constexpr fabric::HandlerId space_handlers = job::barrier_handler + 5;
constexpr fabric::Rank mutex_keeper = 0;

/// Its address tells threads apart.
thread_local char thread_mark = 0;
std::uintptr_t own_mark() noexcept {
  return reinterpret_cast<std::uintptr_t>(&thread_mark);
}

space::SpaceOptions space_options(const OpenSpaceOptions& options) {
  space::SpaceOptions made;
  made.notice_capacity = options.notice_capacity;
  made.parallel_releases = options.parallel_releases;
  made.heartbeat_ns = options.heartbeat_ns;
  made.mutexes = options.mutexes;
  made.threads = options.threads;
  made.mechanism = options.mechanism;
  if (options.address_bytes != 0) made.address_bytes = options.address_bytes;
  made.first_region = space_regions;
  made.first_handler = space_handlers;
  return made;
}

/// Adds the time until its end to a counter.
class Timing {
 public:
  Timing(const Clock& clock, coherence::Counters::Count& count)
      : clock_(clock), count_(count), start_ns_(clock.now_ns()) {}
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;
  ~Timing() { coherence::Counters::add(count_, static_cast<std::uint64_t>(clock_.now_ns() - start_ns_)); }

 private:
  const Clock& clock_;
  coherence::Counters::Count& count_;
  const TimeNs start_ns_;
};

template <typename Number>
void append(std::vector<std::byte>& to, const Number& number) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&number);
  to.insert(to.end(), bytes, bytes + sizeof number);
}

}  // namespace

OpenSpace::OpenSpace(job::Job& job, const OpenSpaceOptions& options)
    : job_(job),
      threads_(options.threads),
      mutexes_(options.mutexes),
      observed_(observe::Request::take()),
      agreement_(job.fabric(), agreement_region, agreement_handler),
      mutex_counter_("craton mutex counter", sizeof(std::uint64_t)),
      collection_(job.fabric(), collection_handler),
      races_(job.rank(), job.options().text(Option::races) == "abort"),
      space_(job.fabric(), space_options(options)),
      holders_(options.mutexes) {
  if (observed_.what != 0) events::start(observed_.what, observed_.events_a_thread);
  job.fabric().register_region(mutex_region, mutex_counter_);
  if (job.options().text(Option::races) != "ignore")
    space_.protocol().set_race_handler(&space::RaceLog::saw, &races_);
  make_heap(heap_, "heap", options.heap_bytes, space::SegmentOptions{}.block_bytes, heap_handler);
  if (options.large_heap_bytes != 0)
    make_heap(large_heap_, "large heap", options.large_heap_bytes, large_block_bytes, large_heap_handler);
  agreement_.meet();  // messages of the heaps find them everywhere
}

bool OpenSpace::is_causal() const noexcept {
  const Options& options = job_.options();
  return options.flag_or_auto(Option::causal).value_or(options.flag(Option::spread_threads));
}

void OpenSpace::make_heap(std::optional<space::Heap>& heap, const char* name, std::size_t bytes,
                          std::size_t block_bytes, fabric::HandlerId handler) {
  const std::size_t chunks = (bytes + space::heap_chunk_bytes - 1) / space::heap_chunk_bytes;
  space::SegmentOptions options;
  options.name = name;
  options.dials.strength = coherence::Strength::automatic;
  options.dials.causal = is_causal();
  options.bytes = chunks * space::heap_chunk_bytes;
  options.block_bytes = block_bytes;
  space::Segment& segment = space_.create_segment(options);
  races_.add_segment(segment);
  heap.emplace(job_.fabric(), space_, segment, handler);
  heap->set_budget(heap_budget_);
}

void* OpenSpace::create_segment(const space::SegmentOptions& options) {
  if (segments_.load() == segments_most) {
    throw Error(ErrorCode::out_of_resources, {.asked = fmt::format("cannot make segment '{}'", options.name),
                                              .happened = "there are too many",
                                              .limit = fmt::format("{} segments", segments_most),
                                              .remedy = "make fewer and larger ones, or use craton_alloc"});
  }
  space::Segment& segment = space_.create_segment(options);
  races_.add_segment(segment);
  ++segments_;
  agreement_.meet();  // no race in it is seen anywhere before all know its name
  return segment.data();
}

void OpenSpace::barrier(std::uint32_t site) {
  const unsigned others = in_barrier_.fetch_add(1);
  const ScopeExit leave([this]() noexcept { in_barrier_.fetch_sub(1); });
  if (others >= threads_) {
    throw Error(
        ErrorCode::invalid_argument,
        {.asked = "cannot wait in craton_space_barrier",
         .happened = fmt::format("all {} threads of this rank that take part are in it already", threads_),
         .limit = {},
         .remedy = "say how many there are in craton_space_options.threads"});
  }
  const Timing timing(clock(), counters().barrier_ns);
  space_.barrier().wait(site);
}

// ---- Mutexes

std::uint32_t OpenSpace::create_mutex() {
  std::uint64_t number = 0;
  fabric::Completion completion;
  job_.fabric().fetch_add({.rank = mutex_keeper, .region = mutex_region, .offset = 0}, 1, &number,
                          completion);
  coherence::wait_for(job_.fabric(), completion);
  if (number >= mutexes_) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = "cannot make a mutex",
                 .happened = "all have been given out",
                 .limit = fmt::format("{} mutexes", mutexes_),
                 .remedy = "open the space with more (craton_space_options.mutexes)"});
  }
  return static_cast<std::uint32_t>(number);
}

std::uint32_t OpenSpace::create_mutex_together() {
  constexpr std::uint64_t none = ~std::uint64_t{0};
  std::uint64_t number = none;
  std::string why;
  if (job_.rank() == mutex_keeper) {
    try {
      number = create_mutex();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_resources) throw;
    }
  }
  number = agreement_.gather(number)[mutex_keeper];
  if (number == none) return create_mutex();  // which fails here as well, and says why
  return static_cast<std::uint32_t>(number);
}

void OpenSpace::check_mutex(std::uint32_t mutex, const char* asked) {
  if (mutex < mutexes_seen_.load(std::memory_order_relaxed)) return;
  std::uint64_t there = 0;
  fabric::Completion completion;
  job_.fabric().get(&there, {.rank = mutex_keeper, .region = mutex_region, .offset = 0}, sizeof there,
                    completion);
  coherence::wait_for(job_.fabric(), completion);
  there = std::min<std::uint64_t>(there, mutexes_);
  mutexes_seen_.store(there, std::memory_order_relaxed);
  if (mutex < there) return;
  throw Error(ErrorCode::invalid_argument,
              {.asked = fmt::format("{} mutex {}", asked, mutex),
               .happened = fmt::format("there are only {}, counted from 0", there),
               .limit = {},
               .remedy = "use numbers that craton_mutex_create gave"});
}

bool OpenSpace::holds(std::uint32_t mutex) const noexcept {
  return holders_[mutex].load(std::memory_order_relaxed) == own_mark();
}

void OpenSpace::lock(std::uint32_t mutex) {
  check_mutex(mutex, "cannot lock");
  if (holds(mutex)) {
    throw Error(ErrorCode::invalid_argument, {.asked = fmt::format("cannot lock mutex {}", mutex),
                                              .happened = "this thread holds it already",
                                              .limit = {},
                                              .remedy = "unlock it first: mutexes are not recursive"});
  }
  const Timing timing(clock(), counters().mutex_ns);
  space_.mutexes().lock(mutex);
  holders_[mutex].store(own_mark(), std::memory_order_relaxed);
}

bool OpenSpace::try_lock(std::uint32_t mutex) {
  check_mutex(mutex, "cannot lock");
  if (holds(mutex)) return false;
  const Timing timing(clock(), counters().mutex_ns);
  if (!space_.mutexes().try_lock(mutex)) return false;
  holders_[mutex].store(own_mark(), std::memory_order_relaxed);
  return true;
}

void OpenSpace::unlock(std::uint32_t mutex) {
  check_mutex(mutex, "cannot unlock");
  if (!holds(mutex)) {
    throw Error(ErrorCode::invalid_argument, {.asked = fmt::format("cannot unlock mutex {}", mutex),
                                              .happened = "this thread does not hold it",
                                              .limit = {},
                                              .remedy = "let the thread unlock that has locked it"});
  }
  const Timing timing(clock(), counters().mutex_ns);
  holders_[mutex].store(0, std::memory_order_relaxed);
  space_.mutexes().unlock(mutex);
}

// ---- The end

bool OpenSpace::has_to_tell() const {
  const Options& options = job_.options();
  return !observed_.path.empty() || options.text(Option::stats) != "none" ||
         options.text(Option::races) != "ignore";
}

void OpenSpace::tell() {
  has_told_ = true;
  agreement_.meet();
  const bool is_observed = !observed_.path.empty();
  // First of all: all ranks read it now.
  const observe::ClockPart clock = is_observed ? observe::ClockPart::read() : observe::ClockPart{};
  // What each tells: how many races had no room, the counters, the places of races.
  std::vector<std::byte> own;
  append(own, races_.left_out());
  std::vector<std::vector<std::uint64_t>> counters_here{space::values_of(space_.protocol())};
  for (const auto& segment : space_.segments())
    counters_here.push_back(space::values_of(segment->blocks().counters()));
  for (const std::vector<std::uint64_t>& values : counters_here) {
    for (const std::uint64_t value : values) append(own, value);
  }
  const std::vector<space::RacePlace> places_here = races_.places();
  append(own, std::uint64_t{places_here.size()});
  for (const space::RacePlace& place : places_here) append(own, place);
  if (is_observed) {
    const std::vector<std::byte> pieces = observe::own_pieces(job_.rank(), parts(), clock);
    own.insert(own.end(), pieces.begin(), pieces.end());
  }
  const std::vector<std::vector<std::byte>> all = collection_.collect(own);

  std::uint64_t left_out = 0;
  std::vector<std::vector<std::uint64_t>> counters_of_ranks;
  std::vector<space::SegmentStatistics> counters_of_segments;
  for (const auto& segment : space_.segments())
    counters_of_segments.push_back(
        {.name = segment->name(), .values = std::vector<std::uint64_t>(counters_here[0].size())});
  std::vector<space::RacePlace> places;
  std::vector<std::vector<std::byte>> records;
  for (const std::vector<std::byte>& one : all) {  // at rank 0; elsewhere there are none
    std::uint64_t left_out_there = 0;
    std::memcpy(&left_out_there, one.data(), sizeof left_out_there);
    left_out += left_out_there;
    const std::byte* next = one.data() + sizeof left_out_there;
    std::vector<std::uint64_t> values(counters_here[0].size());
    const auto take_values = [&] {
      std::memcpy(values.data(), next, values.size() * sizeof(std::uint64_t));
      next += values.size() * sizeof(std::uint64_t);
    };
    take_values();
    counters_of_ranks.push_back(values);
    for (space::SegmentStatistics& segment : counters_of_segments) {
      take_values();
      std::transform(values.begin(), values.end(), segment.values.begin(), segment.values.begin(),
                     std::plus<>());
    }
    std::uint64_t place_count = 0;
    std::memcpy(&place_count, next, sizeof place_count);
    next += sizeof place_count;
    for (; place_count != 0; --place_count, next += sizeof(space::RacePlace))
      std::memcpy(&places.emplace_back(), next, sizeof(space::RacePlace));
    records.emplace_back(next, one.data() + one.size());
  }
  if (job_.rank() == 0) {
    const std::string& form = job_.options().text(Option::stats);
    std::string statistics;
    if (form == "json") statistics = space::statistics_as_json(counters_of_ranks, counters_of_segments);
    if (form == "text") statistics = space::statistics_as_text(counters_of_ranks, counters_of_segments);
    places = space::merged_places(std::move(places));
    if (!is_observed || !hand_over(records, places, left_out, statistics)) {
      print_races(places, left_out);
      print_statistics(statistics);
    }
  }
}

void OpenSpace::close() {
  if (!has_told_) tell();
  agreement_.meet();  // rank 0 may still have asked others about the heap
  space_.close();
  job_.fabric().unregister_region(mutex_region);
  agreement_.close();
}

std::vector<observe::Part> OpenSpace::parts() {
  std::vector<observe::Part> parts;
  for (const auto& segment : space_.segments()) {
    parts.push_back({.begin = reinterpret_cast<std::uintptr_t>(segment->data()),
                     .bytes = segment->bytes(),
                     .block_bytes = segment->block_bytes(),
                     .part_bytes = 0,
                     .name = segment->name()});
  }
  if (const space::OwnedSegment* const owned = space_.owned_segment()) {
    parts.push_back({.begin = reinterpret_cast<std::uintptr_t>(owned->data()),
                     .bytes = owned->bytes(),
                     .block_bytes = space::OwnedSegment::block_bytes,
                     .part_bytes = owned->part_bytes(),
                     .name = "stacks"});
  }
  return parts;
}

/// At rank 0: to the launcher, which knows how to name what is in it. \returns whether it has it
bool OpenSpace::hand_over(const std::vector<std::vector<std::byte>>& records,
                          const std::vector<space::RacePlace>& places, std::uint64_t left_out,
                          const std::string& statistics) {
  std::vector<std::vector<std::byte>> pieces = records;
  std::vector<std::string> wheres;
  for (const space::RacePlace& place : places) wheres.push_back(where_of(place));
  pieces.push_back(observe::pieces_of(places, wheres, left_out, statistics));
  const int error = observe::write_pieces(observed_.path, pieces);
  if (error == 0) return true;
  write_fully(STDERR_FILENO, fmt::format("craton: cannot hand over what the ranks recorded, to {}: {}\n",
                                         observed_.path, std::strerror(error)));
  return false;
}

/// At rank 0, while the others' handlers still answer.
std::string OpenSpace::where_of(const space::RacePlace& place) {
  const space::Segment* const segment = space_.find(place.address);
  std::string where =
      fmt::format("offset {} of segment '{}'", place.address - segment->data(), segment->name());
  for (std::optional<space::Heap>* const heap : {&heap_, &large_heap_}) {
    if (!heap->has_value() || !(*heap)->contains(place.address)) continue;
    const std::optional<space::Heap::Allocation> allocation = (*heap)->find(place.address);
    where = allocation.has_value() ? fmt::format("byte {} of an allocation of {} bytes in the shared heap",
                                                 place.address - allocation->begin, allocation->bytes)
                                   : "memory of the shared heap that has been freed since";
  }
  return where;
}

void OpenSpace::print_races(const std::vector<space::RacePlace>& places, std::uint64_t left_out) {
  for (const space::RacePlace& place : places)
    write_fully(STDERR_FILENO, space::race_line(place, where_of(place)));
  if (left_out == 0) return;
  write_fully(
      STDERR_FILENO,
      fmt::format("craton: race: {} more were seen, at places for which there was no room\n", left_out));
}

void OpenSpace::print_statistics(const std::string& text) const {
  if (text.empty()) return;
  const std::string& path = job_.options().text(Option::stats_file);
  if (path.empty()) {
    write_fully(STDERR_FILENO, text);
    return;
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), &std::fclose);
  if (file != nullptr && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
      std::fflush(file.get()) == 0)
    return;
  // No reason to fail the job: its work is done.
  write_fully(STDERR_FILENO,
              fmt::format("craton: cannot write statistics to {}: {}\n", path, std::strerror(errno)));
}

}  // namespace craton::capi
