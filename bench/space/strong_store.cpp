// All ranks write a byte of one page, again and again (vGASNet, figure 10): the page goes from rank to rank,
// or by way of its owner's store, which is a file.
#include <atomic>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"
#include "space/file_store.hpp"
#include "space/ranks.hpp"
#include "space/strong.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr fabric::Rank rank_counts[] = {2, 4};
constexpr std::uint64_t warm_iterations = 2;
constexpr std::size_t least_iterations = 5;
struct Variant {
  const char* name;
  coherence::Transfer transfer;
};
constexpr Variant variants[] = {{"cooperative", coherence::Transfer::cooperative},
                                {"write-back", coherence::Transfer::write_back}};

struct Result {
  std::vector<double> times_ns;
  double sum_ns = 0;
};

/// What all ranks share beside the page.
struct Shared {
  std::atomic<bool> goes_on;
  std::atomic<TimeNs> store_ns[4];  ///< of each rank's store, in this iteration
};

void complain(const char* happened) {
  throw Error(ErrorCode::protocol, {"cannot measure writes to one page", happened, "", ""});
}

/// What writing back costs without us.
Sample write_and_read(TimeNs turn_ns) {
  FileStore store(1, page_bytes);
  const fabric::RegionMemory page("craton bench page", page_bytes);
  return time_runs(
      turn_ns, 1,
      [&] {
        store.write(0, page.data());
        store.read(0, page.data());
      },
      least_iterations);
}

/// Each rank writes its byte, then all meet: without that, who has the page would write at its leisure, and
/// only the processor's scheduler would be measured. The time of an iteration is that of a rank's store, in
/// the mean of all ranks; the last writer of the iteration before has nearly none.
Result write_in_turn(const SpaceRank& rank, coherence::Transfer transfer, TimeNs turn_ns, Shared& shared) {
  FileStore store(1, page_bytes);
  space::Segment& segment =
      rank.space.create_segment({.name = "bench",
                                 .bytes = page_bytes,
                                 .block_bytes = page_bytes,
                                 .initial_homes = {.kind = coherence::InitialHomes::Kind::one, .rank = 0},
                                 .dials = {.strength = coherence::Strength::strong}});
  rank.space.exclusive().set_store(segment.blocks().id(), store, transfer);
  volatile std::byte* const data = segment.data();
  Result result;
  const std::uint64_t writes_before = store.writes();
  shared.goes_on = true;
  rank.barrier();
  auto value = std::byte{0};
  std::uint64_t iterations = 0;
  const TimeNs begun_ns = now_ns();
  for (; shared.goes_on; ++iterations) {
    value = static_cast<std::byte>(iterations % 255 + 1);
    const TimeNs before = now_ns();
    data[rank.rank()] = value;
    shared.store_ns[rank.rank()] = now_ns() - before;
    rank.barrier(1);
    if (rank.rank() == 0) {
      if (iterations >= warm_iterations) {
        double sum_ns = 0;
        for (fabric::Rank each = 0; each < rank.size(); ++each)
          sum_ns += static_cast<double>(shared.store_ns[each].load());
        result.times_ns.push_back(sum_ns / rank.size());
        result.sum_ns += result.times_ns.back();
      }
      shared.goes_on = result.times_ns.size() < least_iterations || now_ns() - begun_ns < turn_ns;
    }
    rank.barrier(2);
  }
  for (fabric::Rank each = 0; each < rank.size(); ++each) {
    if (data[each] != value) complain("a write was lost");
  }
  rank.barrier();
  // The page changes hands in each iteration.
  const std::uint64_t writes = store.writes() - writes_before;
  if (rank.rank() == 0 && transfer == coherence::Transfer::cooperative && writes != 0)
    complain("what was passed on went to the store");
  if (rank.rank() == 0 && transfer == coherence::Transfer::write_back && writes + 1 < iterations)
    complain("what was written did not go to the store");
  rank.barrier();  // before the store goes
  return result;
}

}  // namespace

void measure_store(const Arguments& arguments, std::string_view transport) {
  if (!FileStore(1, page_bytes).is_direct())
    report_problem("the store of strong blocks",
                   "its file system has no O_DIRECT: reads come from the cache");
  const Forked<Shared> shared;
  for (const fabric::Rank ranks : rank_counts) {
    const std::string what =
        std::string(transport) + ": strong: one page written by " + std::to_string(ranks) + " ranks";
    for (int round = 0; round < arguments.rounds; ++round) {
      for (const Variant& variant : variants) {
        run_space(transport, ranks, {}, [&](SpaceRank& rank) {
          Result result = write_in_turn(rank, variant.transfer, arguments.turn_ns, *shared);
          if (rank.rank() != 0) return;
          report_time({space_kernel, what, variant.name, round},
                      summarise(result.times_ns, result.times_ns.size(), static_cast<TimeNs>(result.sum_ns)));
        });
      }
      report_time({space_kernel, what, "the store alone", round}, write_and_read(arguments.turn_ns));
    }
  }
}

}  // namespace craton::bench
