// UCX in its process and among others: what it leaves alone, when it sleeps, who may talk, what the death of
// a rank does.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "ranks.hpp"

namespace craton::fabric::ucx::testing {

namespace {

constexpr HandlerId test_handler = 8;

class Process : public OverUcx {};
class Death : public OverUcx {};
class DeathInSharedMemory : public OverUcx {};
class Trust : public OverUcx {};

/// What UCX could change in its host: signal handlers and the first instructions of functions of libc.
struct Host {
  std::array<struct sigaction, 65> actions{};
  stack_t signal_stack{};
  std::array<std::array<unsigned char, 16>, 8> code{};

  static Host now() {
    Host host;
    for (int signal = 1; signal < 65; ++signal) {
      ::sigaction(signal, nullptr, &host.actions[static_cast<std::size_t>(signal)]);
    }
    ::sigaltstack(nullptr, &host.signal_stack);
    constexpr const char* hooked[] = {"mmap", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt"};
    std::size_t at = 0;
    for (const char* name : hooked) {
      std::memcpy(host.code[at++].data(), ::dlsym(RTLD_DEFAULT, name), host.code[0].size());
    }
    return host;
  }
  bool same_handlers(const Host& other) const {
    for (std::size_t signal = 1; signal < 65; ++signal) {
      if (actions[signal].sa_sigaction != other.actions[signal].sa_sigaction) return false;
    }
    return signal_stack.ss_sp == other.signal_stack.ss_sp;
  }
  bool same_code(const Host& other) const { return code == other.code; }
};

TEST_P(Process, KeepsSignalHandlersAndMemoryFunctionsOfItsHost) {
  const int ended = run_alone([this] {
    const Host before = Host::now();
    int hub[2];
    if (::pipe2(hub, O_CLOEXEC) != 0) return 2;
    JobSecret secret{};
    TestRank self(0, 1, UniqueFd(hub[0]), options().ucx, secret);
    self.wait_until([] { return false; }, 1'000'000);
    const Host after = Host::now();
    return (after.same_handlers(before) ? 0 : 4) + (after.same_code(before) ? 0 : 8);
  });
  EXPECT_EQ(ended, 0) << "4: handlers have changed, 8: code has changed";
}

TEST_P(Process, LeavesTheEnvironmentAsItWas) {
  EXPECT_EQ(run_alone([] {
              ::setenv("UCX_HANDLE_ERRORS", "bt", 1);
              ::unsetenv("UCX_MEM_EVENTS");
              if (!ucx_availability().available()) return 2;
              const char* kept = std::getenv("UCX_HANDLE_ERRORS");
              return kept != nullptr && std::strcmp(kept, "bt") == 0 &&
                             std::getenv("UCX_MEM_EVENTS") == nullptr
                         ? 0
                         : 3;
            }),
            0);
}

// Shows that the test above can fail: UCX as it comes does change its host.
TEST_P(Process, UcxByItselfTakesSignalHandlers) {
  EXPECT_EQ(run_alone([] {
              const Host before = Host::now();
              if (::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL) == nullptr) return 2;
              return Host::now().same_handlers(before) ? 3 : 0;
            }),
            0);
}

TEST_P(Process, SleepsWhenThereIsNothingToDo) {
  run_ranks(2, options(), [](TestRank& self) {
    self.register_region(4096);
    const Rank other = 1 - self.rank();
    std::uint64_t value = 1;
    for (int i = 0; i < 100; ++i) {
      Completion put;
      self.put(other, 0, &value, sizeof value, put);
      expect(self.wait(put) == Status::ok, "put failed");
    }
    self.barrier();
    const auto cpu_ns = [] {
      timespec time{};
      ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
      return TimeNs{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
    };
    const TimeNs before_ns = cpu_ns();
    expect(!self.wait_until([] { return false; }, 1'000'000'000), "nothing came true");
    const TimeNs used_ns = cpu_ns() - before_ns;
    expect(used_ns < 50'000'000, "an idle second took " + std::to_string(used_ns / 1000) + " us of the CPU");
    self.barrier();
    self.leave();
  });
}

TEST_P(Process, EndsWithoutLossWhenAllSayFarewell) {
  run_ranks(4, options(), [](TestRank& self) {
    self.register_region(4096);
    self.leave();
    expect(self.lost.empty(), "a peer that said farewell was reported as lost");
  });
}

// Forbids: talking to a rank that does not know the job's secret, or delivering what it sends.
TEST_P(Trust, StrangersAreNotHeard) {
  RunOptions strangers = options();
  strangers.connect = false;
  strangers.with_another_secret = {2};
  run_ranks(3, strangers, [](TestRank& self) {
    const std::vector<std::string> addresses = self.exchange(self.transport().address());
    for (Rank peer = 0; peer < self.size(); ++peer) {
      if (peer != self.rank()) self.transport().connect(peer, addresses[peer]);
    }
    if (self.rank() == 2) {
      const std::uint64_t text = 42;
      for (const Rank peer : {0U, 1U}) self.transport().send(peer, test_handler, &text, sizeof text, false);
      self.wait_until([] { return false; }, 1'000'000'000);
      expect(!self.transport().connected(0), "the stranger takes rank 0 for one of its job");
      expect(!self.transport().connected(1), "the stranger takes rank 1 for one of its job");
    } else {
      const Rank friend_rank = 1 - self.rank();
      expect(self.wait_until([&] { return self.transport().connected(friend_rank); }),
             "friends do not connect");
      self.wait_until([] { return false; }, 1'000'000'000);
      expect(!self.transport().connected(2), "the stranger was let in");
      expect_equal(self.messages, 0U, "messages of the stranger");
    }
    // Everybody stays until all have looked: a rank's end is no part of this test.
    self.exchange("done");
  });
}

/// Waits for the death of rank 1, as the fabric would: UCX says so over a network; inside a node the launcher
/// does.
void wait_for_death(TestRank& self, bool reports_death, const std::function<bool()>& ended) {
  if (!reports_death) {
    self.wait_until([] { return false; }, 200'000'000);
    self.transport().disconnect(1);
  }
  expect(self.wait_until(ended, 60'000'000'000), "operations to the dead rank do not end");
  if (reports_death) {
    expect(self.wait_until([&] { return self.lost.count(1) == 1; }, 60'000'000'000),
           "the death was not reported");
  }
}

TEST_P(Death, OperationsInFlightEndWithPeerLost) {
  RunOptions dying = options();
  dying.expect_killed = {1};
  const bool reports = reports_death();
  run_ranks(2, dying, [reports](TestRank& self) {
    constexpr std::size_t large = 32U << 20;
    self.register_region(large);
    self.exchange("ready");  // not a barrier over UCX: what the dying has not sent yet would be lost
    if (self.rank() == 1) ::kill(::getpid(), SIGKILL);  // without serving what is on its way
    std::vector<std::byte> fetched(large);
    std::vector<std::byte> stored(large);
    std::uint64_t previous = 77;
    Completion get;
    Completion put;
    Completion atomic;
    // Until it is noticed, each round adds some.
    for (int round = 0; round < 20; ++round) {
      self.get(fetched.data(), 1, 0, 8, get);
      self.get(fetched.data(), 1, 0, large, get);
      self.put(1, 0, stored.data(), large, put);
      self.put(1, 0, stored.data(), 8, put);
      self.atomic(AtomicKind::fetch_add, 1, 0, 1, 0, &previous, atomic);
      self.transport().send(1, test_handler, stored.data(), 1000, false);
    }
    wait_for_death(self, reports, [&] { return get.done() && put.done() && atomic.done(); });
    expect(get.status() == Status::peer_lost, "a get from the dead");
    expect(put.status() == Status::peer_lost, "a put to the dead");
    expect(atomic.status() == Status::peer_lost, "an atomic on the dead");
    expect(self.transport().flush_counter(1)->idle(), "the flush counter is not idle");
    // And later ones end at once.
    Completion late;
    self.get(fetched.data(), 1, 0, 8, late);
    expect(late.done() && late.status() == Status::peer_lost, "a get from a rank that is known to be dead");
    expect(self.transport().send(1, test_handler, nullptr, 0, true), "a message to the dead is dropped");
    self.transport().disconnect(1);
  });
}

TEST_P(Death, OfOneRankLeavesTheOthersAlone) {
  if (reports_death() && GetParam().ucx_emulation) {
    GTEST_SKIP() << "UCX 1.13 aborts the target of an emulated put over tcp when the rank that puts dies";
  }
  RunOptions dying = options();
  dying.expect_killed = {1};
  const bool reports = reports_death();
  run_ranks(4, dying, [reports](TestRank& self) {
    std::set<Rank> ready;
    self.handlers[test_handler] = [&](Rank source, const std::byte*, std::size_t) { ready.insert(source); };
    self.register_region(1U << 20);
    self.exchange("ready");
    if (self.rank() == 1) {
      // In the middle of its own operations, which go below the words that the others use.
      std::vector<std::byte> source(512 * 1024);
      Completion put;
      for (int i = 0; i < 100; ++i) self.put(0, 0, source.data(), source.size(), put);
      ::kill(::getpid(), SIGKILL);
    }
    wait_for_death(self, reports, [] { return true; });
    // The others still work together, in a ring without rank 1.
    const Rank next = self.rank() == 0 ? 2 : self.rank() == 2 ? 3 : 0;
    std::uint64_t value = 0;
    for (int round = 0; round < 200; ++round) {
      Completion done;
      self.atomic(AtomicKind::fetch_add, next, 512 * 1024 + 8, 1, 0, &value, done);
      expect(self.wait(done) == Status::ok, "an atomic between survivors");
      expect_equal(value, static_cast<std::uint64_t>(round), "the word of a survivor");
    }
    for (const Rank peer : {0U, 2U, 3U}) {
      if (peer != self.rank()) self.send(peer, test_handler, nullptr, 0);
    }
    expect(self.wait_until([&] { return ready.size() == 2; }), "survivors do not hear each other");
    for (const Rank peer : {0U, 2U, 3U}) {
      if (peer == self.rank()) continue;
      expect(self.wait_until([&] { return self.transport().say_farewell(peer); }), "cannot say farewell");
    }
    expect(self.wait_until([&] { return self.left.size() == 2; }), "a farewell did not come");
    // Inside a node UCX notices the death only if it has something to say to the dead.
    expect(self.lost.size() <= 1 && self.lost.count(1) == self.lost.size(),
           "a survivor was reported as lost");
  });
}

/// Memory that kills who reads it.
std::byte* deadly_memory(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED, "no memory");
  const auto die = [](int) { ::kill(::getpid(), SIGKILL); };
  for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, die);
  return static_cast<std::byte*>(memory);
}

// Forbids: a rank that hears nobody any more because one died while it put something into its queue. UCX
// copies what is sent after it has taken a slot of the queue and before it hands the slot over.
TEST_P(DeathInSharedMemory, InTheMiddleOfASendLeavesTheOthersAlone) {
  RunOptions dying = options();
  dying.expect_killed = {1};
  run_ranks(3, dying, [](TestRank& self) {
    constexpr std::size_t bytes = 4000;
    constexpr std::uint64_t rounds = 200;
    std::uint64_t heard = 0;
    self.handlers[test_handler] = [&](Rank, const std::byte*, std::size_t) { ++heard; };
    self.register_region(1U << 20);
    self.exchange("ready");
    if (self.rank() == 1) {
      const std::byte* const source = deadly_memory(bytes);
      Completion put;
      self.put(0, 4096, source, bytes, put);
      self.wait_until([] { return false; }, 1'000'000'000);
      expect(false, "survived");
    }
    wait_for_death(self, false, [] { return true; });
    // Both ways, so that rank 0 hears requests and answers behind what the dead has left.
    const Rank other = 2 - self.rank();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      std::uint64_t value = 0;
      Completion done;
      self.atomic(AtomicKind::fetch_add, other, 8, 1, 0, &value, done);
      expect(self.wait(done) == Status::ok, "an atomic between survivors");
      expect_equal(value, round, "the word of a survivor");
      self.send(other, test_handler, nullptr, 0);
    }
    expect(self.wait_until([&] { return heard == rounds; }), "survivors do not hear each other");
    const std::uint64_t sleeps = self.sleeps;
    self.wait_until([] { return false; }, 100'000'000);
    expect(self.sleeps > sleeps, "what the dead has left keeps a survivor from sleeping");
    expect(self.wait_until([&] { return self.transport().say_farewell(other); }), "cannot say farewell");
    expect(self.wait_until([&] { return self.left.count(other) == 1; }), "a farewell did not come");
  });
}

// Forbids: an operation to a dead rank that ends only when UCX gives it back, which over shared memory is
// never; and UCX reading or writing a caller's memory after the operation has ended.
TEST_P(DeathInSharedMemory, EndsOperationsAtOnceAndLetsGoOfTheirMemory) {
  RunOptions dying = options();
  dying.expect_killed = {1};
  run_ranks(2, dying, [](TestRank& self) {
    constexpr std::size_t bytes = 8U << 20;
    self.register_region(bytes);
    self.exchange("ready");
    if (self.rank() == 1) ::kill(::getpid(), SIGKILL);  // without serving what is on its way
    RegionMemory memory("caller's", 2 * bytes);
    Completion operations;
    // More than its queue holds.
    for (int round = 0; round < 4; ++round) {
      self.get(memory.data(), 1, 0, bytes, operations);
      self.put(1, 0, memory.data() + bytes, bytes, operations);
    }
    self.wait_until([] { return false; }, 50'000'000);
    expect(!operations.done(), "all was taken, so nothing was tested");
    self.transport().disconnect(1);
    self.transport().poll();
    expect(operations.done() && operations.status() == Status::peer_lost, "an operation has not ended");
    expect(::mprotect(memory.data(), 2 * bytes, PROT_NONE) == 0, "mprotect");
    self.wait_until([] { return false; }, 100'000'000);
  });
}

CRATON_INSTANTIATE_OVER_UCX(Process);
CRATON_INSTANTIATE_OVER_UCX(Trust);
CRATON_INSTANTIATE_OVER_UCX(Death);
CRATON_INSTANTIATE_OVER_SHARED_MEMORY(DeathInSharedMemory);

}  // namespace

}  // namespace craton::fabric::ucx::testing
