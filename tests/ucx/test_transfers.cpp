// One-sided operations and messages over UCX: what arrives, where, when and in which order.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ranks.hpp"

namespace craton::fabric::ucx::testing {

namespace {

constexpr HandlerId transfer_handler = 8;

std::byte pattern(std::size_t at, unsigned seed) {
  return static_cast<std::byte>((at * 131 + at / 251 + seed) & 0xff);
}

void fill(std::byte* bytes, std::size_t count, unsigned seed) {
  for (std::size_t at = 0; at < count; ++at) bytes[at] = pattern(at, seed);
}

void expect_pattern(const std::byte* bytes, std::size_t count, unsigned seed, const std::string& what) {
  for (std::size_t at = 0; at < count; ++at) {
    if (bytes[at] != pattern(at, seed))
      throw std::runtime_error(what + ": wrong byte at " + std::to_string(at));
  }
}

class Transfers : public OverUcx {};
class Messages : public OverUcx {};

TEST_P(Transfers, PutsAndGetsOfAllSizesAtOddOffsets) {
  run_ranks(2, options(), [](TestRank& self) {
    constexpr std::size_t sizes[] = {
        1, 2, 7, 8, 9, 63, 4095, 4096, 4097, 65537, (1U << 20) + 3, (8U << 20) + 5};
    constexpr std::size_t region_bytes = (8U << 20) + 4096;
    self.register_region(region_bytes);
    unsigned seed = 1;
    for (const std::size_t bytes : sizes) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{13}, std::size_t{4093}}) {
        if (offset + bytes + 1 > region_bytes) continue;
        ++seed;
        std::memset(self.memory(), 0xee, region_bytes);
        self.barrier();
        if (self.rank() == 0) {
          std::vector<std::byte> source(bytes);
          fill(source.data(), bytes, seed);
          Completion put;
          self.put(1, offset, source.data(), bytes, put);
          expect(self.wait(put) == Status::ok, "put failed");
        }
        self.barrier();
        if (self.rank() == 1) {
          expect_pattern(self.memory() + offset, bytes, seed, "put of " + std::to_string(bytes));
          expect(offset == 0 || self.memory()[offset - 1] == std::byte{0xee}, "put wrote before its place");
          expect(self.memory()[offset + bytes] == std::byte{0xee}, "put wrote after its place");
        } else {
          std::vector<std::byte> destination(bytes + 2, std::byte{0x11});
          Completion get;
          self.get(destination.data() + 1, 1, offset, bytes, get);
          expect(self.wait(get) == Status::ok, "get failed");
          expect_pattern(destination.data() + 1, bytes, seed, "get of " + std::to_string(bytes));
          expect(destination[0] == std::byte{0x11}, "get wrote before its place");
          expect(destination[bytes + 1] == std::byte{0x11}, "get wrote after its place");
        }
        self.barrier();
      }
    }
    self.leave();
  });
}

TEST_P(Transfers, LargeOnesBothWaysAtOnce) {
  run_ranks(2, options(), [](TestRank& self) {
  // Each byte that is compared takes up to fifty times as long where it is watched.
#if defined(__SANITIZE_THREAD__)
    constexpr std::size_t bytes = 2U << 20;
#elif defined(__SANITIZE_ADDRESS__)
    constexpr std::size_t bytes = 16U << 20;
#else
    constexpr std::size_t bytes = 64U << 20;
#endif
    self.register_region(2 * bytes);
    const Rank other = 1 - self.rank();
    fill(self.memory(), bytes, self.rank());
    self.barrier();
    std::vector<std::byte> fetched(bytes);
    std::vector<std::byte> stored(bytes);
    fill(stored.data(), bytes, 7 + self.rank());
    Completion both;
    self.get(fetched.data(), other, 0, bytes, both);
    self.put(other, bytes, stored.data(), bytes, both);
    expect(self.wait(both) == Status::ok, "a large transfer failed");
    expect_pattern(fetched.data(), bytes, other, "large get");
    self.barrier();
    expect_pattern(self.memory() + bytes, bytes, 7 + other, "large put");
    self.barrier();
    self.leave();
  });
}

// Forbids: a put whose completion was seen, and whose target does not have it when a message sent after it
// arrives.
TEST_P(Transfers, CompletePutIsVisibleToWhoLearnsOfIt) {
  run_ranks(2, options(), [](TestRank& self) {
    constexpr std::uint64_t rounds = 3000;
    self.register_region(4096);
    std::uint64_t seen = 0;
    self.handlers[transfer_handler] = [&](Rank, const std::byte* payload, std::size_t bytes) {
      std::uint64_t round = 0;
      expect_equal(bytes, sizeof round, "bytes");
      std::memcpy(&round, payload, sizeof round);
      expect_equal(std::atomic_ref(self.words()[round % 8]).load(), round, "the word of a completed put");
      ++seen;
    };
    self.barrier();
    // Two barriers: a rank enters the first one before it has taken the messages that were sent before the
    // other's.
    const auto in_step = [&self] {
      self.barrier();
      self.barrier();
    };
    if (self.rank() == 0) {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        Completion put;
        self.put(1, 8 * (round % 8), &round, sizeof round, put);
        expect(self.wait(put) == Status::ok, "put failed");
        self.send(1, transfer_handler, &round, sizeof round);
        if (round % 8 == 7) in_step();  // the word is used again
      }
    } else {
      for (std::uint64_t round = 7; round <= rounds; round += 8) in_step();
      expect(self.wait_until([&] { return seen == rounds; }), "messages are missing");
    }
    self.barrier();
    self.leave();
  });
}

