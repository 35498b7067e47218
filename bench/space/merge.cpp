// Merging the writes of two ranks, beside memcpy of as many bytes.
#include <cstring>
#include <vector>

#include "coherence/merge.hpp"
#include "fabric/region_memory.hpp"
#include "frame/placement.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t block_bytes = 4096;

struct Case {
  const char* name;
  bool written_here;
};
// All bytes differ: all written there, and all written here.
constexpr Case cases[] = {{"all written there", false}, {"all written here", true}};

}  // namespace

void measure_merge(const Arguments& arguments) {
  for (const std::size_t bytes : {block_bytes, std::size_t{64} << 20U}) {
    // Like segments, twins and what comes in: memory that processes share.
    const fabric::RegionMemory data("bench", bytes);
    const fabric::RegionMemory twin("bench", bytes);
    const fabric::RegionMemory incoming[2] = {{"bench", bytes}, {"bench", bytes}};
    std::memset(incoming[0].data(), 1, bytes);
    std::memset(incoming[1].data(), 2, bytes);
    const std::string size = size_text(bytes) + (bytes == block_bytes ? ", hot" : ", cold");
    for (int round = 0; round < arguments.rounds; ++round) {
      for (const Case& each : cases) {
        std::memset(data.data(), each.written_here ? 3 : 1, bytes);
        std::memset(twin.data(), 1, bytes);
        unsigned turn = 0;
        const auto merge = [&] {
          // What comes in is new each time; where all was written here the twin stays what it is.
          const std::byte* const from = incoming[each.written_here ? 0 : ++turn % 2].data();
          for (std::size_t at = 0; at < bytes; at += block_bytes)
            static_cast<void>(
                coherence::merge_closed(data.data() + at, twin.data() + at, from + at, block_bytes));
        };
        const auto copy = [&] {
          std::memcpy(data.data(), incoming[++turn % 2].data(), bytes);
          touch_memory(data.data());
        };
        const std::string what = "merge " + size + ", " + each.name;
        const auto turn_of = [&](const char* variant, const auto& once) {
          const Sample sample = time_batches(arguments.turn_ns, [&](std::uint64_t count) {
            for (std::uint64_t i = 0; i < count; ++i) once();
          });
          report_rate({space_kernel, what, variant, round}, "GB/s",
                      static_cast<double>(bytes) / sample.p50_ns);
        };
        turn_of("craton", merge);
        turn_of("bare", copy);
      }
    }
  }
}

}  // namespace craton::bench
