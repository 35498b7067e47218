#include "omp/places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "base/runs.hpp"

namespace craton::omp {

namespace {

/// A list as the kernel writes it: 0-3,8-11. \returns what there is of it
Place read_list(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  Place numbers;
  Reader reader(text);
  do {
    const auto first = reader.take_number();
    if (!first) break;
    const auto last = reader.take('-') ? reader.take_number() : first;
    constexpr std::uint64_t most = 65535;
    if (!last || *last > most) break;
    for (std::uint64_t i = *first; i <= *last; ++i) numbers.push_back(static_cast<std::uint32_t>(i));
  } while (reader.take(','));
  return numbers;
}

Place common(const Place& one, const Place& other) {
  Place both;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
  return both;
}

/// So many, that far from each other. What is below 0 or too large is not there.
std::optional<std::vector<std::int64_t>> take_interval(Reader& reader, std::int64_t first) {
  std::int64_t count = 1;
  std::int64_t stride = 1;
  constexpr std::uint64_t most = 65536;
  if (reader.take(':')) {
    const auto given = reader.take_number();
    if (!given || *given == 0 || *given > most) return std::nullopt;
    count = static_cast<std::int64_t>(*given);
    if (reader.take(':')) {
      const auto apart = reader.take_signed();
      if (!apart) return std::nullopt;
      stride = *apart;
    }
  }
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(first + i * stride);
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

void remove(Numbers& from, const Numbers& numbers) {
  from.erase(std::remove_if(from.begin(), from.end(),
                            [&](std::int64_t number) {
                              return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
                            }),
             from.end());
}

std::optional<std::int64_t> take_processor(Reader& reader) {
  const auto number = reader.take_number();
  constexpr std::uint64_t most = 65535;
  if (!number || *number > most) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// {0,1}, {0:4}, {0:4:2,!2}; or one number without braces, as GCC's library takes it.
std::optional<Numbers> take_place(Reader& reader) {
  if (!reader.take('{')) {
    const auto only = take_processor(reader);
    if (!only) return std::nullopt;
    return Numbers{*only};
  }
  Numbers place;
  do {
    const bool is_left_out = reader.take('!');
    const auto first = take_processor(reader);
    if (!first) return std::nullopt;
    const auto numbers = take_interval(reader, *first);
    if (!numbers) return std::nullopt;
    if (is_left_out) {
      remove(place, *numbers);
    } else {
      place.insert(place.end(), numbers->begin(), numbers->end());
    }
  } while (reader.take(','));
  if (!reader.take('}')) return std::nullopt;
  std::sort(place.begin(), place.end());
  place.erase(std::unique(place.begin(), place.end()), place.end());
  return place;
}

std::optional<std::vector<Numbers>> take_place_list(Reader& reader) {
  std::vector<Numbers> places;
  do {
    const bool is_left_out = reader.take('!');
    const auto place = take_place(reader);
    if (!place) return std::nullopt;
    const auto shifts = take_interval(reader, 0);
    if (!shifts) return std::nullopt;
    if (is_left_out) {
      if (shifts->size() != 1) return std::nullopt;
      places.erase(std::remove(places.begin(), places.end(), *place), places.end());
      continue;
    }
    for (const std::int64_t shift : *shifts) {
      Numbers shifted = *place;
      for (std::int64_t& number : shifted) number += shift;
      places.push_back(std::move(shifted));
    }
  } while (reader.take(','));
  return places;
}

PlaceList usable_places(const std::vector<Numbers>& asked, const Topology& topology) {
  PlaceList list{.places = {}, .asked_for = asked.size()};
  for (const Numbers& numbers : asked) {
    Place place;
    for (const std::uint32_t processor : topology.usable()) {
      if (std::binary_search(numbers.begin(), numbers.end(), std::int64_t{processor}))
        place.push_back(processor);
    }
    if (!place.empty()) list.places.push_back(std::move(place));
  }
  return list;
}

}  // namespace

// ---- Topology

Topology::Topology(std::vector<std::uint32_t> usable, std::string root)
    : usable_(std::move(usable)), root_(std::move(root)) {}

/// The processors that share a thing with one, itself among them.
Place Topology::together(PlaceKind kind, std::uint32_t processor) const {
  const std::string folder = fmt::format("{}/cpu/cpu{}/", root_, processor);
  Place found;
  switch (kind) {
    case PlaceKind::threads:
      return {processor};
    case PlaceKind::cores:
      found = read_list(folder + "topology/thread_siblings_list");
      if (found.empty()) return {processor};
      break;
    case PlaceKind::sockets:
      found = read_list(folder + "topology/core_siblings_list");
      break;
    case PlaceKind::ll_caches: {
      constexpr int most_caches = 8;
      std::int64_t highest = 0;
      for (int i = 0; i < most_caches; ++i) {
        const std::string cache = fmt::format("{}cache/index{}/", folder, i);
        const Place level = read_list(cache + "level");
        if (level.empty() || level[0] <= highest) continue;
        highest = level[0];
        found = read_list(cache + "shared_cpu_list");
      }
      break;
    }
    case PlaceKind::numa_domains: {
      constexpr int most_nodes = 1024;
      for (int node = 0; node < most_nodes; ++node) {
        Place whole = read_list(fmt::format("{}/node/node{}/cpulist", root_, node));
        if (std::binary_search(whole.begin(), whole.end(), processor)) {
          found = std::move(whole);
          break;
        }
        if (whole.empty() && node > 0) break;
      }
    }
  }
  std::sort(found.begin(), found.end());
  if (!std::binary_search(found.begin(), found.end(), processor)) return usable_;
  return found;
}

/// The things of a kind that a set of processors has, by their first processors.
std::vector<Place> Topology::split(const Place& whole, PlaceKind kind) const {
  std::vector<Place> parts;
  Place rest = whole;
  while (!rest.empty()) {
    Place part = common(rest, together(kind, rest.front()));
    Place others;
    std::set_difference(rest.begin(), rest.end(), part.begin(), part.end(), std::back_inserter(others));
    parts.push_back(std::move(part));
    rest = std::move(others);
  }
  return parts;
}

std::vector<Place> Topology::places(PlaceKind kind) const {
  if (kind != PlaceKind::threads && kind != PlaceKind::cores) return split(usable_, kind);
  std::vector<Place> places;
  for (const Place& socket : split(usable_, PlaceKind::sockets)) {
    for (const Place& core : split(socket, PlaceKind::cores)) {
      std::vector<Place> parts = split(core, kind);
      std::move(parts.begin(), parts.end(), std::back_inserter(places));
    }
  }
  return places;
}

// ---- Values of variables

std::optional<PlaceList> take_places(Reader& reader, const Topology& topology) {
  constexpr std::array<std::pair<std::string_view, PlaceKind>, 5> names{
      {{"threads", PlaceKind::threads},
       {"cores", PlaceKind::cores},
       {"ll_caches", PlaceKind::ll_caches},
       {"sockets", PlaceKind::sockets},
       {"numa_domains", PlaceKind::numa_domains}}};
  for (const auto& [name, kind] : names) {
    if (!reader.take_word(name)) continue;
    std::size_t most = std::numeric_limits<std::size_t>::max();
    if (reader.take('(')) {
      const auto number = reader.take_number();
      if (!number || *number == 0 || !reader.take(')')) return std::nullopt;
      most = *number;
    }
    PlaceList list{.places = topology.places(kind), .asked_for = 0};
    if (list.places.size() > most) list.places.resize(most);
    list.asked_for = list.places.size();
    return list;
  }
  const auto asked = take_place_list(reader);
  if (!asked) return std::nullopt;
  return usable_places(*asked, topology);
}

std::optional<PlaceList> take_cpu_affinity(Reader& reader, const Topology& topology) {
  std::vector<Numbers> asked;
  while (!reader.is_at_end()) {
    const auto first = reader.take_number();
    const auto last = first && reader.take('-') ? reader.take_number() : first;
    constexpr std::uint64_t most = 65535;
    if (!last || *last < *first || *last > most) return std::nullopt;
    const auto stride = *first != *last && reader.take(':') ? reader.take_number() : 1U;
    if (!stride || *stride == 0 || *stride > most) return std::nullopt;
    for (std::uint64_t number = *first; number <= *last; number += *stride)
      asked.push_back({static_cast<std::int64_t>(number)});
    reader.take(',');
  }
  return usable_places(asked, topology);
}

std::string text_of(const std::vector<Place>& places) {
  std::string text;
  for (const Place& place : places) {
    text += text.empty() ? "{" : ",{";
    const char* before = "";
    for_runs(std::span(place), [&](auto run) {
      text += std::exchange(before, ",");
      text += run.size() > 1 ? fmt::format("{}:{}", run[0], run.size()) : fmt::format("{}", run[0]);
    });
    text += '}';
  }
  return text;
}

// ---- Seats

Seat seat_of_rank(std::uint32_t places, std::uint32_t number, std::uint32_t ranks) noexcept {
  if (places == 0) return {};
  if (places < ranks) return {.place = number % places, .first = number % places, .count = 1};
  const auto begin = [&](std::uint64_t rank) { return static_cast<std::uint32_t>(rank * places / ranks); };
  return {.place = begin(number), .first = begin(number), .count = begin(number + 1) - begin(number)};
}

Seat seat_of_thread(const Seat& starter, Binding binding, std::uint32_t number,
                    std::uint32_t threads) noexcept {
  const std::uint32_t places = starter.count;
  const auto at = [&](std::uint32_t beyond) {
    return starter.first + (starter.place - starter.first + beyond) % places;
  };
  // Where there are more threads than places: so many a place, and those that are left one a place.
  const auto beyond = [&] {
    if (threads <= places) return number;
    const std::uint32_t together = threads / places;
    const std::uint32_t left = threads % places;
    return number < threads - left ? number / together : number - (threads - left);
  };
  if (binding == Binding::primary) return starter;
  if (binding != Binding::spread)
    return {.place = at(beyond()), .first = starter.first, .count = starter.count};
  if (threads > places) {
    const std::uint32_t place = at(beyond());
    return {.place = place, .first = place, .count = 1};
  }
  // Each gets a part of the partition; the starter the one that its place is in.
  const auto begin = [&](std::uint32_t part) {
    return starter.first + part * (places / threads) + std::min(part, places % threads);
  };
  std::uint32_t own = 0;
  while (own + 1 < threads && begin(own + 1) <= starter.place) ++own;
  const std::uint32_t part = (own + number) % threads;
  return {.place = number == 0 ? starter.place : begin(part),
          .first = begin(part),
          .count = begin(part + 1) - begin(part)};
}

}  // namespace craton::omp
