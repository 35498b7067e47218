/// Cases of operations that leave together.
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "conformance.hpp"
#include "fabric/batch.hpp"

namespace craton::fabric::conformance {

namespace {

constexpr HandlerId token_handler = first_case_handler;

std::atomic_ref<std::uint64_t> word(std::byte* memory, std::size_t index) {
  return std::atomic_ref(reinterpret_cast<std::uint64_t*>(memory)[index]);
}

/// Looks until it is so, and does not wait in the fabric, which a plain put would not wake anyway.
void look_for(RankContext& c, FunctionRef<bool()> condition) {
  const TimeNs deadline_ns = c.deadline();
  while (!condition()) {
    if (c.fabric.clock().now_ns() > deadline_ns) throw std::runtime_error("a batch was never sent");
    c.compute();
    std::this_thread::yield();
  }
}

/// Waits within a batch, of an operation or of many to all ranks, for what it has held back.
void waits_within_a_batch_end(RankContext& c) {
  constexpr std::size_t words = 24;
  std::byte* const own = c.start(words * 8 * c.size());
  const std::uint64_t rounds = c.count(6, 300);
  const auto at = [&](Rank target, std::size_t index) {
    return RemoteAddress{target, main_region, (c.rank() * words + index) * 8};
  };
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const Batch together;
    std::array<std::uint64_t, words> values{};
    std::iota(values.begin(), values.end(), round * 1000);
    Completion issued;
    for (Rank target = 0; target < c.size(); ++target) {
      const Batch inner;
      for (std::size_t i = 1; i < words; ++i) c.fabric.put(at(target, i), &values[i], 8, issued);
    }
    std::uint64_t before = 0;
    c.fabric.fetch_add(at(c.next(), 0), 1, &before, issued);
    c.finish_ok(issued);
    CHECK_EQUAL(before, round - 1);
    CHECK_EQUAL(c.swap(at(c.next(), 1), round), values[1]);
    std::array<std::uint64_t, words> seen{};
    CHECK_EQUAL(c.get(seen.data(), at(c.next(), 0), sizeof seen), Status::ok);
    CHECK_EQUAL(seen[0], round);
    CHECK_EQUAL(seen[1], round);
    CHECK_EQUAL(std::memcmp(&seen[2], &values[2], (words - 2) * 8), 0);
  }
  c.barrier();
  const Rank previous = (c.rank() + c.size() - 1) % c.size();
  CHECK_EQUAL(word(own, previous * words).load(), rounds);
  c.barrier();
}

/// What a batch has held back leaves when it ends, though its thread never waits in the fabric afterwards.
void the_end_of_a_batch_sends(RankContext& c) {
  std::byte* const own = c.start(16);
  const std::uint64_t rounds = c.count(4, 200);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    if (c.rank() == 0) {
      Completion issued;
      {
        const Batch together;
        c.fabric.put({1, main_region, 0}, &round, 8, issued);
        {
          const Batch inner;
          c.fabric.put({1, main_region, 8}, &round, 8, issued);
        }
      }
      look_for(c, [&] { return word(own, 0).load() == round; });
      c.finish_ok(issued);
    } else if (c.rank() == 1) {
      look_for(c, [&] { return word(own, 0).load() == round && word(own, 1).load() == round; });
      CHECK_EQUAL(c.put({0, main_region, 0}, &round, 8), Status::ok);
    }
  }
  c.barrier();
}

/// A handler that runs on a thread with an open batch, which waits, sends at once.
void handlers_are_in_no_batch(RankContext& c) {
  struct Ring {
    RankContext& context;
    std::atomic<std::uint64_t> hops_left{~std::uint64_t{0}};
  };
  auto& ring = c.keep<Ring>(c);
  c.fabric.set_handler(
      token_handler,
      [](void* context, Rank, const std::byte* payload, std::size_t) noexcept {
        auto& own = *static_cast<Ring*>(context);
        std::uint64_t hops_left = 0;
        std::memcpy(&hops_left, payload, sizeof hops_left);
        if (hops_left != 0) {
          const std::uint64_t next = hops_left - 1;
          static_cast<void>(own.context.fabric.send(own.context.next(), token_handler, &next, sizeof next));
        }
        own.hops_left.store(hops_left);
      },
      &ring);
  c.start(8);
  const std::uint64_t hops = c.count(8, 500) * c.size() - 1;
  const Batch together;
  if (c.rank() == 0) CHECK_EQUAL(c.fabric.send(c.next(), token_handler, &hops, sizeof hops), Status::ok);
  c.wait_for("the token's last round", [&] { return ring.hops_left.load() < c.size(); });
  c.barrier();
}

}  // namespace

std::vector<Case> batch_cases() {
  return {{.name = "waits_within_a_batch_end", .body = waits_within_a_batch_end},
          {.name = "the_end_of_a_batch_sends", .body = the_end_of_a_batch_sends},
          {.name = "handlers_are_in_no_batch", .body = handlers_are_in_no_batch}};
}

}  // namespace craton::fabric::conformance
