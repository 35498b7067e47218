/// \file
/// The queues and executors of offload/ before endpoints that the test holds and lets go, so that what is
/// queued is known: order, batches, a full queue, flushes, calls from inside poll(), idleness, the end.
#include "fabric/offload/offload_transport.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "fabric/packed_texts.hpp"
#include "fabric/progress.hpp"
#include "fiber/fiber.hpp"

namespace craton::fabric::offload {

namespace {

constexpr TimeNs limit_ns = 120'000'000'000;
constexpr TimeNs linger_ns = 20'000;
constexpr Rank peers = 2;

/// Issues nothing while it is held; otherwise each operation is complete when it has been noted.
class FakeEndpoint final : public Transport {
 public:
  FakeEndpoint(TransportEvents& events, std::size_t index) : told(events), index_(index) {}

  TransportEvents& told;
  std::function<void()> in_poll;  ///< called by poll(), once, when `call` is set
  std::atomic<bool> call{false};
  std::atomic<std::size_t> noted{0};
  std::vector<std::size_t> batches;      ///< how many each call of issue() brought
  std::vector<std::uint64_t> positions;  ///< offsets of operations, in order
  Status outcome = Status::ok;
  FlushCounter counter;

  void hold() {
    const std::lock_guard lock(gate_);
    held_ = true;
  }
  void release() {
    {
      const std::lock_guard lock(gate_);
      held_ = false;
    }
    opened_.notify_all();
  }

  bool issue(std::span<const Command> commands) override {
    {
      std::unique_lock lock(gate_);
      opened_.wait(lock, [this] { return !held_; });
      batches.push_back(commands.size());
      for (const Command& command : commands) positions.push_back(command.offset);
    }
    for (const Command& command : commands) {
      command.completion->finish(outcome);
      ++noted;
    }
    return true;
  }
  void get(void*, RemoteAddress source, std::size_t, Completion& completion) override {
    note(source, completion);
  }
  void put(RemoteAddress destination, const void*, std::size_t, Completion& completion) override {
    note(destination, completion);
  }
  void atomic(AtomicOperation, RemoteAddress word, std::uint64_t*, Completion& completion) override {
    note(word, completion);
  }
  bool poll() override {
    if (!call.exchange(false)) return false;
    in_poll();
    return true;
  }
  bool ready_to_sleep() override { return !call.load(); }

  const char* name() const noexcept override { return "fake"; }
  Capabilities capabilities() const noexcept override { return {}; }
  std::string address() const override { return std::to_string(index_); }
  void connect(Rank, const std::string& address) override { EXPECT_EQ(address, std::to_string(index_)); }
  bool connected(Rank) const noexcept override { return true; }
  void announce_region(Rank, RegionId, const RegionMemory&) override {}
  void withdraw_region(RegionId) override {}
  bool send(Rank, HandlerId, const void*, std::size_t, bool) override {
    EXPECT_EQ(index_, 0U) << "messages have an order";
    return true;
  }
  FlushCounter* flush_counter(Rank) noexcept override { return &counter; }
  bool say_farewell(Rank) override { return true; }
  void disconnect(Rank) noexcept override {}

 private:
  void note(RemoteAddress at, Completion& completion) {
    {
      const std::lock_guard lock(gate_);
      positions.push_back(at.offset);
    }
    completion.finish(outcome);
    ++noted;
  }

  const std::size_t index_;
  std::mutex gate_;
  std::condition_variable opened_;
  bool held_ = false;
};

class Told final : public TransportEvents {
 public:
  unsigned announced = 0;
  unsigned left = 0;
  unsigned lost = 0;
  void message_arrived(Rank, HandlerId, const std::byte*, std::size_t) override {}
  void region_announced(Rank, RegionId, std::uint64_t, std::byte*) override { ++announced; }
  void peer_lost(Rank, const char*) override { ++lost; }
  void peer_left(Rank) override { ++left; }
  LocalPart local_part(RegionId) const noexcept override { return {}; }
};

/// A transport over fake endpoints, and a Progress with its agent.
class Offloading {
 public:
  Offloading(OffloadMode mode, unsigned endpoints) {
    const OffloadOptions options{.mode = mode, .endpoints = endpoints, .workers = 1};
    transport.emplace(options, peers, told, [this](TransportEvents& events) {
      auto made = std::make_unique<FakeEndpoint>(events, fakes.size());
      fakes.push_back(made.get());
      return made;
    });
    progress.emplace(clock, ProgressOptions{}, doorbell);
    transport->start(*progress, linger_ns);
    progress->start();
  }
  ~Offloading() {
    progress->stop();
    transport.reset();
  }

  void put(std::uint64_t position) {
    completion.start();
    transport->put({.rank = 1, .region = 1, .offset = position}, nullptr, 8, completion);
  }
  void wait_for(const char* what, FunctionRef<bool()> condition) {
    EXPECT_EQ(progress->wait_until(condition, clock.now_ns() + limit_ns), Status::ok) << what;
  }
  void hold_all() {
    for (FakeEndpoint* fake : fakes) fake->hold();
  }
  void release_all() {
    for (FakeEndpoint* fake : fakes) fake->release();
  }
  /// Everything that was noted, by all endpoints.
  std::multiset<std::uint64_t> noted() const {
    std::multiset<std::uint64_t> all;
    for (const FakeEndpoint* fake : fakes) all.insert(fake->positions.begin(), fake->positions.end());
    return all;
  }

