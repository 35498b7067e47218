/// \file
/// What is told of records that are made by hand: names of memory, whatever its size and its number, and
/// names that are no text.
#include "observe/sharing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "observe/regions.hpp"
#include "observe/trace.hpp"
#include "space/statistics.hpp"

namespace craton::observe {

namespace {

using events::Event;
using events::Kind;

constexpr std::uint64_t heap_begin = std::uint64_t{1} << 40U;
constexpr std::uint64_t heap_bytes = std::uint64_t{1} << 34U;
constexpr std::uint64_t block_bytes = 16384;
constexpr std::uint64_t a_region = 1;

/// Two ranks with a thread each and one heap.
Record record_of_two() {
  Record record;
  record.ranks.resize(2);
  for (RankPart& rank : record.ranks) {
    rank.parts.push_back({.begin = heap_begin,
                          .bytes = heap_bytes,
                          .block_bytes = block_bytes,
                          .part_bytes = 0,
                          .name = "large heap"});
    rank.threads.resize(1);
  }
  return record;
}

std::vector<Event>& events_of(Record& record, unsigned rank) {
  return record.ranks[rank].threads[0].events;
}

Event fault(std::uint64_t start_ns, std::uint64_t offset) {
  return {.start_ns = start_ns,
          .duration_ns = 10,
          .address = heap_begin + offset,
          .code = 0,
          .region = a_region,
          .bytes = 0,
          .messages = 0,
          .kind = Kind::write_fault,
          .mark = 0};
}

/// As the program's thread would note it.
Event allocation(std::uint64_t start_ns, std::uint64_t offset, std::uint64_t bytes) {
  Event noted{};
  std::thread([&] {
    events::start(events::list | events::sharing, 1000);
    events::note(Kind::allocation, reinterpret_cast<const void*>(heap_begin + offset), bytes);
    events::for_threads([&](const events::ThreadRecord& thread) {
      for (std::size_t i = 0; i < thread.event_count; ++i)
        if (thread.events[i].start_ns > noted.start_ns) noted = thread.events[i];
    });
  }).join();
  noted.start_ns = start_ns;
  return noted;
}

/// Of the dearest first, separated by semicolons.
std::string names_of(const Record& record) {
  Symbols symbols({});
  std::string names;
  for (const SharedVariable& variable : sharing_report(record, symbols).variables)
    names += (names.empty() ? "" : "; ") + variable.name;
  return names;
}

}  // namespace

TEST(NamesOfMemory, ReachToTheEndOfALargeArray) {
  constexpr std::uint64_t gibi = std::uint64_t{1} << 30U;
  Record record = record_of_two();
  events_of(record, 0) = {allocation(100, 0, 6 * gibi), fault(200, 5 * gibi)};
  events_of(record, 1) = {fault(300, 5 * gibi + 8)};
  EXPECT_EQ(names_of(record), "6442450944 bytes allocated by the program");
}

TEST(NamesOfMemory, AreOfWhatWasThereAtTheTime) {
  Record record = record_of_two();
  events_of(record, 0) = {allocation(100, 0, 4 * block_bytes), fault(200, block_bytes),
                          allocation(300, block_bytes, block_bytes)};
  // What lies on both sides of the second one is still the first one's.
  events_of(record, 1) = {fault(250, block_bytes), fault(400, 0), fault(401, 2 * block_bytes)};
  events_of(record, 0).push_back(fault(402, 0));
  events_of(record, 0).push_back(fault(403, 2 * block_bytes));
  EXPECT_EQ(names_of(record), "65536 bytes allocated by the program");
  events_of(record, 0).push_back(fault(404, block_bytes));
  EXPECT_EQ(names_of(record),
            "65536 bytes allocated by the program; "
            "16384 bytes allocated by the program, 65536 bytes allocated by the program");
}

// Looking through all that is allocated at each fault would take minutes.
TEST(NamesOfMemory, AreFoundAmongManyAllocations) {
  constexpr std::uint64_t many = 300'000;
  constexpr std::uint64_t bytes = 64;
  Record record = record_of_two();
  const Event one = allocation(1, 0, bytes);
  for (std::uint64_t i = 0; i < many; ++i) {
    Event each = one;
    each.start_ns = 1 + i;
    each.address += i * bytes;
    events_of(record, 0).push_back(each);
  }
  for (std::uint64_t i = 0; i < many; ++i) {
    events_of(record, 0).push_back(fault(many + 20 * i, 0));
    events_of(record, 1).push_back(fault(many + 20 * i, 8));
  }
  Symbols symbols({});
  const SharingReport report = sharing_report(record, symbols);
  ASSERT_EQ(report.variables.size(), 1U);
  EXPECT_EQ(report.variables[0].name, "64 bytes allocated by the program");
  EXPECT_EQ(report.variables[0].faults, 2 * many);
  EXPECT_EQ(report.whole_ns, many + 20 * (many - 1) + 10 - 1);
}

TEST(Clocks, OfOtherHostsAreRankZeros) {
  constexpr std::uint64_t booted_later_ns = 100'000'000'000'000;
  constexpr std::uint64_t met_ns = booted_later_ns + 1'000'000;
  // Ranks 0 and 2 are on one host, 1 and 3 on another. Of these, 2 and 3 were late to see that all had met.
  constexpr std::uint64_t late_ns = 500;
  const std::vector<ClockPart> clocks = {{.host = "one", .now_ns = met_ns},
                                         {.host = "other", .now_ns = met_ns - booted_later_ns},
                                         {.host = "one", .now_ns = met_ns + late_ns},
                                         {.host = "other", .now_ns = met_ns - booted_later_ns + late_ns}};
  std::uint64_t noted_ns = 0;
  std::thread([&] {
    events::start(events::list | events::sharing, 1000);
    events::note(Kind::allocation, reinterpret_cast<const void*>(heap_begin), 100);
    events::for_threads([&](const events::ThreadRecord& thread) {
      if (thread.event_count != 0) noted_ns = thread.events[thread.event_count - 1].start_ns;
    });
  }).join();
  std::string pieces;
  for (unsigned rank = 0; rank < clocks.size(); ++rank) {
    const std::vector<std::byte> own = own_pieces(rank, {}, clocks[rank]);
    pieces.append(reinterpret_cast<const char*>(own.data()), own.size());
  }
  // All have the events of this process, by the clocks of their hosts.
  const std::vector<std::uint64_t> expected_ns = {noted_ns, noted_ns + booted_later_ns, noted_ns,
                                                  noted_ns + booted_later_ns};
  const Record record = read_pieces(pieces);
  ASSERT_EQ(record.ranks.size(), clocks.size());
  for (unsigned rank = 0; rank < clocks.size(); ++rank) {
    std::vector<std::uint64_t> times_ns;
    for (const ThreadPart& thread : record.ranks[rank].threads)
      for (const Event& event : thread.events) times_ns.push_back(event.start_ns);
    EXPECT_TRUE(std::find(times_ns.begin(), times_ns.end(), expected_ns[rank]) != times_ns.end())
        << "rank " << rank;
  }
}

TEST(NamesOfMemory, AreFoundAcrossHosts) {
  constexpr std::uint64_t booted_later_ns = 100'000'000'000'000;
  Record record = record_of_two();
  // Rank 1 allocates, later rank 0 uses it; by its own clock, long before.
  record.ranks[0].clock = {.host = "one", .now_ns = 1'000};
  events_of(record, 0) = {fault(500, 0)};
  record.ranks[1].clock = {.host = "other", .now_ns = 1'000 + booted_later_ns};
  events_of(record, 1) = {allocation(100 + booted_later_ns, 0, 4096), fault(200 + booted_later_ns, 0)};
  take_one_clock(record);
  EXPECT_EQ(names_of(record), "4096 bytes allocated by the program");
  Symbols symbols({});
  EXPECT_EQ(sharing_report(record, symbols).whole_ns, 410U);
}

TEST(Json, IsTextWhateverTheNamesAre) {
  // A lone byte of Latin-1, a character cut off, one in too many bytes, half of a pair, one beyond the last.
  const std::string name =
      "b\xe4r \xe2\x82 \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xc3\xa4\xf0\x9f\x98\x80\x7f\n\"\\";
  constexpr const char* there = "b\uFFFDr ";
  constexpr const char* at_the_end = " \u00E4\U0001F600\x7f\n\"\\";
  const auto expect_kept = [&](const std::string& told) {
    EXPECT_TRUE(told.starts_with(there)) << told;
    EXPECT_TRUE(told.ends_with(at_the_end)) << told;
  };
  RegionRow row{};
  row.region = name;
  expect_kept(nlohmann::json::parse(regions_as_json({row}))[0].at("region"));
  const auto values = space::counter_names().size();
  const std::string statistics = space::statistics_as_json(
      {std::vector<std::uint64_t>(values)}, {{.name = name, .values = std::vector<std::uint64_t>(values)}});
  expect_kept(nlohmann::json::parse(statistics).at("segments")[0].at("name"));

  Record record = record_of_two();
  record.ranks[0].modules = {{.base = 0, .begin = 0, .end = 1000, .path = "/nowhere/" + name}};
  events_of(record, 0) = {fault(100, 0)};
  Symbols symbols(record.ranks[0].modules);
  const nlohmann::json trace = nlohmann::json::parse(trace_as_json(record, symbols));
  std::string region;
  for (const nlohmann::json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X") region = event.at("args").at("region");
  EXPECT_TRUE(region.starts_with(there)) << region;
}

}  // namespace craton::observe