TEST_P(Transfers, ManyPutsInFlightAllEndAndAllArrive) {
  run_ranks(4, options(), [](TestRank& self) {
    constexpr std::uint64_t puts = 4000;
    self.register_region(8 * puts * 4);
    const Rank target = (self.rank() + 1) % self.size();
    const Rank writer = (self.rank() + self.size() - 1) % self.size();
    std::vector<std::uint64_t> values(puts);
    Completion all;
    for (std::uint64_t i = 0; i < puts; ++i) {
      values[i] = (std::uint64_t{self.rank()} << 32) + i + 1;
      self.put(target, 8 * (self.rank() * puts + i), &values[i], 8, all);
    }
    expect(self.wait(all) == Status::ok, "puts failed");
    expect(self.transport().flush_counter(target)->idle(), "the flush counter is not idle");
    self.barrier();
    for (std::uint64_t i = 0; i < puts; ++i) {
      expect_equal(self.words()[writer * puts + i], (std::uint64_t{writer} << 32) + i + 1, "a word");
    }
    self.barrier();
    self.leave();
  });
}

// Forbids: atomics that are lost, done twice, or not atomic with those of the target's own CPU.
TEST_P(Transfers, AtomicsFromAllRanksOnOneWord) {
  run_ranks(4, options(), [](TestRank& self) {
    constexpr std::uint64_t rounds = 1000;
    constexpr std::uint64_t sum_at = 0;
    constexpr std::uint64_t exchange_at = 8;
    constexpr std::uint64_t swap_at = 16;
    self.register_region(4096);
    const bool own = self.rank() == 0;
    expect(self.transport().capabilities().atomic_domain == AtomicDomain::cpu,
           "this test knows CPU atomics only");
    std::uint64_t last = 0;
    std::uint64_t won = 0;
    std::uint64_t swapped = 0;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      std::uint64_t previous = 0;
      std::uint64_t seen = 0;
      const std::uint64_t value = (std::uint64_t{self.rank()} + 1) * 1'000'000 + i;
      if (own) {
        self.transport().poll();
        previous = std::atomic_ref(self.words()[0]).fetch_add(3);
        seen = won;
        std::atomic_ref(self.words()[1]).compare_exchange_strong(seen, seen + 1);
        swapped ^= std::atomic_ref(self.words()[2]).exchange(value) ^ value;
        std::uint64_t now = std::atomic_ref(self.words()[1]).load();
        won = now;
      } else {
        Completion done;
        self.atomic(AtomicKind::fetch_add, 0, sum_at, 3, 0, &previous, done);
        expect(self.wait(done) == Status::ok, "fetch_add failed");
        // Counts up by compare-exchange until it wins once.
        for (std::uint64_t expected = won;; expected = seen) {
          self.atomic(AtomicKind::compare_exchange, 0, exchange_at, expected, expected + 1, &seen, done);
          expect(self.wait(done) == Status::ok, "compare_exchange failed");
          if (seen == expected) {
            won = expected + 1;
            break;
          }
        }
        std::uint64_t before = 0;
        self.atomic(AtomicKind::swap, 0, swap_at, value, 0, &before, done);
        expect(self.wait(done) == Status::ok, "swap failed");
        swapped ^= before ^ value;
      }
      expect(i == 0 || previous > last, "fetch_add went back");
      last = previous;
    }
    // What each rank put in and took out of the swapped word, together, leaves what is in it.
    std::vector<std::uint64_t> parts;
    self.handlers[transfer_handler] = [&](Rank, const std::byte* payload, std::size_t) {
      std::uint64_t part = 0;
      std::memcpy(&part, payload, sizeof part);
      parts.push_back(part);
    };
    self.barrier();
    if (!own) self.send(0, transfer_handler, &swapped, sizeof swapped);
    if (own) {
      expect(self.wait_until([&] { return parts.size() == 3; }), "parts are missing");
      for (const std::uint64_t part : parts) swapped ^= part;
      expect_equal(self.words()[0], 3 * rounds * self.size(), "the sum");
      expect_equal(self.words()[2], swapped, "the swapped word");
      expect(self.words()[1] >= 3 * rounds, "compare-exchanges were lost");
      expect(self.words()[1] <= 4 * rounds, "compare-exchanges were done twice");
    }
    self.barrier();
    self.leave();
  });
}

