#include "observe/regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/json_text.hpp"

namespace craton::observe {

namespace {

using events::Kind;

void add(RegionRow& row, const events::Totals& totals) {
  const auto ns = [&](Kind kind) { return totals.ns[static_cast<std::size_t>(kind)]; };
  const auto count = [&](Kind kind) { return totals.count[static_cast<std::size_t>(kind)]; };
  row.parts += count(Kind::compute);
  row.compute_ns += ns(Kind::compute);
  row.fault_ns += ns(Kind::read_fault) + ns(Kind::write_fault);
  row.transfer_ns += ns(Kind::transfer);
  row.fence_ns += ns(Kind::release) + ns(Kind::acquire);
  row.barrier_ns += ns(Kind::barrier);
  row.idle_ns += ns(Kind::idle);
  row.faults += count(Kind::read_fault) + count(Kind::write_fault);
  row.bytes += totals.bytes;
  row.messages += totals.messages;
}

struct Member {
  const char* name;
  std::uint64_t RegionRow::*value;
};
constexpr std::array members{
    Member{"parts", &RegionRow::parts},       Member{"compute_ns", &RegionRow::compute_ns},
    Member{"fault_ns", &RegionRow::fault_ns}, Member{"transfer_ns", &RegionRow::transfer_ns},
    Member{"fence_ns", &RegionRow::fence_ns}, Member{"barrier_ns", &RegionRow::barrier_ns},
    Member{"idle_ns", &RegionRow::idle_ns},   Member{"faults", &RegionRow::faults},
    Member{"bytes", &RegionRow::bytes},       Member{"messages", &RegionRow::messages}};

}  // namespace

std::vector<RegionRow> region_rows(const Record& record, Symbols& symbols) {
  std::vector<std::uint64_t> functions;
  for (const RankPart& rank : record.ranks)
    for (const ThreadPart& thread : rank.threads)
      for (const events::Totals& totals : thread.totals) functions.push_back(totals.region);
  symbols.learn_code(functions);

  constexpr const char* own_threads = "the runtime's own threads";
  std::map<std::string, std::map<unsigned, RegionRow>> regions;
  for (unsigned rank = 0; rank < record.ranks.size(); ++rank) {
    for (const ThreadPart& thread : record.ranks[rank].threads) {
      for (const events::Totals& totals : thread.totals) {
        const std::string name = thread.is_of_program ? symbols.region(totals.region) : own_threads;
        RegionRow& row = regions[name][rank];
        row.region = name;
        row.rank = rank;
        add(row, totals);
      }
    }
  }
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [name, ranks] : regions) {
    std::uint64_t whole_ns = 0;
    for (const auto& [rank, row] : ranks) whole_ns += row.whole_ns() - row.idle_ns;
    order.emplace_back(name == own_threads ? 0 : whole_ns + 1, name);
  }
  std::sort(order.rbegin(), order.rend());
  std::vector<RegionRow> rows;
  for (const auto& [ns, name] : order)
    for (const auto& [rank, row] : regions[name]) rows.push_back(row);
  return rows;
}

std::string regions_as_text(const std::vector<RegionRow>& rows) {
  constexpr std::uint64_t ms = 1'000'000;
  std::string text = fmt::format(
      "by region, in ms of all threads:\n{:>6} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8}\n",
      "rank", "times", "compute", "faults", "transfer", "fences", "barrier", "idle", "faults", "KiB",
      "messages");
  std::string last;
  for (const RegionRow& row : rows) {
    if (row.region != last) text += fmt::format("{}\n", last = row.region);
    text += fmt::format("{:>6} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8}\n", row.rank,
                        row.parts, row.compute_ns / ms, row.fault_ns / ms, row.transfer_ns / ms,
                        row.fence_ns / ms, row.barrier_ns / ms, row.idle_ns / ms, row.faults,
                        row.bytes / 1024, row.messages);
  }
  return text;
}

std::string regions_as_json(const std::vector<RegionRow>& rows) {
  std::string text = "[";
  for (const RegionRow& row : rows) {
    text += fmt::format("{}\n  {{\"region\": \"{}\", \"rank\": {}", &row == rows.data() ? "" : ",",
                        json_text(row.region), row.rank);
    for (const Member& member : members) text += fmt::format(", \"{}\": {}", member.name, row.*member.value);
    text += "}";
  }
  return text + "]";
}

}  // namespace craton::observe
