/// Cases of get, put, completion, flush and regions.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>

#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {

void regions_of_different_sizes(RankContext& c) {
  const auto bytes_of = [](Rank rank) { return std::size_t{1} + rank * 4099; };
  std::byte* own = c.start(bytes_of(c.rank()));
  CHECK(c.fabric.direct(c.rank(), main_region) != nullptr);
  CHECK_EQUAL(c.fabric.region_bytes(c.rank(), main_region + 1), 0U);
  own[bytes_of(c.rank()) - 1] = pattern_byte(c.rank(), 0);
  c.barrier();
  for (Rank peer = 0; peer < c.size(); ++peer) {
    CHECK_EQUAL(c.fabric.region_bytes(peer, main_region), bytes_of(peer));
    CHECK_EQUAL(c.fabric.direct(peer, main_region) != nullptr, c.fabric.capabilities(peer).load_store);
    std::byte last{};
    CHECK_EQUAL(c.get(&last, {peer, main_region, bytes_of(peer) - 1}, 1), Status::ok);
    check_pattern("the last byte of a region", peer, &last, 1);
  }
}

void capabilities_are_plausible(RankContext& c) {
  c.start(64);
  for (Rank peer = 0; peer < c.size(); ++peer) {
    const Capabilities can = c.fabric.capabilities(peer);
    CHECK(can.transport != nullptr);
    CHECK(can.max_message_bytes >= max_message_bytes);
    CHECK_EQUAL(can.atomic_domain, c.fabric.capabilities(0).atomic_domain);
    CHECK_EQUAL(c.fabric.alive(peer), true);
    CHECK(c.fabric.node_of(peer) <= peer);
    if (can.load_store) CHECK_EQUAL(c.fabric.node_of(peer), c.fabric.node_of(c.rank()));
  }
  CHECK_EQUAL(c.fabric.node_of(0), 0U);
  CHECK_EQUAL(c.fabric.lost_ranks(), 0U);
  CHECK(c.fabric.capabilities(c.rank()).load_store);
  c.barrier();
}

/// Every size from 1 byte to 4 KiB at odd offsets, each by one of the ranks: each rank has a slice of its own
/// in each rank's region, checks what it put there, and that nothing around it has changed.
void small_sizes_at_odd_offsets(RankContext& c) {
  constexpr std::size_t largest = 4096;
  constexpr std::size_t slice = 2 * largest + 64;
  c.start(slice * c.size());
  const std::uint64_t base = slice * c.rank();
  std::vector<std::byte> expected(slice);
  std::vector<std::byte> seen(slice);
  const bool real = c.count(0, 1) != 0;
  const auto steps = c.count(12, largest / c.size());
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const std::size_t bytes =
        real ? (step - 1) * c.size() + c.rank() + 1 : c.random.between(1, step % 2 != 0 ? 24 : largest);
    const std::size_t offset = c.random.below(largest) | 1U;
    const auto target = static_cast<Rank>((c.rank() + step) % c.size());
    const std::vector<std::byte> source = pattern(c.random.next(), bytes);
    std::vector<std::byte> before(slice);
    CHECK_EQUAL(c.get(before.data(), {target, main_region, base}, slice), Status::ok);
    CHECK_EQUAL(c.put({target, main_region, base + offset}, source.data(), bytes), Status::ok);
    std::copy(source.begin(), source.end(), before.begin() + static_cast<std::ptrdiff_t>(offset));
    CHECK_EQUAL(c.get(seen.data(), {target, main_region, base}, slice), Status::ok);
    CHECK_EQUAL(std::memcmp(seen.data(), before.data(), slice), 0);
    std::vector<std::byte> part(bytes + 2, std::byte{0x5a});
    CHECK_EQUAL(c.get(part.data() + 1, {target, main_region, base + offset}, bytes), Status::ok);
    CHECK_EQUAL(std::memcmp(part.data() + 1, source.data(), bytes), 0);
    CHECK(part.front() == std::byte{0x5a});
    CHECK(part.back() == std::byte{0x5a});
  }
  c.barrier();
}

