#include "space/statistics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "base/json_text.hpp"

namespace craton::space {

namespace {

using coherence::Counters;
using Values = std::vector<std::uint64_t>;

// clang-format off
constexpr CounterName names[] = {
    {"read_faults", &Counters::read_faults},
    {"write_faults", &Counters::write_faults},
    {"spurious_faults", &Counters::spurious_faults},
    {"opened_ahead", &Counters::opened_ahead},
    {"read_ahead", &Counters::read_ahead},
    {"fast_reads", &Counters::fast_reads},
    {"slow_reads", &Counters::slow_reads},
    {"zero_reads", &Counters::zero_reads},
    {"fetched_bytes", &Counters::fetched_bytes},
    {"twins", &Counters::twins},
    {"fast_releases", &Counters::fast_releases},
    {"merges", &Counters::merges},
    {"unchanged", &Counters::unchanged},
    {"sole", &Counters::sole},
    {"shared", &Counters::shared},
    {"migrated", &Counters::migrated},
    {"kept", &Counters::kept},
    {"cooled", &Counters::cooled},
    {"sent", &Counters::sent},
    {"sent_in_vain", &Counters::sent_in_vain},
    {"merged_alone", &Counters::merged_alone},
    {"copied_back", &Counters::copied_back},
    {"put_bytes", &Counters::put_bytes},
    {"updates", &Counters::updates},
    {"notices", &Counters::notices},
    {"invalidations", &Counters::invalidations},
    {"expirations", &Counters::expirations},
    {"renewals", &Counters::renewals},
    {"sharer_messages", &Counters::sharer_messages},
    {"prefetched", &Counters::prefetched},
    {"prefetch_hits", &Counters::prefetch_hits},
    {"prefetch_waste", &Counters::prefetch_waste},
    {"lock_hops", &Counters::lock_hops},
    {"lock_waits", &Counters::lock_waits},
    {"races", &Counters::races},
    {"strong_reads", &Counters::strong_reads},
    {"strong_writes", &Counters::strong_writes},
    {"upgrades", &Counters::upgrades},
    {"forwards", &Counters::forwards},
    {"strong_invalidations", &Counters::strong_invalidations},
    {"strong_releases", &Counters::strong_releases},
    {"holds", &Counters::holds},
    {"rises", &Counters::rises},
    {"falls", &Counters::falls},
    {"falls_called_off", &Counters::falls_called_off},
    {"releases", &Counters::releases},
    {"acquires", &Counters::acquires},
    {"causal_acquires", &Counters::causal_acquires},
    {"heartbeats", &Counters::heartbeats},
    {"regions", &Counters::regions},
    {"fault_ns", &Counters::fault_ns},
    {"barrier_ns", &Counters::barrier_ns},
    {"mutex_ns", &Counters::mutex_ns},
    {"update_ns", &Counters::update_ns},
};
// clang-format on
static_assert((std::size(names) * sizeof(Counters::Count) + alignof(Counters) - 1) / alignof(Counters) *
                      alignof(Counters) ==
                  sizeof(Counters),
              "a counter has no name");

/// A column of the table.
struct Column {
  std::string_view title;
  std::array<std::string_view, 2> counters;  ///< added up; "" is none
  std::uint64_t unit;                        ///< the counter is divided by it
};

constexpr std::uint64_t kibi = 1024;
constexpr std::uint64_t ms = 1'000'000;
constexpr Column columns[] = {
    {"reads", {"read_faults", ""}, 1},
    {"writes", {"write_faults", ""}, 1},
    {"got KiB", {"fetched_bytes", ""}, kibi},
    {"put KiB", {"put_bytes", ""}, kibi},
    {"fast rel", {"fast_releases", ""}, 1},
    {"merges", {"merges", ""}, 1},
    {"dropped", {"invalidations", ""}, 1},
    {"prefetched", {"prefetched", ""}, 1},
    {"updates", {"updates", ""}, 1},
    {"fences", {"releases", "acquires"}, 1},
    {"races", {"races", ""}, 1},
    {"fault ms", {"fault_ns", ""}, ms},
    {"barrier ms", {"barrier_ns", ""}, ms},
    {"mutex ms", {"mutex_ns", "update_ns"}, ms},
};

std::uint64_t value_of(const Values& values, std::string_view name) {
  const auto* const found = std::find_if(std::begin(names), std::end(names),
                                         [name](const CounterName& each) { return each.name == name; });
  return found == std::end(names) ? 0 : values[static_cast<std::size_t>(found - names)];
}

Values sum_of(const std::vector<Values>& ranks) {
  Values sum(std::size(names));
  for (const Values& values : ranks) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

std::string line(std::string_view head, const Values& values) {
  std::string text = fmt::format("{:>6}", head);
  for (const Column& column : columns) {
    std::uint64_t value = 0;
    for (const std::string_view counter : column.counters) value += value_of(values, counter);
    text += fmt::format(" {:>{}}", value / column.unit, std::max<std::size_t>(column.title.size(), 7));
  }
  return text + "\n";
}

/// What may stand between quotation marks: names are any bytes that a program gives.
std::string members(const Values& values) {
  std::string text;
  for (std::size_t i = 0; i < std::size(names); ++i)
    text += fmt::format("{}\"{}\": {}", i == 0 ? "" : ", ", names[i].name, values[i]);
  return text;
}

}  // namespace

std::span<const CounterName> counter_names() noexcept {
  return names;
}

Values values_of(const Counters& counters) {
  Values values;
  for (const CounterName& each : names)
    values.push_back((counters.*each.count).load(std::memory_order_relaxed));
  return values;
}

Values values_of(const coherence::LeaseRelease& protocol) {
  Values values;
  for (const CounterName& each : names) values.push_back(protocol.count(each.count));
  return values;
}

std::string statistics_as_text(const std::vector<Values>& ranks,
                               const std::vector<SegmentStatistics>& segments) {
  std::string text = fmt::format("{:>6}", "rank");
  for (const Column& column : columns) text += fmt::format(" {:>7}", column.title);
  text += "\n";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) text += line(std::to_string(rank), ranks[rank]);
  text += line("sum", sum_of(ranks));
  if (segments.size() < 2) return text;
  text += "of it, by segment:\n";
  // The names stand behind the numbers, where they may be as long as they are.
  for (const SegmentStatistics& segment : segments) {
    std::string numbers = line("", segment.values);
    numbers.pop_back();
    text += fmt::format("{}  {}\n", numbers, segment.name);
  }
  return text;
}

std::string statistics_as_json(const std::vector<Values>& ranks,
                               const std::vector<SegmentStatistics>& segments) {
  std::string text = "{\"ranks\": [";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    text += fmt::format("{}\n  {{\"rank\": {}, {}}}", rank == 0 ? "" : ",", rank, members(ranks[rank]));
  text += "],\n \"segments\": [";
  for (const SegmentStatistics& segment : segments) {
    text += fmt::format("{}\n  {{\"name\": \"{}\", {}}}", &segment == &segments.front() ? "" : ",",
                        json_text(segment.name), members(segment.values));
  }
  return text + fmt::format("],\n \"sum\": {{{}}}}}\n", members(sum_of(ranks)));
}

}  // namespace craton::space
