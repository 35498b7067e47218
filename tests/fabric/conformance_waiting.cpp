/// Cases of waiting, waking, the barrier, and of targets that do not wait.
#include <atomic>
#include <cstring>

#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {

void deadlines_pass(RankContext& c) {
  c.start(8);
  const Clock& clock = c.fabric.clock();
  for (const TimeNs wait_ns : {TimeNs{0}, TimeNs{1'000}, TimeNs{100'000}, TimeNs{3'000'000}}) {
    const TimeNs deadline_ns = clock.now_ns() + wait_ns;
    CHECK_EQUAL(c.fabric.wait_until([] { return false; }, deadline_ns), Status::timed_out);
    CHECK(clock.now_ns() >= deadline_ns);
  }
  CHECK_EQUAL(c.fabric.wait_until([] { return true; }, clock.now_ns() - 1), Status::ok);
  CHECK_EQUAL(c.fabric.wait_until([] { return false; }, clock.now_ns() - 1), Status::timed_out);
  CHECK_EQUAL(c.fabric.wait_until([] { return true; }), Status::ok);
  c.barrier();
}

void threads_notify_waiters(RankContext& c) {
  c.start(8);
  const std::uint64_t rounds = c.count(8, 1000);
  std::atomic<std::uint64_t> turn{0};
  c.run_threads(2, [&](unsigned thread) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      c.wait_for("the other thread", [&] { return turn.load() == 2 * round + thread; });
      c.compute();
      turn.store(2 * round + thread + 1);
      c.fabric.notify();
    }
  });
  CHECK_EQUAL(turn.load(), 2 * rounds);
  c.barrier();
}

/// A thread in the background sleeps until it is called, or until the time; what else goes on does not wake
/// it.
void background_threads_sleep(RankContext& c) {
  c.start(8);
  const std::uint64_t rounds = c.count(4, 200);
  std::atomic<std::uint32_t> calls{0};
  std::atomic<std::uint64_t> answers{0};
  c.run_threads(2, [&](unsigned thread) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      if (thread == 0) {
        c.compute();
        calls.fetch_add(1);
        c.fabric.wake_sleepers(calls);
        c.wait_for("the answer", [&] { return answers.load() == round + 1; });
      } else {
        while (calls.load() == round)
          c.fabric.sleep_while(calls, static_cast<std::uint32_t>(round), no_deadline);
        answers.store(round + 1);
        c.fabric.notify();
      }
    }
  });
  CHECK_EQUAL(answers.load(), rounds);
  const Clock& clock = c.fabric.clock();
  const TimeNs deadline_ns = clock.now_ns() + 1'000'000;
  while (clock.now_ns() < deadline_ns) c.fabric.sleep_while(calls, calls.load(), deadline_ns);
  c.fabric.sleep_while(calls, calls.load() + 1, no_deadline);  // it is another already
  c.barrier();
}

/// A put wakes nobody by itself; a put and then a wake does.
void put_and_wake(RankContext& c) {
  auto* own = reinterpret_cast<std::uint64_t*>(c.start(8));
  const std::uint64_t rounds = c.count(8, 1000);
  const Rank before = (c.rank() + c.size() - 1) % c.size();
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const auto tell_next = [&] {
      CHECK_EQUAL(c.put({c.next(), main_region, 0}, &round, 8), Status::ok);
      CHECK_EQUAL(c.fabric.wake(c.next()), Status::ok);
    };
    if (c.rank() == 0) tell_next();
    c.wait_for("the rank before", [&] { return std::atomic_ref(*own).load() == round; });
    if (c.rank() != 0) tell_next();
  }
  CHECK(before < c.size());
  c.barrier();
}