void large_transfers(RankContext& c) {
  static constexpr std::array<std::size_t, 8> real_sizes{4097,    65'535,    65'539,    300'001,
                                                         1 << 20, 1'048'577, 4'194'299, 64 << 20};
  static constexpr std::array<std::size_t, 4> simulated_sizes{4097, 20'001, 65'535, 131'075};
  const bool real = c.count(0, 1) != 0;
  const std::size_t sizes = real ? real_sizes.size() : 1;
  const std::size_t largest = real ? real_sizes.back() : simulated_sizes.back();
  c.start(largest + 16);
  std::vector<std::byte> seen;
  for (std::size_t i = 0; i < sizes; ++i) {
    const std::size_t bytes = real ? real_sizes[i] : c.random.pick(simulated_sizes);
    const std::uint64_t offset = 2 * c.random.below(8) + 1;
    const std::vector<std::byte> source = pattern(c.rank() * 100 + i, bytes);
    CHECK_EQUAL(c.put({c.next(), main_region, offset}, source.data(), bytes), Status::ok);
    seen.assign(bytes, std::byte{});
    CHECK_EQUAL(c.get(seen.data(), {c.next(), main_region, offset}, bytes), Status::ok);
    check_pattern("a large transfer", c.rank() * 100 + i, seen.data(), bytes);
  }
  c.barrier();
}

/// All ranks put, many at a time, to neighbouring odd-sized slices of one rank: no byte is lost to a
/// neighbour.
void neighbouring_puts_do_not_disturb(RankContext& c) {
  constexpr std::size_t slice = 13;
  const std::uint64_t rounds = c.count(12, 2000);
  std::byte* own = c.start(slice * rounds * c.size());
  const auto key = [&](std::uint64_t round, Rank rank) { return round * max_ranks + rank; };
  std::vector<std::vector<std::byte>> sources;
  {
    Completion completion;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      sources.push_back(pattern(key(round, c.rank()), slice));
      c.fabric.put({0, main_region, (round * c.size() + c.rank()) * slice}, sources.back().data(), slice,
                   completion);
    }
    c.finish_ok(completion);
  }
  c.barrier();
  if (c.rank() == 0) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (Rank rank = 0; rank < c.size(); ++rank) {
        check_pattern("a slice among others", key(round, rank), own + (round * c.size() + rank) * slice,
                      slice);
      }
    }
  }
  c.barrier();
}

/// All ranks put to the same range while all get it: every byte seen was put there by somebody, at its place.
void overlapping_puts_make_no_bytes_up(RankContext& c) {
  constexpr std::size_t largest = 300;
  constexpr std::size_t guard = 8;
  std::byte* own = c.start(guard + largest + guard);
  const std::uint64_t rounds = c.count(10, 1500);
  c.barrier();
  const std::vector<std::byte> source = pattern(c.rank(), largest);
  std::vector<std::byte> seen(largest);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto target = static_cast<Rank>(round % 2 == 0 ? 0 : c.random.below(c.size()));
    const std::size_t first = c.random.below(largest);
    const std::size_t bytes = c.random.between(1, largest - first);
    Completion completion;
    c.fabric.put({target, main_region, guard + first}, source.data() + first, bytes, completion);
    c.fabric.get(seen.data(), {target, main_region, guard}, largest, completion);
    c.finish_ok(completion);
    for (std::size_t i = 0; i < largest; ++i) {
      bool known = seen[i] == std::byte{};
      for (Rank rank = 0; rank < c.size() && !known; ++rank) known = seen[i] == pattern_byte(rank, i);
      CHECK(known);
    }
  }
  c.barrier();
  for (std::size_t i = 0; i < guard; ++i) {
    CHECK(own[i] == std::byte{});
    CHECK(own[guard + largest + i] == std::byte{});
  }
}

