// Ranks that write stripes of one block in turn, then meet (dissertation, figure 3.31).
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t shared_bytes = 32768;
constexpr std::size_t stripes[] = {8, 64, 512, 1024, 2048, 4096, 8192};
constexpr fabric::Rank rank_counts[] = {2, 4};
struct Variant {
  const char* name;
  std::size_t block_bytes;
  coherence::Dials dials;
};
// As measured there, what Craton does by itself, and with blocks of a page.
const Variant variants[] = {
    {"one block", shared_bytes, {.hot_blocks = false, .prefetch = false}},
    {"one block, hot and prefetched", shared_bytes, {}},
    {"blocks of 4 KiB", 4096, {}},
};
constexpr int warm_iterations = 4;
constexpr int least_iterations = 5;

void check_all(const std::byte* data, int value) {
  for (std::size_t i = 0; i < shared_bytes; ++i) {
    if (data[i] != static_cast<std::byte>(value))
      throw Error(ErrorCode::protocol, {"cannot measure false sharing", "a write was lost", "", ""});
  }
}

}  // namespace

void measure_false_sharing(const Arguments& arguments, std::string_view transport) {
  const Forked<std::atomic<bool>> go_on;
  for (const fabric::Rank ranks : rank_counts) {
    run_space(transport, ranks, {}, [&](SpaceRank& rank) {
      for (const Variant& variant : variants) {
        std::byte* const data = rank.space
                                    .create_segment({.name = "bench",
                                                     .bytes = shared_bytes,
                                                     .block_bytes = variant.block_bytes,
                                                     .initial_homes = {},
                                                     .dials = variant.dials})
                                    .data();
        for (int round = 0; round < arguments.rounds; ++round) {
          for (const std::size_t stripe : stripes) {
            std::vector<double> times_ns;
            TimeNs all_ns = 0;
            int value = 0;
            *go_on = true;
            rank.barrier();
            for (int i = 0; *go_on; ++i) {
              value = i % 255 + 1;
              const TimeNs before = now_ns();
              for (std::size_t at = rank.rank() * stripe; at < shared_bytes; at += ranks * stripe)
                std::memset(data + at, value, stripe);
              rank.barrier(1);
              const TimeNs elapsed = now_ns() - before;
              if (rank.rank() == 0) {
                if (i >= warm_iterations) {
                  all_ns += elapsed;
                  times_ns.push_back(static_cast<double>(elapsed));
                }
                *go_on = times_ns.size() < least_iterations || all_ns < arguments.turn_ns;
              }
              rank.barrier(2);
            }
            check_all(data, value);
            rank.barrier();
            if (rank.rank() == 0) {
              report_time({space_kernel,
                           std::string(transport) + ": false sharing of " + std::to_string(ranks) +
                               " ranks, stripes of " + size_text(stripe),
                           variant.name, round},
                          summarise(times_ns, times_ns.size(), all_ns));
            }
          }
        }
      }
    });
  }
}

}  // namespace craton::bench
