// Three ways to bring the written bytes of a block to another rank (dissertation, figure 3.1): the whole
// block with one put; one put for each run of written bytes; the runs packed, sent and unpacked over there.
// The last two compare the block with its twin first.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t block_bytes = 32768;
constexpr std::size_t written_bytes[] = {0, 1, 16, 256, 1024, 4096, 8192, 16384, 24576, 32768};
constexpr fabric::RegionId block_region = 1;
constexpr fabric::RegionId packed_region = 2;
constexpr fabric::HandlerId unpack_handler = fabric::first_free_handler;
constexpr fabric::HandlerId unpacked_handler = unpack_handler + 1;

/// Ahead of the bytes of a run. A run of one byte takes five.
struct RunHead {
  std::uint16_t offset;
  std::uint16_t bytes_less_one;
};
constexpr std::size_t packed_most = block_bytes * (sizeof(RunHead) + 1);

/// Calls `use(offset, bytes)` for each run of bytes that differ.
template <typename Use>
void for_runs(const std::byte* data, const std::byte* twin, const Use& use) {
  for (std::size_t at = 0; at < block_bytes;) {
    if (at % 8 == 0 && std::memcmp(data + at, twin + at, 8) == 0) {
      at += 8;
      continue;
    }
    if (data[at] == twin[at]) {
      ++at;
      continue;
    }
    const std::size_t first = at;
    while (at < block_bytes && data[at] != twin[at]) ++at;
    use(first, at - first);
  }
}

void check(fabric::Status status) {
  if (status != fabric::Status::ok)
    throw Error(ErrorCode::peer_lost, {"cannot measure remote writes", "the target is gone", "", ""});
}

/// The target's part of "packed", and the initiator's wait for it.
struct Unpacking {
  fabric::Fabric& fabric;
  std::byte* block;
  const std::byte* packed;
  std::atomic<std::uint64_t> answers{0};

  static void unpack(void* self, fabric::Rank source, const std::byte* payload, std::size_t) noexcept {
    auto& target = *static_cast<Unpacking*>(self);
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, payload, sizeof bytes);
    for (std::size_t at = 0; at < bytes;) {
      RunHead head{};
      std::memcpy(&head, target.packed + at, sizeof head);
      const std::size_t count = std::size_t{head.bytes_less_one} + 1;
      std::memcpy(target.block + head.offset, target.packed + at + sizeof head, count);
      at += sizeof head + count;
    }
    static_cast<void>(target.fabric.send(source, unpacked_handler, nullptr, 0));
  }
  static void unpacked(void* self, fabric::Rank, const std::byte*, std::size_t) noexcept {
    static_cast<Unpacking*>(self)->answers.fetch_add(1, std::memory_order_release);
  }
};

struct Initiator {
  fabric::Fabric& fabric;
  Unpacking& unpacking;
  std::vector<std::byte> data = std::vector<std::byte>(block_bytes);
  std::vector<std::byte> twin = std::vector<std::byte>(block_bytes);
  std::vector<std::byte> packed = std::vector<std::byte>(packed_most);
  std::uint64_t sent = 0;

  void contiguous() {
    fabric::Completion completion;
    fabric.put({1, block_region, 0}, data.data(), block_bytes, completion);
    check(fabric.wait(completion));
  }
  void discontiguous() {
    fabric::Completion completion;
    for_runs(data.data(), twin.data(), [&](std::size_t offset, std::size_t bytes) {
      fabric.put({1, block_region, offset}, data.data() + offset, bytes, completion);
    });
    check(fabric.wait(completion));
  }
  void pack() {
    std::uint64_t bytes = 0;
    for_runs(data.data(), twin.data(), [&](std::size_t offset, std::size_t count) {
      const RunHead head{static_cast<std::uint16_t>(offset), static_cast<std::uint16_t>(count - 1)};
      std::memcpy(&packed[bytes], &head, sizeof head);
      std::memcpy(&packed[bytes + sizeof head], &data[offset], count);
      bytes += sizeof head + count;
    });
    fabric::Completion completion;
    fabric.put({1, packed_region, 0}, packed.data(), bytes, completion);
    check(fabric.wait(completion));
    ++sent;
    check(fabric.send(1, unpack_handler, &bytes, sizeof bytes));
    check(fabric.wait_until([&] { return unpacking.answers.load(std::memory_order_acquire) == sent; }));
  }
  void write(std::size_t count) {
    std::vector<std::size_t> places(block_bytes);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
    std::fill(data.begin(), data.end(), std::byte{1});
    std::fill(twin.begin(), twin.end(), std::byte{1});
    for (std::size_t i = 0; i < count; ++i) data[places[i]] = std::byte{2};
  }
  /// Throws if the target's block is not ours.
  void verify() {
    std::vector<std::byte> there(block_bytes);
    fabric::Completion completion;
    fabric.get(there.data(), {1, block_region, 0}, block_bytes, completion);
    check(fabric.wait(completion));
    if (there != data)
      throw Error(ErrorCode::protocol, {"cannot measure remote writes", "other bytes have arrived", "", ""});
  }
};

void measure_all(const Arguments& arguments, std::string_view transport, Initiator& initiator) {
  struct Way {
    const char* name;
    void (Initiator::*write)();
  };
  constexpr Way ways[] = {{"contiguous", &Initiator::contiguous},
                          {"discontiguous", &Initiator::discontiguous},
                          {"packed", &Initiator::pack}};
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const std::size_t bytes : written_bytes) {
      for (const Way& way : ways) {
        // The target has the twin first.
        initiator.write(0);
        initiator.contiguous();
        initiator.write(bytes);
        const Sample sample = time_each(arguments.turn_ns, [&] { (initiator.*way.write)(); });
        initiator.verify();
        report_time(
            {space_kernel, std::string(transport) + ": remote write, " + std::to_string(bytes) + " B written",
             way.name, round},
            sample);
      }
    }
  }
}

}  // namespace

void measure_remote_write(const Arguments& arguments, std::string_view transport) {
  const Forked<Steering> steering;
  run_ranks(transport == "tcp" ? over_tcp() : over_shm(), 2, [&](fabric::WiredFabric& fabric) {
    const fabric::RegionMemory block("bench", block_bytes);
    const fabric::RegionMemory packed("bench packed", packed_most);
    Unpacking unpacking{.fabric = fabric, .block = block.data(), .packed = packed.data()};
    fabric.set_handler(unpack_handler, &Unpacking::unpack, &unpacking);
    fabric.set_handler(unpacked_handler, &Unpacking::unpacked, &unpacking);
    fabric.register_region(block_region, block);
    fabric.register_region(packed_region, packed);
    if (fabric.rank() == 0) {
      Initiator initiator{.fabric = fabric, .unpacking = unpacking};
      measure_all(arguments, transport, initiator);
      steering->order(quit_order);
    } else {
      // Asleep outside the fabric: its agent serves.
      static_cast<void>(steering->next());
    }
    fabric.unregister_region(packed_region);
    fabric.unregister_region(block_region);
  });
}

}  // namespace craton::bench