/// Words whose halves agree, put and got by all at once, alone and several of a line, and loaded by their
/// owner.
void words_are_never_torn(RankContext& c) {
  constexpr std::size_t words = line_bytes / 8;
  auto* own = reinterpret_cast<std::uint64_t*>(c.start(line_bytes));
  const std::uint64_t rounds = c.count(16, 3000);
  const auto whole = [](std::uint64_t word) { return word >> 32U == (word & 0xffff'ffffU); };
  struct Piece {
    std::size_t first;
    std::size_t count;
  };
  const auto piece = [&c] {
    const std::size_t first = c.random.below(words);
    return Piece{.first = first, .count = c.random.one_in(2) ? 1 : 1 + c.random.below(words - first)};
  };
  std::array<std::array<std::uint64_t, words>, 2> sources{};
  std::array<std::array<std::uint64_t, words>, 2> seen{};
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Completion completion;
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::uint64_t& word : sources[i]) {
        const std::uint64_t half = c.random.next() >> 32U;
        word = half << 32U | half;
      }
      const Piece put = piece();
      c.fabric.put({static_cast<Rank>(c.random.below(c.size())), main_region, 8 * put.first},
                   sources[i].data(), 8 * put.count, completion);
      const Piece got = piece();
      c.fabric.get(seen[i].data(), {static_cast<Rank>(c.random.below(c.size())), main_region, 8 * got.first},
                   8 * got.count, completion);
    }
    for (int looks = 0; looks < 20 && !completion.done(); ++looks) {
      c.compute();
      const std::uint64_t word = std::atomic_ref(own[round % words]).load(std::memory_order_relaxed);
      CHECK(whole(word));
    }
    c.finish_ok(completion);
    for (const auto& each : seen) CHECK(std::all_of(each.begin(), each.end(), whole));
  }
  c.barrier();
}

void operations_of_no_bytes(RankContext& c) {
  c.start(16);
  for (Rank peer = 0; peer < c.size(); ++peer) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{16}}) {
      int called = 0;
      Completion completion([](void* count, Status) noexcept { ++*static_cast<int*>(count); }, &called);
      std::byte untouched{0x77};
      c.fabric.get(&untouched, {peer, main_region, offset}, 0, completion);
      c.finish_ok(completion);
      c.fabric.put({peer, main_region, offset}, &untouched, 0, completion);
      c.finish_ok(completion);
      CHECK_EQUAL(called, 2);
      CHECK(untouched == std::byte{0x77});
    }
  }
  c.barrier();
}

void operations_on_own_memory(RankContext& c) {
  std::byte* own = c.start(4096);
  const std::vector<std::byte> source = pattern(c.rank(), 1001);
  CHECK_EQUAL(c.put({c.rank(), main_region, 17}, source.data(), source.size()), Status::ok);
  check_pattern("own memory", c.rank(), own + 17, source.size());
  std::vector<std::byte> seen(source.size());
  CHECK_EQUAL(c.get(seen.data(), {c.rank(), main_region, 17}, seen.size()), Status::ok);
  check_pattern("got from itself", c.rank(), seen.data(), seen.size());
  const RemoteAddress word{c.rank(), main_region, 2048};
  CHECK_EQUAL(c.fetch_add(word, 5), 0U);
  CHECK_EQUAL(c.compare_exchange(word, 5, 9), 5U);
  CHECK_EQUAL(c.swap(word, 1), 9U);
  CHECK_EQUAL(c.fabric.flush(c.rank()), Status::ok);
  c.barrier();
}

