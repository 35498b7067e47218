// A release of many blocks whose homes are elsewhere: two ranks take turns in writing all of them, so that
// each release takes every home over, one after the other or many at a time.
#include <string>
#include <vector>

#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t blocks = 64;
constexpr std::size_t block_bytes = 4096;
constexpr int warm_turns = 2;
constexpr int least_turns = 4;

struct Variant {
  const char* name;
  unsigned parallel_releases;
};
constexpr Variant variants[] = {{"one after the other", 1}, {"4 at a time", 4}, {"16 at a time", 16}};

}  // namespace

void measure_fences(const Arguments& arguments, std::string_view transport) {
  const Forked<std::atomic<bool>> go_on;
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const Variant& variant : variants) {
      *go_on = true;
      run_space(transport, 2, {.parallel_releases = variant.parallel_releases}, [&](SpaceRank& rank) {
        std::byte* const data =
            rank.space
                .create_segment(
                    {.name = "bench", .bytes = blocks * block_bytes, .initial_homes = {}, .dials = {}})
                .data();
        std::vector<double> times_ns;
        TimeNs all_ns = 0;
        for (unsigned turn = 0; *go_on; ++turn) {
          if (turn % 2 == rank.rank()) {
            for (std::size_t i = 0; i < blocks; ++i) data[i * block_bytes] = static_cast<std::byte>(turn);
            const TimeNs start = now_ns();
            rank.space.publish();
            const TimeNs elapsed = now_ns() - start;
            if (rank.rank() == 0 && turn >= warm_turns) {
              times_ns.push_back(static_cast<double>(elapsed));
              all_ns += elapsed;
            }
          }
          rank.barrier();  // all have seen that it goes on
          if (rank.rank() == 0) *go_on = times_ns.size() < least_turns || all_ns < arguments.turn_ns;
          rank.barrier();
        }
        if (rank.rank() != 0) return;
        report_time({space_kernel, std::string(transport) + ": release of 64 blocks from elsewhere",
                     variant.name, round},
                    summarise(times_ns, times_ns.size(), all_ns));
      });
    }
  }
}

}  // namespace craton::bench
