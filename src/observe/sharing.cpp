#include "observe/sharing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace craton::observe {

namespace {

using events::Event;
using events::Kind;

/// Addresses that a rank is known to have used, from the first byte to the last.
struct Range {
  std::uint64_t begin;
  std::uint64_t end;
  bool writes;
  bool in_region;
};

struct Allocation {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t code;
};

/// What is allocated where, as far as is known at a time: of what has been freed there is no event.
class Allocated {
 public:
  /// It takes the place of what was there.
  void add(const Allocation& allocation) {
    if (allocation.begin >= allocation.end) return;
    cut(allocation.begin);
    cut(allocation.end);
    parts_.erase(parts_.lower_bound(allocation.begin), parts_.lower_bound(allocation.end));
    parts_.emplace(allocation.begin, Part{.end = allocation.end, .of = allocation});
  }
  const Allocation* find(std::uint64_t address) const {
    const auto above = parts_.upper_bound(address);
    if (above == parts_.begin()) return nullptr;
    const Part& part = std::prev(above)->second;
    return address < part.end ? &part.of : nullptr;
  }

 private:
  /// Of an allocation, others may lie in its middle.
  struct Part {
    std::uint64_t end;
    Allocation of;
  };

  /// No part reaches across the address any more.
  void cut(std::uint64_t address) {
    const auto above = parts_.lower_bound(address);
    if (above == parts_.begin()) return;
    Part& below = std::prev(above)->second;
    if (below.end <= address) return;
    parts_.emplace_hint(above, address, below);
    below.end = address;
  }

  std::map<std::uint64_t, Part> parts_;  ///< by where they begin
};

/// A fault, a merge or an allocation.
struct Step {
  std::uint64_t time_ns;
  unsigned rank;
  const Event* event;
  std::uint64_t cost_ns;
};

struct Named {
  std::string name;
  std::string line;
  std::uint64_t begin = 0;
  bool is_known = true;  ///< else it is only where it lies
};

struct UseSum {
  std::uint64_t times = 0;
  std::uint64_t first = ~std::uint64_t{0};
  std::uint64_t last = 0;
};

struct Block {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t cost_ns = 0;
  std::uint64_t faults = 0;
  std::uint64_t merges = 0;
  std::map<unsigned, std::vector<Range>> ranges;                   ///< by rank
  std::map<std::string, Named> names;                              ///< of what regions used in it
  std::map<std::string, Named> outside_names;                      ///< of what was used outside of all
  std::map<std::tuple<unsigned, bool, std::string>, UseSum> uses;  ///< by rank, kind and line
  std::map<std::size_t, std::uint64_t> heat;                       ///< by time bin
};

/// What a block is called by: what regions use matters more than who initialised its neighbours.
const std::map<std::string, Named>& names_of(const Block& block) {
  return block.names.empty() ? block.outside_names : block.names;
}

/// One rank may use the same words many thousand times.
constexpr std::size_t ranges_most = 256;

/// Of an allocation: the call, not what is behind it.
std::uint64_t caller_of(const Event& allocation) {
  return allocation.code - 1;
}

class Analysis {
 public:
  Analysis(const Record& record, Symbols& symbols) : record_(record), symbols_(symbols) { survey(); }

  SharingReport report();

 private:
  void survey();
  std::vector<Step> steps() const;
  void take(unsigned rank, const Event& event, std::uint64_t cost_ns);
  void take_all();
  const Part* part_of(std::uint64_t address) const;
  Named name(unsigned rank, const Event& event);
  std::optional<Verdict> judge(const Block& block) const;
  void add_heat(SharingReport& report) const;