/// One Completion for operations of all kinds to all ranks.
void shared_completion(RankContext& c) {
  constexpr std::size_t slice = 64;
  c.start(slice * c.size() + 8);
  const std::uint64_t rounds = c.count(3, 200);
  std::vector<std::byte> source = pattern(c.rank(), slice);
  std::vector<std::vector<std::byte>> seen(c.size(), std::vector<std::byte>(slice));
  std::vector<std::uint64_t> previous(c.size());
  for (Rank peer = 0; peer < c.size(); ++peer) {
    CHECK_EQUAL(c.put({peer, main_region, slice * c.rank()}, source.data(), slice), Status::ok);
  }
  Completion completion;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (Rank peer = 0; peer < c.size(); ++peer) {
      std::fill(seen[peer].begin(), seen[peer].end(), std::byte{});
      c.fabric.get(seen[peer].data(), {peer, main_region, slice * c.rank()}, slice, completion);
      c.fabric.fetch_add({peer, main_region, slice * c.size()}, 1, &previous[peer], completion);
    }
    c.finish_ok(completion);
    for (Rank peer = 0; peer < c.size(); ++peer)
      check_pattern("of many at once", c.rank(), seen[peer].data(), slice);
  }
  c.barrier();
  for (Rank peer = 0; peer < c.size(); ++peer) {
    CHECK_EQUAL(c.fetch_add({peer, main_region, slice * c.size()}, 0), rounds * c.size());
  }
  c.barrier();
}

struct Chain {
  RankContext* context = nullptr;
  Completion* completion = nullptr;
  std::uint64_t links = 0;
  std::uint64_t called = 0;
  std::uint64_t word = 0;
};

/// A callback runs once for each operation; one that issues the next operation makes a chain.
void callbacks_run_once_and_may_issue(RankContext& c) {
  auto* words = reinterpret_cast<std::uint64_t*>(c.start(16));
  struct Received {
    std::atomic<std::uint64_t> messages{0};
  } received;
  constexpr HandlerId told = first_case_handler;
  c.fabric.set_handler(
      told,
      [](void* to, Rank, const std::byte*, std::size_t) noexcept { ++static_cast<Received*>(to)->messages; },
      &received);
  c.barrier();
  Chain chain{.context = &c, .links = c.count(6, 500)};
  Completion completion(
      [](void* context, Status status) noexcept {
        auto& own = *static_cast<Chain*>(context);
        RankContext& rank = *own.context;
        if (status != Status::ok) return rank.fail("a callback was told that a living rank is lost");
        if (rank.fabric.send(rank.next(), told, nullptr, 0) != Status::ok)
          rank.fail("send failed in a callback");
        if (++own.called >= own.links) return;
        rank.fabric.fetch_add({rank.next(), main_region, 8}, 1, &own.word, *own.completion);
      },
      &chain);
  chain.completion = &completion;
  c.fabric.fetch_add({c.next(), main_region, 8}, 1, &chain.word, completion);
  c.finish_ok(completion);
  CHECK_EQUAL(chain.called, chain.links);
  c.wait_for("messages of callbacks", [&] { return received.messages.load() >= chain.links; });
  c.barrier();
  CHECK_EQUAL(received.messages.load(), chain.links);
  CHECK_EQUAL(std::atomic_ref(words[1]).load(), chain.links);

  // Many at once, of each kind.
  std::atomic<std::uint64_t> called{0};
  const std::uint64_t rounds = c.count(12, 1000);
  std::vector<std::uint64_t> buffers(rounds);
  Completion counting(
      [](void* count, Status) noexcept { ++*static_cast<std::atomic<std::uint64_t>*>(count); }, &called);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const auto peer = static_cast<Rank>(i % c.size());
    switch (i % 3) {
      case 0:
        c.fabric.get(&buffers[i], {peer, main_region, 0}, 8, counting);
        break;
      case 1:
        c.fabric.put({peer, main_region, 0}, &buffers[i], 8, counting);
        break;
      default:
        c.fabric.swap({peer, main_region, 0}, 0, &buffers[i], counting);
        break;
    }
  }
  c.finish_ok(counting);
  CHECK_EQUAL(called.load(), rounds);
  c.barrier();
}

