#include "space/race_log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "base/line_writer.hpp"

namespace craton::space {

void RaceLog::add_segment(Segment& segment) noexcept {
  const coherence::SegmentId id = segment.blocks().id();
  CRATON_ASSERT(id < segments_most);
  segments_[id].store(&segment, std::memory_order_release);
}

void RaceLog::saw(void* self, const coherence::Race& race) noexcept {
  auto& log = *static_cast<RaceLog*>(self);
  CRATON_ASSERT(race.segment < segments_most);
  const Segment* const segment = log.segments_[race.segment].load(std::memory_order_acquire);
  CRATON_ASSERT(segment != nullptr);
  const RacePlace place{.address = segment->data() + race.block * segment->block_bytes() + race.first_byte,
                        .bytes = race.bytes,
                        .count = 1,
                        .here = race.here,
                        .there = race.there,
                        .region = events::current_region()};
  if (log.abort_at_once_) log.abort_at(place, *segment);
  log.add(place);
}

void RaceLog::add(const RacePlace& place) noexcept {
  const fiber::SpinGuard<fiber::NativeSystem> guard(lock_);
  RacePlace* const end = places_.data() + place_count_;
  RacePlace* const known = std::find_if(
      places_.data(), end, [&place](const RacePlace& each) { return each.address == place.address; });
  if (known != end) {
    ++known->count;
    known->bytes = std::max(known->bytes, place.bytes);
  } else if (place_count_ < places_most) {
    places_[place_count_++] = place;
  } else {
    left_out_.fetch_add(1, std::memory_order_relaxed);
  }
}

void RaceLog::abort_at(const RacePlace& place, const Segment& segment) const noexcept {
  std::array<char, 512> buffer;
  LineWriter line(buffer.data(), buffer.size());
  line.append("craton: rank ");
  line.append_unsigned(own_);
  line.append(" ends at a race: ranks ");
  line.append_unsigned(place.there);
  line.append(" and ");
  line.append_unsigned(place.here);
  line.append(" wrote different values to ");
  line.append_unsigned(place.bytes);
  line.append(" bytes at 0x");
  line.append_unsigned(reinterpret_cast<std::uintptr_t>(place.address), 16);
  line.append(", offset ");
  line.append_unsigned(static_cast<std::uint64_t>(place.address - segment.data()));
  line.append(" of segment '");
  line.append(segment.name());
  line.append("', and nothing ordered them; order them by a barrier or a mutex\n");
  write_fully(STDERR_FILENO, line.text());
  std::abort();
}

std::vector<RacePlace> RaceLog::places() {
  const fiber::SpinGuard<fiber::NativeSystem> guard(lock_);
  return {places_.begin(), places_.begin() + static_cast<std::ptrdiff_t>(place_count_)};
}

std::vector<RacePlace> merged_places(std::vector<RacePlace> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const RacePlace& one, const RacePlace& other) { return one.address < other.address; });
  std::vector<RacePlace> merged;
  for (const RacePlace& place : all) {
    if (merged.empty() || merged.back().address != place.address) {
      merged.push_back(place);
      continue;
    }
    merged.back().count += place.count;
    merged.back().bytes = std::max(merged.back().bytes, place.bytes);
  }
  return merged;
}

std::string race_line(const RacePlace& place, const std::string& where) {
  return fmt::format(
      "craton: race: ranks {} and {} wrote different values to {} byte{} at {}, {}, and nothing ordered "
      "them; "
      "seen {} time{}\n",
      place.there, place.here, place.bytes, place.bytes == 1 ? "" : "s", fmt::ptr(place.address), where,
      place.count, place.count == 1 ? "" : "s");
}

}  // namespace craton::space