  const Record& record_;
  Symbols& symbols_;
  Allocated allocated_;  ///< at the time of the event that is taken
  std::map<std::uint64_t, Block> blocks_;
  std::uint64_t first_ns_ = ~std::uint64_t{0};
  std::uint64_t last_ns_ = 0;
};

void Analysis::survey() {
  std::vector<std::uint64_t> codes;
  for (const RankPart& rank : record_.ranks) {
    for (const ThreadPart& thread : rank.threads) {
      for (const Event& event : thread.events) {
        first_ns_ = std::min(first_ns_, event.start_ns);
        const bool is_allocation = event.kind == Kind::allocation;
        last_ns_ = std::max(last_ns_, event.start_ns + (is_allocation ? 0 : event.duration_ns));
        if (is_fault(event.kind)) codes.push_back(event.code);
        codes.push_back(event.region);
        if (is_allocation) codes.push_back(caller_of(event));
      }
    }
  }
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  symbols_.learn_code(codes);
}

const Part* Analysis::part_of(std::uint64_t address) const {
  for (const RankPart& rank : record_.ranks) {
    for (const Part& part : rank.parts)
      if (address >= part.begin && address < part.begin + part.bytes) return &part;
  }
  return nullptr;
}

/// What the address of an event is, at its time.
Named Analysis::name(unsigned rank, const Event& event) {
  const Part* const part = part_of(event.address);
  if (part == nullptr) return {};
  if (const Variable* const variable = symbols_.variable(event.address))
    return {.name = variable->name, .line = variable->line, .begin = variable->begin};
  if (part->part_bytes != 0) {
    const std::uint64_t owner = (event.address - part->begin) / part->part_bytes;
    std::string what = fmt::format("a stack of rank {}", owner);
    // What other ranks use of a stack are the locals of whoever began the region.
    if (owner != rank && event.region != 0) what += ", locals of " + symbols_.region(event.region);
    return {.name = what, .line = {}, .begin = event.address / part->block_bytes * part->block_bytes};
  }
  if (const Allocation* const found = allocated_.find(event.address)) {
    const CodePlace place = symbols_.code(found->code);
    return {.name = fmt::format("{} bytes allocated by {}", found->end - found->begin,
                                place.function.empty() ? "the program" : place.function),
            .line = place.line,
            .begin = found->begin};
  }
  return {
      .name = fmt::format("block {} of {}", (event.address - part->begin) / part->block_bytes, part->name),
      .line = {},
      .begin = event.address / part->block_bytes * part->block_bytes,
      .is_known = false};
}

void Analysis::take(unsigned rank, const Event& event, std::uint64_t cost_ns) {
  const Part* const part = part_of(event.address);
  if (part == nullptr) return;
  const std::uint64_t begin =
      part->begin + (event.address - part->begin) / part->block_bytes * part->block_bytes;
  Block& block = blocks_[begin];
  block.begin = begin;
  block.bytes = part->block_bytes;
  block.cost_ns += cost_ns;
  const bool writes = event.kind != Kind::read_fault;
  if (is_fault(event.kind)) ++block.faults;
  if (event.kind == Kind::merge && event.mark != 0) ++block.merges;
  const std::uint64_t bytes = event.kind == Kind::merge ? event.bytes : 1;
  const Range range{
      .begin = event.address, .end = event.address + bytes, .writes = writes, .in_region = event.region != 0};
  std::vector<Range>& ranges = block.ranges[rank];
  const bool is_known = std::any_of(ranges.begin(), ranges.end(), [&](const Range& each) {
    return each.begin == range.begin && each.end == range.end && each.writes == range.writes &&
           each.in_region == range.in_region;
  });
  if (!is_known && ranges.size() < ranges_most) ranges.push_back(range);
  const Named named = name(rank, event);
  (event.region != 0 && named.is_known ? block.names : block.outside_names).emplace(named.name, named);
  const std::string line = symbols_.region(event.kind == Kind::merge ? event.region : event.code);
  UseSum& use = block.uses[{rank, writes, line}];
  ++use.times;
  use.first = std::min(use.first, range.begin - std::min(range.begin, named.begin));
  use.last = std::max(use.last, range.end - 1 - std::min(range.end - 1, named.begin));
  const std::uint64_t length_ns = std::max<std::uint64_t>(last_ns_ - first_ns_, 1);
  block.heat[std::min<std::size_t>((event.start_ns - first_ns_) * time_bins / length_ns, time_bins - 1)] +=
      cost_ns;
}

/// In the order of time; a fault when it is over.
std::vector<Step> Analysis::steps() const {
  std::vector<Step> steps;
  for (unsigned rank = 0; rank < record_.ranks.size(); ++rank) {
    const auto add = [&](const Event& event, std::uint64_t lasted_ns, std::uint64_t cost_ns) {
      steps.push_back(
          {.time_ns = event.start_ns + lasted_ns, .rank = rank, .event = &event, .cost_ns = cost_ns});
    };
    for (const ThreadPart& thread : record_.ranks[rank].threads) {
      // A release costs for the blocks that it publishes, which are noted before it ends itself.
      std::vector<const Event*> published;
      for (const Event& event : thread.events) {
        if (event.kind == Kind::allocation) add(event, 0, 0);
        if (is_fault(event.kind)) add(event, event.duration_ns, event.duration_ns);
        if (event.kind == Kind::merge) published.push_back(&event);
        if (event.kind != Kind::release || published.empty()) continue;
        for (const Event* const each : published) add(*each, 0, event.duration_ns / published.size());
        published.clear();
      }
      for (const Event* const each : published) add(*each, 0, 0);
    }
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& one, const Step& other) {
    const auto is_use = [](const Step& step) { return step.event->kind != Kind::allocation; };
    return std::pair(one.time_ns, is_use(one)) < std::pair(other.time_ns, is_use(other));
  });
  return steps;
}