  const SteadyClock clock;
  Doorbell doorbell;
  Told told;
  Completion completion;
  std::vector<FakeEndpoint*> fakes;
  std::optional<Progress> progress;
  std::optional<OffloadTransport> transport;
};

std::multiset<std::uint64_t> numbers_below(std::uint64_t end) {
  std::multiset<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < end; ++number) numbers.insert(number);
  return numbers;
}

class Offload : public testing::TestWithParam<OffloadMode> {};

std::string mode_name(const testing::TestParamInfo<OffloadMode>& info) {
  return info.param == OffloadMode::fixed ? "static" : "dynamic";
}
INSTANTIATE_TEST_SUITE_P(Modes, Offload, testing::Values(OffloadMode::fixed, OffloadMode::dynamic),
                         mode_name);

TEST_P(Offload, IssuesEachOperationOnceOverAllEndpoints) {
  Offloading offloading(GetParam(), 3);
  for (std::uint64_t position = 0; position < 9000; ++position) offloading.put(position);
  offloading.wait_for("all to complete", [&] { return offloading.completion.done(); });
  EXPECT_EQ(offloading.noted(), numbers_below(9000));
  for (const FakeEndpoint* fake : offloading.fakes) EXPECT_EQ(fake->positions.size(), 3000U);
}

TEST_P(Offload, GathersWhatIsQueued) {
  Offloading offloading(GetParam(), 1);
  FakeEndpoint& fake = *offloading.fakes[0];
  fake.hold();
  for (std::uint64_t position = 0; position < 1000; ++position) offloading.put(position);
  fake.release();
  offloading.wait_for("all to complete", [&] { return offloading.completion.done(); });
  // The first call may have taken any number up to a batch; what was queued meanwhile goes in full batches.
  EXPECT_LE(fake.batches.size(), 2 + 1000 / max_batch);
  for (const std::size_t batch : fake.batches) EXPECT_LE(batch, max_batch);
  for (std::size_t i = 1; i < fake.positions.size(); ++i) EXPECT_LT(fake.positions[i - 1], fake.positions[i]);
}

TEST_P(Offload, FullQueueHoldsThreadsAndFibersUntilThereIsRoom) {
  constexpr std::uint64_t each = queue_commands / 4;
  constexpr unsigned requesters = 4;  // of either kind
  constexpr std::size_t bound = queue_commands + max_batch;
  Offloading offloading(GetParam(), 1);
  offloading.fakes[0]->hold();
  std::atomic<std::uint64_t> returned{0};
  const auto request = [&](std::uint64_t first) {
    for (std::uint64_t i = 0; i < each; ++i) {
      offloading.put(first + i);
      ++returned;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < requesters; ++i) threads.emplace_back(request, i * each);
  fiber::Runtime runtime({.workers = 2});
  std::vector<fiber::Join> fibers;
  for (unsigned i = requesters; i < 2 * requesters; ++i) {
    fibers.push_back(runtime.spawn([&request, i] { request(i * each); }));
  }
  // As many go in as there is room for; nobody else comes back from its call.
  while (returned.load() < queue_commands) std::this_thread::yield();
  EXPECT_LE(returned.load(), bound);
  EXPECT_EQ(offloading.fakes[0]->noted.load(), 0U);
  offloading.fakes[0]->release();
  for (std::thread& one : threads) one.join();
  for (fiber::Join& one : fibers) one.join();
  offloading.wait_for("all to complete", [&] { return offloading.completion.done(); });
  EXPECT_EQ(offloading.noted(), numbers_below(2 * requesters * each));
}

TEST_P(Offload, KnowsWhetherWhatWasQueuedHasBeenIssued) {
  Offloading offloading(GetParam(), 1);
  FakeEndpoint& fake = *offloading.fakes[0];
  EXPECT_TRUE(offloading.transport->issued(0, offloading.transport->queued(0)));
  fake.hold();
  for (std::uint64_t position = 0; position < 10; ++position) offloading.put(position);
  const std::uint64_t before = offloading.transport->queued(0);
  EXPECT_EQ(before, 10U);
  EXPECT_FALSE(offloading.transport->issued(0, before));
  std::atomic<bool> over{false};
  std::thread flusher([&] {
    offloading.wait_for("what was queued", [&] { return offloading.transport->issued(0, before); });
    EXPECT_EQ(fake.noted.load(), 10U);
    over = true;
  });
  std::this_thread::sleep_for(
      std::chrono::milliseconds(20));  // it should be asleep by now; it may not matter
  EXPECT_FALSE(over.load());
  fake.release();
  flusher.join();
}

TEST_P(Offload, GoesPastTheQueueInsidePoll) {
  Offloading offloading(GetParam(), 1);
  FakeEndpoint& fake = *offloading.fakes[0];
  fake.hold();
  // Until it is full: whoever waited in poll() now would wait for ever, since the executor is held.
  for (std::uint64_t i = 0; i < queue_commands; ++i) offloading.put(i);
  fake.in_poll = [&] { offloading.put(1'000'000); };
  fake.call = true;
  offloading.wait_for("the one from inside poll", [&] { return fake.noted.load() == 1; });
  fake.release();
  offloading.wait_for("all to complete", [&] { return offloading.completion.done(); });
}

TEST_P(Offload, CallbacksOnTheExecutorMayIssue) {
  Offloading offloading(GetParam(), 1);
  struct Reissue {
    Offloading& offloading;
    std::atomic<unsigned> called{0};
  } reissue{offloading};
  // More than the queue holds, from the callback of one that ends at once.
  Completion completion(
      [](void* context, Status status) noexcept {
        auto& self = *static_cast<Reissue*>(context);
        if (status != Status::peer_lost || self.called.fetch_add(1) != 0) return;
        for (std::uint64_t i = 0; i < 2 * queue_commands; ++i) self.offloading.put(i);
      },
      &reissue);
  offloading.fakes[0]->outcome = Status::peer_lost;
  completion.start();
  offloading.transport->put({.rank = 1, .region = 1, .offset = 7}, nullptr, 8, completion);
  offloading.wait_for("the callback", [&] { return completion.done() && offloading.completion.done(); });
  EXPECT_EQ(offloading.fakes[0]->noted.load(), 1 + 2 * queue_commands);
  EXPECT_EQ(offloading.completion.status(), Status::peer_lost);
}

TEST_P(Offload, WakesWhoWaitsForWhatEndsInsideTheCall) {
  Offloading offloading(GetParam(), 1);
  FakeEndpoint& fake = *offloading.fakes[0];
  for (std::uint64_t i = 0; i < 50; ++i) {
    fake.hold();
    offloading.put(i);
    std::thread waiter([&] { offloading.wait_for("it", [&] { return offloading.completion.done(); }); });
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // so that it sleeps, most times
    fake.release();
    waiter.join();
  }
}

TEST_P(Offload, IssuesAllBeforeItEnds) {
  Completion completion;
  std::atomic<unsigned> noted{0};
  {
    Offloading offloading(GetParam(), 2);
    offloading.hold_all();
    for (unsigned i = 0; i < 500; ++i) {
      completion.start();
      offloading.transport->put({.rank = 1, .region = 1, .offset = i}, nullptr, 8, completion);
    }
    offloading.release_all();
  }
  EXPECT_TRUE(completion.done());
}

TEST(OffloadEvents, AreToldOnceOfWhatAllEndpointsSay) {
  Offloading offloading(OffloadMode::direct, 3);
  offloading.transport->connect(1, pack({"0", "1", "2"}));
  EXPECT_THROW(offloading.transport->connect(1, pack({"0", "1"})), Error) << "the peer has two endpoints";
  for (unsigned round = 1; round <= 2; ++round) {
    for (FakeEndpoint* fake : offloading.fakes) {
      EXPECT_EQ(offloading.told.announced, round - 1);
      fake->told.region_announced(1, 9, 64, nullptr);
    }
    EXPECT_EQ(offloading.told.announced, round);
  }
  for (FakeEndpoint* fake : offloading.fakes) {
    EXPECT_EQ(offloading.told.left, 0U);
    fake->told.peer_left(1);
  }
  EXPECT_EQ(offloading.told.left, 1U);
  offloading.fakes[1]->told.peer_lost(0, "it died");
  EXPECT_EQ(offloading.told.lost, 1U) << "one broken endpoint is a death";
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(offloading.transport->send(1, 9, nullptr, 0, true));
}

TEST(OffloadEvents, RefuseWhatIsNoNumberOfEndpoints) {
  Told told;
  const auto make = [&](TransportEvents& events) { return std::make_unique<FakeEndpoint>(events, 0); };
  for (const unsigned endpoints : {0U, max_endpoints + 1}) {
    EXPECT_THROW(OffloadTransport({.mode = OffloadMode::dynamic, .endpoints = endpoints}, peers, told, make),
                 Error);
  }
}

TEST(OffloadIdle, TakesNoTimeOfTheProcessor) {
  Offloading offloading(OffloadMode::dynamic, 3);
  for (std::uint64_t position = 0; position < 100; ++position) offloading.put(position);
  offloading.wait_for("all to complete", [&] { return offloading.completion.done(); });
  const auto cpu_ns = [] {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return TimeNs{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
  };
  // The executors have fallen asleep after a moment; one that spun would take all of each period.
  constexpr TimeNs period_ns = 100'000'000;
  TimeNs used_ns = period_ns;
  for (int tries = 0; tries < 20 && used_ns > period_ns / 20; ++tries) {
    const TimeNs before_ns = cpu_ns();
    std::this_thread::sleep_for(std::chrono::nanoseconds(period_ns));
    used_ns = cpu_ns() - before_ns;
  }
  EXPECT_LE(used_ns, period_ns / 20);
}

}  // namespace

}  // namespace craton::fabric::offload