/// After a flush, or the completion of a put, a message tells the truth about the data.
template <bool by_flush>
void data_before_message(RankContext& c) {
  constexpr std::size_t bytes = 777;
  constexpr HandlerId told = first_case_handler;
  struct Told {
    RankContext* context;
    const std::byte* memory = nullptr;
    std::atomic<std::uint64_t> rounds{0};
  } state{.context = &c};
  c.fabric.set_handler(
      told,
      [](void* context, Rank source, const std::byte* payload, std::size_t) noexcept {
        auto& own = *static_cast<Told*>(context);
        std::uint64_t key = 0;
        std::memcpy(&key, payload, 8);
        if (first_difference(key, own.memory + bytes * source, bytes) != bytes) {
          own.context->fail("a message came before the data that it tells of");
        }
        ++own.rounds;
      },
      &state);
  state.memory = c.start(bytes * c.size());
  c.barrier();  // others may be through with start before this rank is
  const std::uint64_t rounds = c.count(6, 500);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const std::uint64_t key = round * max_ranks + c.rank();
    const std::vector<std::byte> source = pattern(key, bytes);
    Completion completion;
    // In two puts, so that a flush has several to wait for.
    c.fabric.put({c.next(), main_region, bytes * c.rank()}, source.data(), 100, completion);
    c.fabric.put({c.next(), main_region, bytes * c.rank() + 100}, source.data() + 100, bytes - 100,
                 completion);
    if (by_flush) {
      CHECK_EQUAL(c.fabric.flush(c.next()), Status::ok);
    } else {
      c.finish_ok(completion);
    }
    CHECK_EQUAL(c.fabric.send(c.next(), told, &key, 8), Status::ok);
    c.finish_ok(completion);
    c.wait_for("the neighbour's message", [&] { return state.rounds.load() >= round; });
    c.barrier();  // so that nobody overwrites what is being checked
  }
}

/// A completed put is there for a third rank too.
void completed_puts_are_seen_by_others(RankContext& c) {
  struct Relay {
    std::atomic<std::uint64_t> heard{0};
  } relay;
  constexpr HandlerId told = first_case_handler;
  c.fabric.set_handler(
      told, [](void* to, Rank, const std::byte*, std::size_t) noexcept { ++static_cast<Relay*>(to)->heard; },
      &relay);
  c.start(8 * c.size());
  const std::uint64_t rounds = c.count(6, 300);
  const auto before = [&](Rank rank) { return (rank + c.size() - 1) % c.size(); };
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    // Each writes at the rank before it and tells the rank after it, which reads what its own predecessor
    // wrote.
    CHECK_EQUAL(c.put({before(c.rank()), main_region, 8 * c.rank()}, &round, 8), Status::ok);
    CHECK_EQUAL(c.fabric.send(c.next(), told, nullptr, 0), Status::ok);
    c.wait_for("word from the writer", [&] { return relay.heard.load() >= round; });
    const Rank writer = before(c.rank());
    std::uint64_t seen = 0;
    CHECK_EQUAL(c.get(&seen, {before(writer), main_region, 8 * writer}, 8), Status::ok);
    CHECK(seen >= round);
  }
  c.barrier();
}

void many_regions(RankContext& c) {
  c.start(8);
  const std::uint64_t rounds = c.count(3, 60);
  constexpr RegionId at_once = 4;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::vector<std::unique_ptr<RegionMemory>> memories;
    for (RegionId i = 0; i < at_once; ++i) {
      memories.push_back(
          std::make_unique<RegionMemory>("many", 1 + (round * 977 + i * 4096 + c.rank()) % 9000));
      c.fabric.register_region(main_region + 1 + i, *memories.back());
    }
    for (RegionId i = 0; i < at_once; ++i) {
      const RegionId region = main_region + 1 + i;
      const std::uint64_t bytes = c.fabric.region_bytes(c.next(), region);
      CHECK_EQUAL(bytes, 1 + (round * 977 + i * 4096 + c.next()) % 9000);
      const std::vector<std::byte> source = pattern(round, bytes);
      CHECK_EQUAL(c.put({c.next(), region, 0}, source.data(), bytes), Status::ok);
    }
    c.barrier();
    for (RegionId i = 0; i < at_once; ++i) {
      check_pattern("one of many regions", round, memories[i]->data(), memories[i]->bytes());
      c.fabric.unregister_region(main_region + 1 + i);
    }
    CHECK_EQUAL(c.fabric.region_bytes(c.next(), main_region + 1), 0U);
  }
  c.barrier();
}