/// Nobody leaves a barrier before all have come, again and again.
void barrier_separates_phases(RankContext& c) {
  auto* own = reinterpret_cast<std::uint64_t*>(c.start(8 * c.size()));
  const std::uint64_t rounds = c.count(6, 500);
  for (std::uint64_t phase = 1; phase <= rounds; ++phase) {
    for (Rank peer = 0; peer < c.size(); ++peer) {
      CHECK_EQUAL(c.put({peer, main_region, 8 * c.rank()}, &phase, 8), Status::ok);
    }
    c.barrier();
    for (Rank peer = 0; peer < c.size(); ++peer) {
      const std::uint64_t seen = std::atomic_ref(own[peer]).load();
      CHECK(seen == phase || seen == phase + 1);  // it may be one ahead, not behind
    }
  }
  c.barrier();
}

struct Counter {
  std::atomic<std::uint64_t> messages{0};
};

/// The last rank computes and never calls the library until a put of the others tells it to stop; meanwhile
/// they complete gets, puts, atomics and messages to it.
void target_that_computes(RankContext& c) {
  constexpr HandlerId count_message = first_case_handler;
  constexpr HandlerId answer = first_case_handler + 1;
  const Rank busy = c.size() - 1;
  struct State {
    RankContext& context;
    std::atomic<std::uint64_t> handled{0};
    std::atomic<std::uint64_t> answered{0};
  } state{.context = c};
  c.fabric.set_handler(
      count_message,
      [](void* context, Rank source, const std::byte*, std::size_t) noexcept {
        auto& own = *static_cast<State*>(context);
        ++own.handled;
        if (own.context.fabric.send(source, answer, nullptr, 0) != Status::ok) {
          own.context.fail("a handler could not answer");
        }
      },
      &state);
  c.fabric.set_handler(
      answer,
      [](void* context, Rank, const std::byte*, std::size_t) noexcept {
        ++static_cast<State*>(context)->answered;
      },
      &state);
  // Words: stop flags, one a rank; then a counter; then bytes, a slice a rank.
  constexpr std::size_t slice = 5000;
  const std::uint64_t counter = 8 * c.size();
  auto* own = reinterpret_cast<std::uint64_t*>(c.start(counter + 8 + slice * c.size()));
  c.barrier();
  const std::uint64_t rounds = c.count(4, 50);
  if (c.rank() == busy) {
    const TimeNs limit_ns = c.deadline();
    for (Rank peer = 0; peer < busy; ++peer) {
      while (std::atomic_ref(own[peer]).load(std::memory_order_acquire) == 0) {
        c.compute();
        CHECK(c.fabric.clock().now_ns() < limit_ns);
      }
    }
    CHECK_EQUAL(state.handled.load(), rounds * busy);
    CHECK_EQUAL(std::atomic_ref(own[c.size()]).load(), rounds * busy);
  } else {
    std::vector<std::byte> seen(slice);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::vector<std::byte> source = pattern(round, slice);
      const RemoteAddress place{busy, main_region, counter + 8 + slice * c.rank()};
      CHECK_EQUAL(c.put(place, source.data(), slice), Status::ok);
      CHECK_EQUAL(c.get(seen.data(), place, slice), Status::ok);
      check_pattern("at a target that computes", round, seen.data(), slice);
      c.fetch_add({busy, main_region, counter}, 1);
      CHECK_EQUAL(c.fabric.send(busy, count_message, nullptr, 0), Status::ok);
      c.wait_for("the answer of a target that computes", [&] { return state.answered.load() > round; });
      CHECK_EQUAL(c.fabric.flush(busy), Status::ok);
    }
    const std::uint64_t stop = 1;
    CHECK_EQUAL(c.put({busy, main_region, 8 * c.rank()}, &stop, 8), Status::ok);
  }
  c.barrier();
}

}  // namespace

std::vector<Case> waiting_cases() {
  return {{.name = "deadlines_pass", .body = deadlines_pass},
          {.name = "threads_notify_waiters", .body = threads_notify_waiters},
          {.name = "background_threads_sleep", .body = background_threads_sleep},
          {.name = "put_and_wake", .body = put_and_wake},
          {.name = "barrier_separates_phases", .body = barrier_separates_phases},
          {.name = "target_that_computes", .body = target_that_computes}};
}

}  // namespace craton::fabric::conformance