void Analysis::take_all() {
  for (const Step& step : steps()) {
    const Event& event = *step.event;
    if (event.kind == Kind::allocation) {
      allocated_.add(
          {.begin = event.address, .end = event.address + event.duration_ns, .code = caller_of(event)});
    } else {
      take(step.rank, event, step.cost_ns);
    }
  }
}

/// Nothing where only one rank has used it.
std::optional<Verdict> Analysis::judge(const Block& block) const {
  if (block.ranges.size() < 2) return std::nullopt;
  const auto writers = [&](bool in_regions_only) {
    std::set<unsigned> ranks;
    for (const auto& [rank, ranges] : block.ranges)
      for (const Range& range : ranges)
        if (range.writes && (range.in_region || !in_regions_only)) ranks.insert(rank);
    return ranks;
  };
  const auto users_in_regions = [&] {
    std::set<unsigned> ranks;
    for (const auto& [rank, ranges] : block.ranges)
      for (const Range& range : ranges)
        if (range.in_region) ranks.insert(rank);
    return ranks;
  };
  // Two ranks wrote between the same two fences: had it been the same bytes, it would be a race.
  if (block.merges != 0) return Verdict::false_sharing;
  if (writers(false).empty()) return Verdict::only_read;
  if (users_in_regions().size() == 1 && writers(true).size() <= 1) return Verdict::moved_once;
  const std::set<unsigned> writing = writers(true);
  if (writing.empty()) return Verdict::one_writer;
  bool meets = false;
  for (const auto& [one, ranges] : block.ranges) {
    for (const auto& [other, other_ranges] : block.ranges) {
      if (one == other) continue;
      for (const Range& range : ranges) {
        if (!range.writes || !range.in_region) continue;
        meets = meets || std::any_of(other_ranges.begin(), other_ranges.end(), [&](const Range& each) {
                  return each.in_region && each.begin < range.end && range.begin < each.end;
                });
      }
    }
  }
  if (!meets && writing.size() > 1) return Verdict::false_sharing;
  return writing.size() > 1 ? Verdict::true_sharing : Verdict::one_writer;
}

std::string advice_for(const SharedVariable& variable, bool has_several_names) {
  constexpr std::uint64_t few_blocks = 4;
  switch (variable.verdict) {
    case Verdict::false_sharing:
      if (has_several_names) {
        return fmt::format("put them into blocks of their own: align each to {} bytes", variable.block_bytes);
      }
      if (variable.blocks <= few_blocks) {
        return fmt::format(
            "pad: give each thread's part a block of its own (align it to {} bytes); or privatise: let each "
            "thread use "
            "a local variable, and store it once at the end",
            variable.block_bytes);
      }
      return fmt::format(
          "change the schedule, so that each thread has whole blocks of {} bytes: schedule(static) with "
          "large chunks; "
          "and align the array to {} bytes",
          variable.block_bytes, variable.block_bytes);
    case Verdict::true_sharing:
      return "privatise: let each thread use a copy, and combine the copies once (a reduction does that)";
    case Verdict::one_writer:
      return "one rank writes what others read, so it has to travel: write it less often, or let each rank "
             "compute it";
    case Verdict::moved_once:
      return "initialise it in a parallel loop with the schedule of the loops that use it";
    case Verdict::only_read:
      break;
  }
  return "each rank fetches it once: nothing to be done";
}

