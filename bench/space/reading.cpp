// One rank writes memory, the other reads all of it after a barrier (dissertation, figure 3.30).
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t sizes[] = {std::size_t{4} << 10U, std::size_t{64} << 10U, std::size_t{1} << 20U,
                                 std::size_t{16} << 20U};
struct Variant {
  const char* name;
  std::size_t block_bytes;
  bool prefetch;
};
constexpr Variant variants[] = {{"blocks of 4 KiB", 4096, false},
                                {"4 KiB, prefetched", 4096, true},
                                {"blocks of 64 KiB", 65536, false},
                                {"blocks of 1 MiB", 1048576, false}};
constexpr int warm_iterations = 2;
constexpr int least_iterations = 3;

std::uint64_t sum_of(const std::byte* data, std::size_t bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes; at += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof word);
    sum += word;
  }
  return sum;
}

}  // namespace

void measure_reading(const Arguments& arguments, std::string_view transport) {
  const Forked<std::atomic<bool>> go_on;
  run_space(transport, 2, {}, [&](SpaceRank& rank) {
    for (const Variant& variant : variants) {
      std::byte* const data = rank.space
                                  .create_segment({.name = "bench",
                                                   .bytes = sizes[std::size(sizes) - 1],
                                                   .block_bytes = variant.block_bytes,
                                                   .initial_homes = {},
                                                   .dials = {.prefetch = variant.prefetch}})
                                  .data();
      std::uint64_t site = 1;
      for (int round = 0; round < arguments.rounds; ++round) {
        for (const std::size_t bytes : sizes) {
          std::vector<double> times_ns;
          TimeNs all_ns = 0;
          site += 2;
          rank.barrier();  // all have seen that the last loop is over
          *go_on = true;
          rank.barrier();
          for (int i = 0; *go_on; ++i) {
            if (rank.rank() == 1) std::memset(data, i % 255 + 1, bytes);
            // The barrier counts: it is what prefetches.
            const TimeNs before = now_ns();
            rank.barrier(static_cast<std::uint32_t>(site));
            if (rank.rank() == 0) {
              const TimeNs met = now_ns();
              const std::uint64_t sum = sum_of(data, bytes);
              const TimeNs elapsed = now_ns() - (variant.prefetch ? before : met);
              if (sum != bytes / 8 * 0x0101010101010101U * static_cast<std::uint64_t>(i % 255 + 1))
                throw Error(ErrorCode::protocol, {"cannot measure reading", "other bytes were read", "", ""});
              if (i >= warm_iterations) {
                all_ns += elapsed;
                times_ns.push_back(static_cast<double>(elapsed));
              }
              *go_on = times_ns.size() < least_iterations || all_ns < arguments.turn_ns;
            }
            rank.barrier(static_cast<std::uint32_t>(site + 1));
          }
          if (rank.rank() == 0) {
            report_time(
                {space_kernel, std::string(transport) + ": reading " + size_text(bytes), variant.name, round},
                summarise(times_ns, times_ns.size(), all_ns));
          }
        }
      }
    }
  });
}

}  // namespace craton::bench
