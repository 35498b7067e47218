/// \file
/// Ranks exchange a real file over whatever lies between them, and measure the way while they are at it.
///
///   craton run -n 4 [--isolate-nodes --transport tcp] -- exchange [FILE]
///
/// Rank 0 reads FILE (default: this program) into its region. Every rank gets its share of it, counts its
/// bytes by value and adds the counts to rank 0's words with fetch_add; then the whole file goes round, each
/// rank getting it from the one before. Rank 0 checks both against what it counts itself, and times
/// operations on rank 1's memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"
#include "job/job.hpp"

namespace {

using namespace craton;
using namespace craton::fabric;

constexpr RegionId region = 1;
constexpr std::size_t byte_values = 256;
constexpr std::size_t counts_bytes = byte_values * sizeof(std::uint64_t);

using Counts = std::array<std::uint64_t, byte_values>;

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> content{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || content.empty()) {
    throw Error(ErrorCode::not_found, {.asked = "cannot exchange " + path,
                                       .happened = file.is_open() ? "it is empty" : "it cannot be read",
                                       .limit = {},
                                       .remedy = "name a file that every rank can read"});
  }
  return content;
}

Counts count(const char* bytes, std::size_t size) {
  Counts counts{};
  for (std::size_t i = 0; i < size; ++i) ++counts[static_cast<unsigned char>(bytes[i])];
  return counts;
}

void finish(Fabric& fabric, Completion& completion) {
  if (fabric.wait(completion) != Status::ok) {
    throw Error(ErrorCode::peer_lost,
                {.asked = "cannot exchange", .happened = "a rank died", .limit = {}, .remedy = {}});
  }
}

/// Adds the counts of this rank's share to rank 0's. \returns how many bytes that was
std::size_t count_share(Fabric& fabric, std::size_t file_bytes) {
  const std::size_t begin = file_bytes * fabric.rank() / fabric.size();
  const std::size_t bytes = file_bytes * (fabric.rank() + 1) / fabric.size() - begin;
  std::vector<char> share(bytes);
  Completion completion;
  fabric.get(share.data(), {.rank = 0, .region = region, .offset = counts_bytes + begin}, bytes, completion);
  finish(fabric, completion);
  const Counts counts = count(share.data(), bytes);
  std::uint64_t previous = 0;
  for (std::size_t value = 0; value < byte_values; ++value) {
    fabric.fetch_add({.rank = 0, .region = region, .offset = value * sizeof(std::uint64_t)}, counts[value],
                     &previous, completion);
  }
  finish(fabric, completion);
  return bytes;
}

/// The median time of one operation, in ns, over batches that last about a millisecond each.
template <typename Operation>
double time_ns(Fabric& fabric, Operation&& operation) {
  constexpr int batches = 21;
  constexpr TimeNs batch_ns = 1'000'000;
  std::array<double, batches> medians{};
  std::size_t repeats = 1;
  for (int batch = -1; batch < batches;) {
    const TimeNs begin_ns = fabric.clock().now_ns();
    for (std::size_t i = 0; i < repeats; ++i) operation();
    const TimeNs took_ns = fabric.clock().now_ns() - begin_ns;
    if (batch < 0 && took_ns < batch_ns) {
      repeats *= 2;  // not long enough to be measured yet
      continue;
    }
    if (batch >= 0)
      medians[static_cast<std::size_t>(batch)] = static_cast<double>(took_ns) / static_cast<double>(repeats);
    ++batch;
  }
  std::sort(medians.begin(), medians.end());
  return medians[batches / 2];
}

std::string time_text(double ns) {
  return ns < 1000 ? fmt::format("{:.1f} ns", ns) : fmt::format("{:.1f} us", ns / 1000);
}

/// Times operations on another rank's memory; beside them, where it is mapped, a bare memcpy of the same
/// bytes.
void measure(Fabric& fabric, Rank target, std::size_t part_bytes) {
  std::vector<std::byte> local(part_bytes);
  const std::byte* direct = fabric.direct(target, region);
  Completion completion;
  fmt::print("  {:>9} {:>12} {:>12} {:>14}{}\n", "bytes", "get", "put", "get GB/s",
             direct != nullptr ? "   bare memcpy" : "");
  for (std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{65536}, std::size_t{1} << 20}) {
    bytes = std::min(bytes, part_bytes - counts_bytes);
    const RemoteAddress address{.rank = target, .region = region, .offset = counts_bytes};
    const double get_ns = time_ns(fabric, [&] {
      fabric.get(local.data(), address, bytes, completion);
      finish(fabric, completion);
    });
    const double put_ns = time_ns(fabric, [&] {
      fabric.put(address, local.data(), bytes, completion);
      finish(fabric, completion);
    });
    std::string bare;
    if (direct != nullptr) {
      const double bare_ns = time_ns(fabric, [&] {
        std::memcpy(local.data(), direct + counts_bytes, bytes);
        asm volatile("" ::: "memory");
      });
      bare = fmt::format("{:>14}", time_text(bare_ns));
    }
    fmt::print("  {:>9} {:>12} {:>12} {:>14.2f}{}\n", bytes, time_text(get_ns), time_text(put_ns),
               static_cast<double>(bytes) / get_ns, bare);
  }
}

void run(job::Job& job, const std::string& path) {
  Fabric& fabric = job.fabric();
  const std::vector<char> content = read_file(path);
  const std::size_t part_bytes = counts_bytes + content.size();
  RegionMemory memory("exchange", part_bytes);
  if (fabric.rank() == 0) std::memcpy(memory.data() + counts_bytes, content.data(), content.size());
  fabric.register_region(region, memory);

  job.barrier();
  count_share(fabric, content.size());
  job.barrier();

  // The file goes round: after turn r, rank r has it.
  Completion completion;
  for (Rank turn = 1; turn < fabric.size(); ++turn) {
    if (fabric.rank() == turn) {
      fabric.get(memory.data() + counts_bytes, {.rank = turn - 1, .region = region, .offset = counts_bytes},
                 content.size(), completion);
      finish(fabric, completion);
    }
    job.barrier();
  }

  if (fabric.rank() == 0) {
    const Counts expected = count(content.data(), content.size());
    const bool counted = std::memcmp(memory.data(), expected.data(), counts_bytes) == 0;
    std::vector<char> returned(content.size());
    const Rank last = fabric.size() - 1;
    fabric.get(returned.data(), {.rank = last, .region = region, .offset = counts_bytes}, returned.size(),
               completion);
    finish(fabric, completion);
    const bool intact = returned == content;
    fmt::print(
        "{}: {} bytes, counted by {} ranks with one-sided gets and fetch_add: {}; passed from rank to rank: "
        "{}\n",
        path, content.size(), fabric.size(), counted ? "exact" : "WRONG", intact ? "intact" : "DAMAGED");
    if (!counted || !intact) {
      throw Error(ErrorCode::system, {.asked = "cannot exchange",
                                      .happened = "the data is not what it should be",
                                      .limit = {},
                                      .remedy = {}});
    }
    if (fabric.size() > 1) {
      fmt::print("rank 0 on node {} reaches rank 1 on node {} over {}:\n", fabric.node_of(0),
                 fabric.node_of(1), fabric.capabilities(1).transport);
      measure(fabric, 1, part_bytes);
    }
  }
  job.barrier();
  fabric.unregister_region(region);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto job = job::Job::join();
    run(*job, argc > 1 ? argv[1] : "/proc/self/exe");
    job->finalize();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "exchange: {}\n", error.what());
    return 1;
  }
}
