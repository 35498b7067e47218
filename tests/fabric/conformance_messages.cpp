/// Cases of messages and handlers.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {

constexpr HandlerId first_handler = first_case_handler;
constexpr HandlerId second_handler = first_case_handler + 1;

/// What a storm's message begins with; the rest, if there is room for it, is a pattern.
struct StormHeader {
  std::uint32_t sequence;
  std::uint32_t bytes;
};

std::uint64_t storm_key(Rank source, std::uint32_t sequence) {
  return std::uint64_t{source} << 32U | sequence;
}

std::vector<std::byte> storm_message(Rank source, std::uint32_t sequence, std::size_t bytes) {
  std::vector<std::byte> message = pattern(storm_key(source, sequence), bytes);
  const StormHeader header{sequence, static_cast<std::uint32_t>(bytes)};
  if (bytes != 0) std::memcpy(message.data(), &header, std::min(bytes, sizeof header));
  return message;
}

/// Checks a storm's messages as they arrive: each one whole, next in its source's order.
class StormCheck {
 public:
  explicit StormCheck(RankContext& context) : context_(context), next_(context.size()) {}

  static void handle(void* self, Rank source, const std::byte* payload, std::size_t bytes) noexcept {
    static_cast<StormCheck*>(self)->check(source, payload, bytes);
  }
  std::uint64_t received() const noexcept { return received_.load(); }

 private:
  void check(Rank source, const std::byte* payload, std::size_t bytes) noexcept {
    if (reinterpret_cast<std::uintptr_t>(payload) % 8 != 0)
      context_.fail("a payload is not aligned to 8 bytes");
    if (source >= next_.size()) return context_.fail("a message from a rank that does not exist");
    const std::uint32_t sequence = next_[source]++;
    StormHeader header{sequence, static_cast<std::uint32_t>(bytes)};
    if (bytes >= sizeof header) std::memcpy(&header, payload, sizeof header);
    if (header.sequence != sequence) {
      context_.fail("message " + std::to_string(header.sequence) + " of rank " + std::to_string(source) +
                    " came where message " + std::to_string(sequence) + " should");
    }
    if (header.bytes != bytes) context_.fail("a message of another size than was sent");
    const std::vector<std::byte> expected = storm_message(source, sequence, bytes);
    if (!std::equal(expected.begin(), expected.end(), payload))
      context_.fail("a message with other bytes than were sent");
    ++received_;
  }

  RankContext& context_;
  std::vector<std::uint32_t> next_;
  std::atomic<std::uint64_t> received_{0};
};

/// All to all, rings full, all sizes from nothing to the largest.
void storm_of_all_sizes(RankContext& c) {
  StormCheck check(c);
  c.fabric.set_handler(first_handler, &StormCheck::handle, &check);
  c.start(8);
  const std::uint64_t messages = c.count(24, max_message_bytes + 1);
  for (std::uint32_t i = 0; i < messages; ++i) {
    for (Rank target = 0; target < c.size(); ++target) {
      // In the simulator few sizes, but the extremes among them.
      const std::size_t any = i % 4 == 0 ? max_message_bytes - i / 4 : c.random.below(max_message_bytes + 1);
      const std::size_t bytes = c.count(0, 1) != 0 ? (i + target) % (max_message_bytes + 1)
                                : i % 8 == 1       ? i / 8
                                                   : any;
      const std::vector<std::byte> message = storm_message(c.rank(), i, bytes);
      CHECK_EQUAL(c.fabric.send(target, first_handler, message.data(), bytes), Status::ok);
    }
  }
  c.wait_for("all messages of the storm", [&] { return check.received() >= messages * c.size(); });
  c.barrier();
  CHECK_EQUAL(check.received(), messages * c.size());
}

/// All send to one, which computes for a while in between, so that the rings fill.
void storm_on_one_rank(RankContext& c) {
  StormCheck check(c);
  c.fabric.set_handler(first_handler, &StormCheck::handle, &check);
  c.start(8);
  const std::uint64_t messages = c.count(30, 3000);
  for (std::uint32_t i = 0; i < messages; ++i) {
    if (c.rank() == 0) c.compute();
    const std::vector<std::byte> message = storm_message(c.rank(), i, 1000 + c.random.below(3000));
    CHECK_EQUAL(c.fabric.send(0, first_handler, message.data(), message.size()), Status::ok);
  }
  if (c.rank() == 0) {
    c.wait_for("all messages of the storm", [&] { return check.received() >= messages * c.size(); });
  }
  c.barrier();
  CHECK_EQUAL(check.received(), c.rank() == 0 ? messages * c.size() : 0);
}