// Forbids: a message that overtakes another of its pair, is lost, doubled or mutilated.
TEST_P(Messages, KeepTheirOrderBetweenEachPair) {
  run_ranks(4, options(), [](TestRank& self) {
    constexpr std::uint32_t count = 4000;
    std::vector<std::uint32_t> expected(self.size());
    std::uint64_t received = 0;
    const auto bytes_of = [](std::uint32_t number) {
      return 4 + (number * 2654435761U >> 7) % (max_message_bytes - 3);
    };
    self.handlers[transfer_handler] = [&](Rank source, const std::byte* payload, std::size_t bytes) {
      std::uint32_t number = 0;
      expect(bytes >= sizeof number, "short message");
      std::memcpy(&number, payload, sizeof number);
      expect_equal(number, expected[source], "number of a message from " + std::to_string(source));
      expect_equal(bytes, bytes_of(number), "bytes of a message");
      expect_pattern(payload + 4, bytes - 4, number, "payload");
      ++expected[source];
      ++received;
    };
    self.barrier();
    std::vector<std::byte> payload(max_message_bytes);
    for (std::uint32_t number = 0; number < count; ++number) {
      // Mostly small, so that batches of both kinds mix.
      const std::size_t bytes = bytes_of(number);
      std::memcpy(payload.data(), &number, sizeof number);
      fill(payload.data() + 4, bytes - 4, number);
      for (Rank peer = 0; peer < self.size(); ++peer) {
        if (peer != self.rank()) self.send(peer, transfer_handler, payload.data(), bytes);
      }
    }
    expect(self.wait_until([&] { return received == std::uint64_t{count} * (self.size() - 1); }),
           "messages missing");
    self.barrier();
    self.leave();
  });
}

// Forbids: a deadlock between the lock around UCX and handlers that send.
TEST_P(Messages, HandlersMaySendAndIssueOperations) {
  run_ranks(2, options(), [](TestRank& self) {
    constexpr std::uint64_t hops = 2000;
    self.register_region(4096);
    const Rank other = 1 - self.rank();
    std::uint64_t last = 0;
    Completion puts;
    self.handlers[transfer_handler] = [&](Rank source, const std::byte* payload, std::size_t) {
      std::memcpy(&last, payload, sizeof last);
      if (last >= hops) return;
      const std::uint64_t next = last + 1;
      self.put(source, 8, &last, sizeof last, puts);
      self.transport().send(source, transfer_handler, &next, sizeof next, false);
    };
    self.barrier();
    const std::uint64_t first = 1;
    if (self.rank() == 0) self.send(other, transfer_handler, &first, sizeof first);
    expect(self.wait_until([&] { return last + 1 >= hops; }), "the ball was dropped");
    expect(self.wait(puts) == Status::ok, "puts of handlers failed");
    self.barrier();
    self.leave();
  });
}

// Forbids: an operation issued while the poller sleeps that nobody moves. Threads issue, another one polls.
TEST_P(Transfers, ThreadsIssueWhileAnotherOnePollsAndSleeps) {
  run_ranks(2, options(), [](TestRank& self) {
    constexpr std::uint64_t rounds = 500;
    constexpr unsigned issuers = 4;
    self.register_region(1U << 20);
    const Rank other = 1 - self.rank();
    std::atomic<unsigned> running{issuers};
    std::atomic<bool> failed{false};
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < issuers; ++thread) {
      threads.emplace_back([&, thread] {
        const std::uint64_t at = 8 * (thread + 1);
        std::uint64_t mine = 0;
        for (std::uint64_t round = 1; round <= rounds && !failed; ++round) {
          Completion done;
          const auto end = [&done] {
            while (!done.done()) ::usleep(20);  // it must not poll: the poller's descriptor has to do
          };
          std::uint64_t previous = 0;
          self.atomic(AtomicKind::fetch_add, other, 0, 1, 0, &previous, done);
          end();
          self.put(other, at, &round, sizeof round, done);
          end();
          self.get(&mine, other, at, sizeof mine, done);
          end();
          if (mine != round || done.status() != Status::ok) failed = true;
        }
        running.fetch_sub(1);
        const std::uint64_t nothing = 0;
        self.transport().send(other, transfer_handler + 1, &nothing, 0, false);
      });
    }
    std::uint64_t ends = 0;
    self.handlers[transfer_handler + 1] = [&](Rank, const std::byte*, std::size_t) { ++ends; };
    const bool ended = self.wait_until([&] { return running == 0 && ends == issuers; });
    if (!ended) failed = true;
    if (running == 0) {
      for (std::thread& thread : threads) thread.join();
    } else {
      ::_exit(3);  // threads hang: they cannot be joined
    }
    expect(!failed, "a thread saw a wrong value or waited for ever");
    expect(self.sleeps > 0, "the poller never slept, so nothing was tested");
    self.barrier();
    expect_equal(std::atomic_ref(self.words()[0]).load(), rounds * issuers, "the sum");
    self.barrier();
    self.leave();
  });
}

CRATON_INSTANTIATE_OVER_UCX(Transfers);
CRATON_INSTANTIATE_OVER_UCX(Messages);

}  // namespace

}  // namespace craton::fabric::ucx::testing
