/// Cases in which the last rank is killed while operations to it and from it are on their way.
#include <atomic>
#include <cstring>

#include "base/error.hpp"
#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {

constexpr HandlerId noise = first_case_handler;
constexpr HandlerId survivor_told = first_case_handler + 1;
constexpr HandlerId ready_told = first_case_handler + 2;
constexpr std::size_t large_bytes = 1 << 20;

/// What is in the middle of happening when the rank dies.
enum class Doing { gets, puts, large_gets, large_puts, atomics, messages, flushes, waits, everything };

struct Death {
  explicit Death(RankContext& of) : context(of) {}
  RankContext& context;
  std::atomic<std::uint64_t> lost_calls{0};
  std::atomic<std::uint64_t> told{0};
  std::atomic<bool> over{false};  ///< for this rank; others may leave now, unannounced
};

/// Lets the victim die once all others have left the barrier that begins the case.
class Readiness {
 public:
  explicit Readiness(RankContext& context) : context_(context) {
    context.fabric.set_handler(
        ready_told,
        [](void* self, Rank, const std::byte*, std::size_t) noexcept {
          ++static_cast<Readiness*>(self)->ready_;
        },
        this);
  }
  void reach() {
    const Rank victim = context_.victim.value();
    context_.barrier();
    if (context_.rank() == victim) {
      context_.wait_for("the others", [this] { return ready_.load() == context_.size() - 1; });
      context_.die_soon();
    } else {
      CHECK_EQUAL(context_.fabric.send(victim, ready_told, nullptr, 0), Status::ok);
    }
  }

 private:
  RankContext& context_;
  std::atomic<Rank> ready_{0};
};

/// One operation to `target`, waited for. \returns how it ended
Status operate(RankContext& c, Doing doing, Rank target, std::vector<std::byte>& buffer) {
  Completion completion;
  std::uint64_t previous = 0;
  const auto choice = doing == Doing::everything ? static_cast<Doing>(c.random.below(7)) : doing;
  switch (choice) {
    case Doing::gets:
      c.fabric.get(buffer.data(), {target, main_region, 1}, 1 + c.random.below(4000), completion);
      break;
    case Doing::puts:
      c.fabric.put({target, main_region, 1}, buffer.data(), 1 + c.random.below(4000), completion);
      break;
    case Doing::large_gets:
      c.fabric.get(buffer.data(), {target, main_region, 1}, buffer.size() - 1, completion);
      break;
    case Doing::large_puts:
      c.fabric.put({target, main_region, 1}, buffer.data(), buffer.size() - 1, completion);
      break;
    case Doing::atomics:
      c.fabric.fetch_add({target, main_region, 0}, 1, &previous, completion);
      break;
    case Doing::messages:
      return c.fabric.send(target, noise, buffer.data(), c.random.below(max_message_bytes + 1));
    case Doing::flushes: {
      c.fabric.put({target, main_region, 1}, buffer.data(), 100, completion);
      const Status flushed = c.fabric.flush(target);
      const Status finished = c.finish(completion);
      return flushed == Status::ok ? finished : flushed;
    }
    default:
      c.wait_for("nothing", [] { return true; });
      break;
  }
  return c.finish(completion);
}

/// All operations to a dead rank end at once, and say why.
void check_lost(RankContext& c, Rank victim, std::vector<std::byte>& buffer) {
  CHECK_EQUAL(c.fabric.alive(victim), false);
  CHECK_EQUAL(c.fabric.lost_ranks(), 1U);
  for (const Doing doing : {Doing::gets, Doing::puts, Doing::large_gets, Doing::large_puts, Doing::atomics,
                            Doing::messages, Doing::flushes}) {
    CHECK_EQUAL(operate(c, doing, victim, buffer), Status::peer_lost);
  }
  int called = 0;
  Completion completion(
      [](void* count, Status status) noexcept {
        if (status == Status::peer_lost) ++*static_cast<int*>(count);
      },
      &called);
  c.fabric.get(buffer.data(), {victim, main_region, 0}, 8, completion);
  CHECK_EQUAL(c.finish(completion), Status::peer_lost);
  CHECK_EQUAL(called, 1);
}