struct PingPong {
  RankContext& context;
  std::atomic<std::uint64_t> answers{0};
  std::uint64_t hops = 0;
};

/// Handlers answer handlers: each ball goes to and fro a number of times.
void handlers_answer(RankContext& c) {
  PingPong state{.context = c};
  c.fabric.set_handler(
      first_handler,
      [](void* context, Rank source, const std::byte* payload, std::size_t bytes) noexcept {
        auto& own = *static_cast<PingPong*>(context);
        std::uint64_t hops_left = 0;
        if (bytes < 8) return own.context.fail("a ball without its count");
        std::memcpy(&hops_left, payload, 8);
        if (hops_left == 0) {
          ++own.answers;
          return;
        }
        std::array<std::byte, 1024> answer{};
        --hops_left;
        std::memcpy(answer.data(), &hops_left, 8);
        if (own.context.fabric.send(source, first_handler, answer.data(), bytes) != Status::ok) {
          own.context.fail("a handler could not answer");
        }
      },
      &state);
  c.start(8);
  const std::uint64_t balls = c.count(6, 200);
  const std::uint64_t hops = 1 + 2 * c.count(2, 20);  // odd: each ball ends where it was first thrown
  std::array<std::byte, 1024> ball{};
  std::memcpy(ball.data(), &hops, 8);
  for (std::uint64_t i = 0; i < balls; ++i) {
    for (Rank target = 0; target < c.size(); ++target) {
      CHECK_EQUAL(c.fabric.send(target, first_handler, ball.data(), 8 + c.random.below(1000)), Status::ok);
    }
  }
  c.wait_for("all balls to come back", [&] { return state.answers.load() >= balls * c.size(); });
  c.barrier();
  CHECK_EQUAL(state.answers.load(), balls * c.size());
}

struct Multiplier {
  RankContext& context;
  std::uint64_t factor;
  std::vector<std::uint64_t> sent;  ///< by this rank's handler, to each
  StormCheck check;
};

/// Each message of the first kind makes a handler send several large ones to everybody, while rings are full
/// and the receivers do the same.
void handlers_send_into_full_rings(RankContext& c) {
  Multiplier state{
      .context = c, .factor = 4, .sent = std::vector<std::uint64_t>(c.size()), .check = StormCheck(c)};
  c.fabric.set_handler(
      first_handler,
      [](void* context, Rank, const std::byte*, std::size_t) noexcept {
        auto& own = *static_cast<Multiplier*>(context);
        RankContext& rank = own.context;
        for (std::uint64_t i = 0; i < own.factor; ++i) {
          for (Rank target = 0; target < rank.size(); ++target) {
            const auto sequence = static_cast<std::uint32_t>(own.sent[target]++);
            const auto message = storm_message(rank.rank(), sequence, max_message_bytes - sequence % 100);
            if (rank.fabric.send(target, second_handler, message.data(), message.size()) != Status::ok) {
              rank.fail("a handler could not send");
            }
          }
        }
      },
      &state);
  c.fabric.set_handler(second_handler, &StormCheck::handle, &state.check);
  c.start(8);
  const std::uint64_t messages = c.count(4, 100);
  for (std::uint64_t i = 0; i < messages; ++i) {
    for (Rank target = 0; target < c.size(); ++target) {
      CHECK_EQUAL(c.fabric.send(target, first_handler, nullptr, 0), Status::ok);
    }
  }
  const std::uint64_t expected = messages * c.size() * state.factor * c.size();
  c.wait_for("all that handlers sent", [&] { return state.check.received() >= expected; });
  c.barrier();
  CHECK_EQUAL(state.check.received(), expected);
}

struct Exclusive {
  RankContext& context;
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> handled{0};
  std::uint64_t word = 0;
  Completion completion{};
};

void handlers_run_one_at_a_time(RankContext& c) {
  Exclusive state{.context = c};
  const auto handler = [](void* context, Rank source, const std::byte*, std::size_t) noexcept {
    auto& own = *static_cast<Exclusive*>(context);
    if (own.inside.fetch_add(1) != 0) own.context.fail("a handler began while another one ran");
    // Calls of the fabric: in the simulator, others may run here.
    own.context.fabric.fetch_add({source, main_region, 0}, 1, &own.word, own.completion);
    if (own.context.fabric.wake(source) != Status::ok) own.context.fail("a handler could not wake");
    if (own.inside.fetch_sub(1) != 1) own.context.fail("a handler began while another one ran");
    ++own.handled;
  };
  c.fabric.set_handler(first_handler, handler, &state);
  c.fabric.set_handler(second_handler, handler, &state);
  c.start(8);
  c.barrier();  // handlers use the region: every rank must know it
  const std::uint64_t rounds = c.count(6, 1000);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (Rank target = 0; target < c.size(); ++target) {
      CHECK_EQUAL(c.fabric.send(target, i % 2 == 0 ? first_handler : second_handler, &i, 8), Status::ok);
    }
  }
  c.wait_for("all handlers", [&] { return state.handled.load() >= rounds * c.size(); });
  c.finish_ok(state.completion);
  c.barrier();
  CHECK_EQUAL(c.fetch_add({c.rank(), main_region, 0}, 0), rounds * c.size());
  c.barrier();
}