/// Several threads of each rank issue everything at once; each checks its own.
void threads_issue_at_once(RankContext& c) {
  constexpr unsigned threads = 3;
  constexpr std::size_t slice = 512;
  constexpr HandlerId told = first_case_handler;
  std::atomic<std::uint64_t> heard{0};
  c.fabric.set_handler(
      told,
      [](void* to, Rank, const std::byte*, std::size_t) noexcept {
        ++*static_cast<std::atomic<std::uint64_t>*>(to);
      },
      &heard);
  const std::size_t words = slice * threads * c.size();
  c.start(words + 8);
  const std::uint64_t rounds = c.count(4, 400);
  c.run_threads(threads, [&](unsigned thread) {
    const std::uint64_t base = slice * (c.rank() * threads + thread);
    sim::Random random(c.rank() * threads + thread);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const auto target = static_cast<Rank>(random.below(c.size()));
      const std::size_t offset = random.below(slice);
      const std::size_t bytes = random.between(1, slice - offset);
      const std::uint64_t key = random.next();
      const std::vector<std::byte> source = pattern(key, bytes);
      std::vector<std::byte> seen(bytes);
      CHECK_EQUAL(c.put({target, main_region, base + offset}, source.data(), bytes), Status::ok);
      CHECK_EQUAL(c.get(seen.data(), {target, main_region, base + offset}, bytes), Status::ok);
      check_pattern("one thread's bytes", key, seen.data(), bytes);
      c.fetch_add({target, main_region, words}, 1);
      CHECK_EQUAL(c.fabric.send(c.next(), told, source.data(), std::min<std::size_t>(bytes, 100)),
                  Status::ok);
      if (round % 16 == 0) CHECK_EQUAL(c.fabric.flush(target), Status::ok);
    }
  });
  c.wait_for("the messages of all threads", [&] { return heard.load() >= rounds * threads; });
  c.barrier();
  CHECK_EQUAL(heard.load(), rounds * threads);
  std::uint64_t sum = 0;
  for (Rank peer = 0; peer < c.size(); ++peer) sum += c.fetch_add({peer, main_region, words}, 0);
  CHECK_EQUAL(sum, rounds * threads * c.size());
  c.barrier();
}

void job_of_one(RankContext& c) {
  CHECK_EQUAL(c.size(), 1U);
  operations_on_own_memory(c);
  CHECK_EQUAL(c.fabric.node_of(0), 0U);
}

}  // namespace

std::vector<Case> one_sided_cases() {
  return {{.name = "regions_of_different_sizes", .body = regions_of_different_sizes},
          {.name = "capabilities_are_plausible", .body = capabilities_are_plausible},
          {.name = "small_sizes_at_odd_offsets", .body = small_sizes_at_odd_offsets},
          {.name = "large_transfers", .body = large_transfers},
          {.name = "neighbouring_puts_do_not_disturb", .body = neighbouring_puts_do_not_disturb},
          {.name = "overlapping_puts_make_no_bytes_up", .body = overlapping_puts_make_no_bytes_up},
          {.name = "words_are_never_torn", .body = words_are_never_torn},
          {.name = "operations_of_no_bytes", .body = operations_of_no_bytes},
          {.name = "operations_on_own_memory", .body = operations_on_own_memory},
          {.name = "shared_completion", .body = shared_completion},
          {.name = "callbacks_run_once_and_may_issue", .body = callbacks_run_once_and_may_issue},
          {.name = "flush_then_message", .body = data_before_message<true>},
          {.name = "completion_then_message", .body = data_before_message<false>},
          {.name = "completed_puts_are_seen_by_others", .body = completed_puts_are_seen_by_others},
          {.name = "many_regions", .body = many_regions},
          {.name = "threads_issue_at_once", .body = threads_issue_at_once},
          {.name = "job_of_one", .body = job_of_one, .ranks_at_least = 1, .ranks_at_most = 1}};
}

}  // namespace craton::fabric::conformance