SharingReport Analysis::report() {
  take_all();
  SharingReport report;
  report.ranks = record_.ranks.size();
  report.whole_ns = last_ns_ > first_ns_ ? last_ns_ - first_ns_ : 0;
  for (const RankPart& rank : record_.ranks)
    for (const ThreadPart& thread : rank.threads) report.lost += thread.lost;

  // Blocks of the same variables with the same verdict are one.
  std::map<std::pair<std::string, Verdict>, std::vector<const Block*>> groups;
  for (const auto& [begin, block] : blocks_) {
    const std::optional<Verdict> verdict = judge(block);
    if (!verdict) {
      report.private_ns += block.cost_ns;
      continue;
    }
    std::string names;
    for (const auto& [name, named] : names_of(block)) names += (names.empty() ? "" : ", ") + name;
    groups[{names, *verdict}].push_back(&block);
  }
  for (const auto& [key, blocks] : groups) {
    SharedVariable variable{};
    variable.name = key.first;
    variable.verdict = key.second;
    variable.blocks = blocks.size();
    variable.block_bytes = blocks.front()->bytes;
    variable.line = names_of(*blocks.front()).begin()->second.line;
    std::map<std::tuple<unsigned, bool, std::string>, UseSum> uses;
    for (const Block* const block : blocks) {
      variable.cost_ns += block->cost_ns;
      variable.faults += block->faults;
      variable.merges += block->merges;
      for (const auto& [use, sum] : block->uses) {
        UseSum& all = uses[use];
        all.times += sum.times;
        all.first = std::min(all.first, sum.first);
        all.last = std::max(all.last, sum.last);
      }
    }
    for (const auto& [use, sum] : uses) {
      variable.uses.push_back({.rank = std::get<0>(use),
                               .writes = std::get<1>(use),
                               .line = std::get<2>(use),
                               .times = sum.times,
                               .first_byte = sum.first,
                               .last_byte = sum.last});
    }
    variable.advice = advice_for(variable, names_of(*blocks.front()).size() > 1);
    report.cost_ns += variable.cost_ns;
    report.variables.push_back(std::move(variable));
  }
  std::stable_sort(
      report.variables.begin(), report.variables.end(),
      [](const SharedVariable& one, const SharedVariable& other) { return one.cost_ns > other.cost_ns; });
  add_heat(report);
  return report;
}

/// As many rows as a page has room for: neighbours share one where there are more.
void Analysis::add_heat(SharingReport& report) const {
  constexpr std::size_t rows_most = 96;
  const std::size_t in_a_row = blocks_.size() / rows_most + 1;
  std::size_t number = 0;
  for (const auto& [begin, block] : blocks_) {
    if (number++ % in_a_row == 0) {
      report.heat.push_back(
          {.begin = begin, .end = 0, .name = names_of(block).begin()->first, .cost_ns = {}});
    }
    HeatRow& row = report.heat.back();
    row.end = begin + block.bytes;
    for (const auto& [bin, cost_ns] : block.heat) row.cost_ns[bin] += cost_ns;
  }
}

}  // namespace

std::string_view name_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::false_sharing:
      return "false sharing";
    case Verdict::true_sharing:
      return "true sharing";
    case Verdict::one_writer:
      return "true sharing, one writer";
    case Verdict::moved_once:
      return "moved once";
    case Verdict::only_read:
      break;
  }
  return "only read";
}

SharingReport sharing_report(const Record& record, Symbols& symbols) {
  return Analysis(record, symbols).report();
}

void tell_races(const Record& record, Symbols& symbols, FunctionRef<void(const std::string&)> tell) {
  std::vector<std::uint64_t> regions;
  for (const space::RacePlace& place : record.races) regions.push_back(place.region);
  symbols.learn_code(regions);
  for (std::size_t i = 0; i < record.races.size(); ++i) {
    const space::RacePlace& place = record.races[i];
    const auto address = reinterpret_cast<std::uintptr_t>(place.address);
    std::string where = i < record.race_wheres.size() ? record.race_wheres[i] : std::string();
    if (const Variable* const variable = symbols.variable(address)) {
      where = fmt::format("byte {} of {}{}", address - variable->begin, variable->name,
                          variable->line.empty() ? "" : fmt::format(" ({})", variable->line));
    }
    if (place.region != 0) where += ", in " + symbols.region(place.region);
    tell(space::race_line(place, where));
  }
  if (record.races_left_out != 0) {
    tell(fmt::format("craton: race: {} more were seen, at places for which there was no room\n",
                     record.races_left_out));
  }
}

}  // namespace craton::observe