/// The others go on among themselves.
void check_survivors(RankContext& c, Rank victim, Death& state, std::vector<std::byte>& buffer) {
  for (Rank peer = 0; peer < c.size(); ++peer) {
    if (peer == victim) continue;
    CHECK_EQUAL(c.fabric.alive(peer), true);
    for (const Doing doing : {Doing::gets, Doing::puts, Doing::atomics, Doing::flushes}) {
      CHECK_EQUAL(operate(c, doing, peer, buffer), Status::ok);
    }
    CHECK_EQUAL(c.fabric.send(peer, survivor_told, nullptr, 0), Status::ok);
  }
  c.wait_for("word from all survivors", [&] { return state.told.load() >= c.size() - 1; });
}

template <Doing doing>
void killed_during(RankContext& c) {
  auto& state = c.keep<Death>(c);
  auto& readiness = c.keep<Readiness>(c);
  const Rank victim = c.victim.value();
  c.fabric.set_handler(
      noise, [](void*, Rank, const std::byte*, std::size_t) noexcept {}, nullptr);
  c.fabric.set_handler(
      survivor_told,
      [](void* to, Rank, const std::byte*, std::size_t) noexcept { ++static_cast<Death*>(to)->told; },
      &state);
  c.fabric.set_peer_lost_handler(
      [](void* context, Rank rank) noexcept {
        auto& own = *static_cast<Death*>(context);
        if (own.over.load()) return;
        if (rank != own.context.victim) own.context.fail("a rank that lives was called lost");
        ++own.lost_calls;
      },
      &state);
  const std::size_t bytes = c.count(40'000, large_bytes);
  c.start(bytes);
  std::vector<std::byte> buffer(bytes);
  readiness.reach();
  if (c.rank() == victim) {
    for (;;) {
      if (operate(c, doing, static_cast<Rank>(c.random.below(victim)), buffer) != Status::ok)
        c.fail("a survivor was lost");
      c.compute();
    }
  }
  const TimeNs limit_ns = c.deadline();
  if (doing == Doing::waits) {
    c.wait_for("the death of a peer", [&] { return c.fabric.lost_ranks() != 0; });
  } else {
    while (operate(c, doing, victim, buffer) == Status::ok) {
      c.compute();
      CHECK(c.fabric.clock().now_ns() < limit_ns);
    }
  }
  c.wait_for("the news of the death", [&] { return state.lost_calls.load() != 0; });
  check_lost(c, victim, buffer);
  c.fabric.declare_lost(victim);  // no news
  check_survivors(c, victim, state, buffer);
  CHECK_EQUAL(state.lost_calls.load(), 1U);
  state.over.store(true);
}

/// Those who wait in the barrier for a rank that dies get to know.
void killed_before_barrier(RankContext& c) {
  auto& readiness = c.keep<Readiness>(c);
  c.start(64);
  readiness.reach();
  if (c.rank() == c.victim) {
    for (;;) {
      std::uint64_t seen = 0;
      static_cast<void>(c.get(&seen, {0, main_region, 0}, 8));
      c.compute();
    }
  }
  CHECK_EQUAL(c.try_barrier(), Status::peer_lost);
  bool refused = false;
  try {
    RegionMemory memory("late", 8);
    c.fabric.register_region(main_region + 1, memory);
  } catch (const Error& error) {
    refused = error.code() == ErrorCode::peer_lost;
    if (!refused) throw;
  }
  CHECK(refused);
}

}  // namespace

std::vector<Case> death_cases() {
  const auto of = [](const char* name, void (*body)(RankContext&)) {
    return Case{.name = name, .body = body, .ranks_at_least = 2, .ranks_at_most = 4, .victim = true};
  };
  return {of("killed_during_gets", killed_during<Doing::gets>),
          of("killed_during_puts", killed_during<Doing::puts>),
          of("killed_during_large_gets", killed_during<Doing::large_gets>),
          of("killed_during_large_puts", killed_during<Doing::large_puts>),
          of("killed_during_atomics", killed_during<Doing::atomics>),
          of("killed_during_messages", killed_during<Doing::messages>),
          of("killed_during_flushes", killed_during<Doing::flushes>),
          of("killed_during_waits", killed_during<Doing::waits>),
          of("killed_during_everything", killed_during<Doing::everything>),
          of("killed_before_barrier", killed_before_barrier)};
}

}  // namespace craton::fabric::conformance