struct Hearer {
  RankContext& context;
  std::vector<std::array<std::uint64_t, 3>> next;  ///< by source and thread
  std::atomic<std::uint64_t> heard{0};
};

/// Messages of each thread of a rank stay in their order while other threads send too.
void threads_send_in_order(RankContext& c) {
  constexpr unsigned threads = 3;
  struct Body {
    std::uint64_t thread, sequence;
  };
  Hearer state{.context = c, .next = std::vector<std::array<std::uint64_t, 3>>(c.size())};
  c.fabric.set_handler(
      first_handler,
      [](void* context, Rank source, const std::byte* payload, std::size_t bytes) noexcept {
        auto& own = *static_cast<Hearer*>(context);
        Body body{};
        if (bytes < sizeof body) return own.context.fail("a message was cut");
        std::memcpy(&body, payload, sizeof body);
        if (body.thread >= 3) return own.context.fail("a message with other bytes than were sent");
        if (own.next[source][body.thread]++ != body.sequence)
          own.context.fail("messages of one thread changed order");
        ++own.heard;
      },
      &state);
  c.start(8);
  const std::uint64_t messages = c.count(12, 2000);
  c.run_threads(threads, [&](unsigned thread) {
    sim::Random random(thread);
    std::vector<std::byte> message(2048);
    for (std::uint64_t i = 0; i < messages; ++i) {
      const Body body{thread, i};
      std::memcpy(message.data(), &body, sizeof body);
      CHECK_EQUAL(c.fabric.send(c.next(), first_handler, message.data(), random.between(sizeof body, 2048)),
                  Status::ok);
    }
  });
  c.wait_for("the messages of all threads", [&] { return state.heard.load() >= messages * threads; });
  c.barrier();
  CHECK_EQUAL(state.heard.load(), messages * threads);
}

/// Messages that come before their handler is set wait for it, in their order, and hold up no others.
void messages_wait_for_their_handler(RankContext& c) {
  c.start(8);
  std::atomic<std::uint64_t> others{0};
  c.fabric.set_handler(
      second_handler,
      [](void* to, Rank, const std::byte*, std::size_t) noexcept {
        ++*static_cast<std::atomic<std::uint64_t>*>(to);
      },
      &others);
  const std::uint64_t messages = c.count(5, 20);
  for (std::uint32_t i = 0; i < messages; ++i) {
    for (Rank target = 0; target < c.size(); ++target) {
      const std::vector<std::byte> message = storm_message(c.rank(), i, 100 + i);
      CHECK_EQUAL(c.fabric.send(target, first_handler, message.data(), message.size()), Status::ok);
      CHECK_EQUAL(c.fabric.send(target, second_handler, nullptr, 0), Status::ok);
    }
  }
  c.wait_for("messages that have a handler", [&] { return others.load() == messages * c.size(); });
  StormCheck check(c);
  c.fabric.set_handler(first_handler, &StormCheck::handle, &check);
  for (Rank target = 0; target < c.size(); ++target) {
    const std::vector<std::byte> last = storm_message(c.rank(), static_cast<std::uint32_t>(messages), 50);
    CHECK_EQUAL(c.fabric.send(target, first_handler, last.data(), last.size()), Status::ok);
  }
  c.wait_for("messages that waited", [&] { return check.received() == (messages + 1) * c.size(); });
  c.barrier();
}

}  // namespace

std::vector<Case> message_cases() {
  return {{.name = "messages_wait_for_their_handler", .body = messages_wait_for_their_handler},
          {.name = "storm_of_all_sizes", .body = storm_of_all_sizes},
          {.name = "storm_on_one_rank", .body = storm_on_one_rank},
          {.name = "handlers_answer", .body = handlers_answer},
          {.name = "handlers_send_into_full_rings", .body = handlers_send_into_full_rings},
          {.name = "handlers_run_one_at_a_time", .body = handlers_run_one_at_a_time},
          {.name = "threads_send_in_order", .body = threads_send_in_order}};
}

}  // namespace craton::fabric::conformance
