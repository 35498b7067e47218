/// Cases of compare_exchange, fetch_add and swap.
#include <limits>

#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {

/// What each operation gives and leaves, one after the other.
void results_of_atomics(RankContext& c) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  c.start(8 * c.size());
  for (Rank peer = 0; peer < c.size(); ++peer) {
    const RemoteAddress word{peer, main_region, 8 * c.rank()};
    CHECK_EQUAL(c.swap(word, most), 0U);
    CHECK_EQUAL(c.fetch_add(word, 3), most);
    CHECK_EQUAL(c.fetch_add(word, most), 2U);
    CHECK_EQUAL(c.compare_exchange(word, 7, 9), 1U);
    CHECK_EQUAL(c.compare_exchange(word, 1, 0x0123'4567'89ab'cdefU), 1U);
    CHECK_EQUAL(c.compare_exchange(word, 1, 2), 0x0123'4567'89ab'cdefU);
    CHECK_EQUAL(c.swap(word, 0), 0x0123'4567'89ab'cdefU);
    std::uint64_t seen = 1;
    CHECK_EQUAL(c.get(&seen, word, 8), Status::ok);
    CHECK_EQUAL(seen, 0U);
  }
  c.barrier();
}

/// All add to one word; each value that a rank saw before is seen once, and neighbouring words lose nothing.
void sums_are_exact(RankContext& c) {
  const std::uint64_t rounds = c.count(12, 1500);
  const std::uint64_t tickets = rounds * c.size();
  // Of rank 0: the counter, a word a rank beside it, a word a ticket.
  c.start(8 * (1 + c.size() + tickets));
  std::vector<std::uint64_t> seen(rounds);
  std::uint64_t unused = 0;
  {
    Completion completion;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      c.fabric.fetch_add({0, main_region, 0}, 1, &seen[round], completion);
      c.fabric.fetch_add({0, main_region, 8 * (1 + c.rank())}, 1, &unused, completion);
      if (round % 8 == 7) c.finish_ok(completion);
    }
    c.finish_ok(completion);
    for (const std::uint64_t ticket : seen) {
      CHECK(ticket < tickets);
      c.fabric.fetch_add({0, main_region, 8 * (1 + c.size() + ticket)}, 1, &unused, completion);
    }
    c.finish_ok(completion);
  }
  c.barrier();
  CHECK_EQUAL(c.fetch_add({0, main_region, 0}, 0), tickets);
  CHECK_EQUAL(c.fetch_add({0, main_region, 8 * (1 + c.rank())}, 0), rounds);
  std::vector<std::uint64_t> taken(tickets);
  CHECK_EQUAL(c.get(taken.data(), {0, main_region, 8 * (1 + c.size())}, 8 * tickets), Status::ok);
  for (const std::uint64_t times : taken) CHECK_EQUAL(times, 1U);
  c.barrier();
}

/// A lock of compare_exchange on one rank guards a counter on another that is read and written with get and
/// put.
void lock_guards_a_counter(RankContext& c) {
  c.start(8);
  const RemoteAddress lock{0, main_region, 0};
  const RemoteAddress counter{c.size() - 1, main_region, 0};
  const std::uint64_t rounds = c.count(4, 60);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const TimeNs limit_ns = c.deadline();
    while (c.compare_exchange(lock, 0, c.rank() + 1) != 0) {
      c.compute();
      CHECK(c.fabric.clock().now_ns() < limit_ns);
    }
    std::uint64_t value = 0;
    CHECK_EQUAL(c.get(&value, counter, 8), Status::ok);
    ++value;
    c.compute();
    CHECK_EQUAL(c.put(counter, &value, 8), Status::ok);
    CHECK_EQUAL(c.swap(lock, 0), c.rank() + 1U);
  }
  c.barrier();
  std::uint64_t value = 0;
  CHECK_EQUAL(c.get(&value, counter, 8), Status::ok);
  CHECK_EQUAL(value, rounds * c.size());
  c.barrier();
}

/// Tickets taken with fetch_add are served in order: each holder passes the turn on with a put, and counts
/// with no other protection.
void ticket_chain(RankContext& c) {
  c.start(24);
  const RemoteAddress ticket{0, main_region, 0};
  const RemoteAddress turn{0, main_region, 8};
  const RemoteAddress counter{c.size() - 1, main_region, 16};
  const std::uint64_t rounds = c.count(4, 60);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t own = c.fetch_add(ticket, 1);
    const TimeNs limit_ns = c.deadline();
    for (std::uint64_t serving = 0;;) {
      CHECK_EQUAL(c.get(&serving, turn, 8), Status::ok);
      CHECK(serving <= own);
      if (serving == own) break;
      c.compute();
      CHECK(c.fabric.clock().now_ns() < limit_ns);
    }
    std::uint64_t value = 0;
    CHECK_EQUAL(c.get(&value, counter, 8), Status::ok);
    CHECK_EQUAL(value, own);
    ++value;
    CHECK_EQUAL(c.put(counter, &value, 8), Status::ok);
    CHECK_EQUAL(c.put(turn, &value, 8), Status::ok);
  }
  c.barrier();
}

/// Values handed from swap to swap form one chain: each is taken out once.
void swaps_form_a_chain(RankContext& c) {
  const std::uint64_t rounds = c.count(10, 800);
  const std::uint64_t values = rounds * c.size();
  c.start(8 * (2 + values));
  const auto count_one = [&](std::uint64_t value) {
    CHECK(value <= values);
    c.fetch_add({0, main_region, 8 * (1 + value)}, 1);
  };
  for (std::uint64_t round = 0; round < rounds; ++round) {
    count_one(c.swap({c.size() - 1, main_region, 0}, 1 + round * c.size() + c.rank()));
  }
  c.barrier();
  if (c.rank() == 0) count_one(c.swap({c.size() - 1, main_region, 0}, 0));
  c.barrier();
  std::vector<std::uint64_t> taken(values + 1);
  CHECK_EQUAL(c.get(taken.data(), {0, main_region, 8}, 8 * taken.size()), Status::ok);
  for (const std::uint64_t times : taken) CHECK_EQUAL(times, 1U);
  c.barrier();
}

/// Store buffering, forbidden by sequential consistency: two ranks each set a flag with a swap, and then both
/// find the other's not set.
void atomics_are_sequentially_consistent(RankContext& c) {
  constexpr std::uint64_t flag = 0;
  constexpr std::uint64_t saw_other = 8;
  c.start(16);
  const std::uint64_t rounds = c.count(6, 300);
  const Rank other = c.rank() ^ 1U;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    if (c.rank() < 2) {
      c.swap({c.rank(), main_region, flag}, round);
      const std::uint64_t saw = c.fetch_add({other, main_region, flag}, 0) == round ? 1 : 0;
      c.swap({c.rank(), main_region, saw_other}, saw);
    }
    c.barrier();
    const std::uint64_t first = c.fetch_add({0, main_region, saw_other}, 0);
    const std::uint64_t second = c.fetch_add({1, main_region, saw_other}, 0);
    CHECK(first + second != 0);
    c.barrier();
  }
}

}  // namespace

std::vector<Case> atomic_cases() {
  return {{.name = "results_of_atomics", .body = results_of_atomics},
          {.name = "sums_are_exact", .body = sums_are_exact},
          {.name = "lock_guards_a_counter", .body = lock_guards_a_counter},
          {.name = "ticket_chain", .body = ticket_chain},
          {.name = "swaps_form_a_chain", .body = swaps_form_a_chain},
          {.name = "atomics_are_sequentially_consistent", .body = atomics_are_sequentially_consistent}};
}

}  // namespace craton::fabric::conformance
