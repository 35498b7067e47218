/// \file
/// Memory of which each rank has a part (space/owned_segment.hpp): what one writes, others see after a
/// barrier or a mutex; nobody's writes to other bytes are lost; atomic instructions are so among all ranks.
#include "space/owned_segment.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "fabric/fabric.hpp"
#include "space/owned_atomics.hpp"
#include "space_ranks.hpp"
#include "vm/map_budget.hpp"
#include "vm/mechanism.hpp"
#include "vm/reservation.hpp"

namespace craton::space::test {

namespace {

using fabric::Rank;

constexpr std::size_t part_bytes = 64 * 4096;
constexpr std::uint64_t rounds = 60;

std::uint64_t* words_of(OwnedSegment& segment, Rank rank) {
  return reinterpret_cast<std::uint64_t*>(segment.part(rank));
}

// Owners write words of their parts, all read all, over and over; then nobody looks at some for a while.
void owners_write(RankSpace& rank) {
  OwnedSegment& owned = rank.space.create_owned_segment("owned", part_bytes);
  std::uint64_t* const mine = words_of(owned, rank.rank());
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    for (std::size_t page = 0; page < 4; ++page) mine[page * 512 + round % 8] = round * 100 + rank.rank();
    rank.space.barrier().wait();
    const bool looks = round % 20 < 10 || rank.rank() % 2 == 0;
    for (Rank other = 0; looks && other < rank.size(); ++other) {
      for (std::size_t page = 0; page < 4; ++page) {
        const std::uint64_t found = words_of(owned, other)[page * 512 + round % 8];
        rank.check(found == round * 100 + other, said("a word of its owner", found, round * 100 + other));
      }
    }
    rank.space.barrier().wait();
  }
}

// Every rank writes its own bytes of the same words of all parts, the owner too.
void all_write_neighbouring_bytes(RankSpace& rank) {
  OwnedSegment& owned = rank.space.create_owned_segment("owned", part_bytes);
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    for (Rank other = 0; other < rank.size(); ++other) {
      auto* const bytes = reinterpret_cast<std::uint8_t*>(owned.part(other));
      for (std::size_t i = 0; i < 64; ++i)
        bytes[i * rank.size() + rank.rank()] = static_cast<std::uint8_t>(round + rank.rank() * 16 + i);
    }
    rank.space.barrier().wait();
    for (Rank other = 0; other < rank.size(); ++other) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(owned.part(other));
      for (std::size_t i = 0; i < 64; ++i) {
        for (Rank writer = 0; writer < rank.size(); ++writer) {
          const auto expected = static_cast<std::uint8_t>(round + writer * 16 + i);
          const std::uint8_t found = bytes[i * rank.size() + writer];
          rank.check(found == expected, said("a byte among those of others", found, expected));
        }
      }
    }
    rank.space.barrier().wait();
  }
}

// A counter in the part of the last rank, guarded by a mutex.
void mutex_orders(RankSpace& rank) {
  OwnedSegment& owned = rank.space.create_owned_segment("owned", part_bytes);
  std::uint64_t& counter = words_of(owned, rank.size() - 1)[7];
  for (std::uint64_t round = 0; round < rounds; ++round) {
    rank.space.mutexes().lock(3);
    counter = counter + 1;
    rank.space.mutexes().unlock(3);
  }
  rank.space.barrier().wait();
  const std::uint64_t found = counter;
  rank.check(found == rounds * rank.size(), said("a counter in a mutex", found, rounds * rank.size()));
  rank.space.barrier().wait();
}

// Two threads of each rank, each with a mutex of its own, raise a counter in a part and one in a block of the
// space, which lie beside those of the other thread: what one acquires the other one faults on meanwhile.
void threads_acquire_parts_and_blocks(RankSpace& rank) {
  constexpr unsigned threads = 2;
  OwnedSegment& owned = rank.space.create_owned_segment("owned", part_bytes);
  Segment& blocks =
      rank.space.create_segment({.name = "blocks", .bytes = 4096, .initial_homes = {}, .dials = {}});
  rank.run_threads(threads, [&](unsigned thread) {
    std::uint64_t& in_part = words_of(owned, rank.size() - 1)[thread];
    std::uint64_t& in_block = reinterpret_cast<std::uint64_t*>(blocks.data())[thread];
    for (std::uint64_t round = 0; round < rounds; ++round) {
      rank.space.mutexes().lock(thread);
      rank.check(in_part == in_block, said("a counter in a part", in_part, in_block));
      in_part = in_part + 1;
      in_block = in_block + 1;
      rank.space.mutexes().unlock(thread);
    }
  });
  rank.space.barrier().wait();
  for (unsigned thread = 0; thread < threads; ++thread) {
    const std::uint64_t found = words_of(owned, rank.size() - 1)[thread];
    rank.check(found == rounds * rank.size(), said("a thread's counter", found, rounds * rank.size()));
  }
  rank.space.barrier().wait();
}

// Atomic additions to neighbouring words of 1, 2, 4 and 8 bytes, beside plain writes of the owner to other
// bytes; what a thread has added it sees at once.
void atomics_are_exact(RankSpace& rank) {
  OwnedSegment& owned = rank.space.create_owned_segment("owned", part_bytes);
  std::byte* const at = owned.part(0);
  std::uint64_t seen = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto add = [&]<typename Word>(Word /*type*/, std::size_t offset) {
      owned.run_atomic(at + offset, sizeof(Word),
                       [](void* target) { std::atomic_ref(*static_cast<Word*>(target)).fetch_add(1); });
    };
    add(std::uint8_t{}, 0);
    add(std::uint16_t{}, 2);
    add(std::uint32_t{}, 4);
    add(std::uint64_t{}, 8);
    const std::uint64_t now = *reinterpret_cast<volatile std::uint64_t*>(at + 8);
    rank.check(now > seen, said("a counter that this rank has raised", now, seen + 1));
    seen = now;
    if (rank.rank() == 0) *reinterpret_cast<volatile std::uint64_t*>(at + 16) = round;
  }
  rank.space.barrier().wait();
  const std::uint64_t all = rounds * rank.size();
  const auto check = [&](std::uint64_t found, std::uint64_t expected) {
    rank.check(found == expected, said("a counter", found, expected));
  };
  check(*reinterpret_cast<std::uint8_t*>(at), all % 256);
  check(*reinterpret_cast<std::uint16_t*>(at + 2), all);
  check(*reinterpret_cast<std::uint32_t*>(at + 4), all);
  check(*reinterpret_cast<std::uint64_t*>(at + 8), all);
  check(*reinterpret_cast<std::uint64_t*>(at + 16), rounds - 1);
  rank.space.barrier().wait();
}

// ---- What atomic instructions order (space/owned_atomics.hpp)

/// Where ranks say how far they are without the space learning of it: they are forked from this process.
std::atomic<int>& stage() {
  static auto* const shared = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *shared;
}

void wait_for_stage(int number) {
  while (stage().load() != number) ::usleep(50);
}

using Order = OwnedAtomics::Order;

/// A word in the part of a rank, and data in a block of the space that all ranks have read.
struct Guarded {
  OwnedSegment& owned;
  volatile std::uint64_t& word;
  Segment& blocks;
  volatile std::uint64_t& data;
  OwnedAtomics atomics;

  explicit Guarded(RankSpace& rank, Order order = Order::flushed) : Guarded(rank, rank.size() - 1, order) {}
  Guarded(RankSpace& rank, Rank owner, Order order)
      : owned(rank.space.create_owned_segment("owned", part_bytes)),
        word(words_of(owned, owner)[9]),
        blocks(
            rank.space.create_segment({.name = "blocks", .bytes = 4096, .initial_homes = {}, .dials = {}})),
        data(*reinterpret_cast<std::uint64_t*>(blocks.data())),
        atomics(rank.fabric, rank.space, owned, meeting_handler + 1, order) {
    rank.check(data == 0, said("data that nobody wrote", data, 0));
    rank.space.barrier().wait();
  }
  void add(
      FunctionRef<void()> before = [] {}, FunctionRef<void()> after = [] {}) {
    atomics.run(const_cast<std::uint64_t*>(&word), 8, [&](void* target) {
      before();
      std::atomic_ref(*static_cast<std::uint64_t*>(target)).fetch_add(1);
      after();
    });
  }
  void end(RankSpace& rank) {
    rank.space.barrier().wait();
    atomics.stop();
  }
};

// Rank 0 comes first, and its instruction is done last: it knows what rank 1 knew. Owners need no lock.
void who_is_overtaken_learns(RankSpace& rank) {
  Guarded guarded(rank, Rank{0}, Order::flushed);
  bool is_first = true;
  if (rank.rank() == 0) {
    guarded.add([&] {
      if (!std::exchange(is_first, false)) return;
      stage().store(1);
      wait_for_stage(2);
    });
    rank.check(guarded.data == 7, said("data of who came in between", guarded.data, 7));
  } else if (rank.rank() == 1) {
    wait_for_stage(1);
    guarded.data = 7;
    guarded.add();
    stage().store(2);
  }
  guarded.end(rank);
}

// Rank 1 comes when rank 0's instruction is done, but rank 0 has not left yet.
void who_comes_next_learns(RankSpace& rank) {
  Guarded guarded(rank, Rank{0}, Order::flushed);
  if (rank.rank() == 0) {
    guarded.data = 7;
    guarded.add([] {},
                [] {
                  if (stage().load() != 0) return;
                  stage().store(1);
                  wait_for_stage(2);
                });
  } else if (rank.rank() == 1) {
    wait_for_stage(1);
    guarded.add();
    rank.check(guarded.data == 7, said("data of who came before", guarded.data, 7));
    stage().store(2);
  }
  guarded.end(rank);
}

// A store by rank 0 that all others look for by plain loads, over and over.
void stores_tell_all(RankSpace& rank) {
  Guarded guarded(rank);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    if (rank.rank() == 0) {
      guarded.data = round;
      guarded.atomics.exchange(const_cast<std::uint64_t*>(&guarded.word), 8, [&](void* target) {
        std::atomic_ref(*static_cast<std::uint64_t*>(target)).exchange(round);
      });
    } else {
      while (guarded.word != round) ::usleep(50);
      rank.check(guarded.data == round, said("data before a flag", guarded.data, round));
    }
    guarded.atomics.run(words_of(guarded.owned, 0) + 100, 8, [](void* target) {
      std::atomic_ref(*static_cast<std::uint64_t*>(target)).fetch_add(1);
    });
    rank.space.barrier().wait();
  }
  guarded.end(rank);
}

// All take a lock by an instruction, and free it by a plain store.
void plain_stores_free_locks(RankSpace& rank) {
  Guarded guarded(rank, Order::causal);
  auto* const lock = const_cast<std::uint64_t*>(&guarded.word);
  const auto take = [&](std::uint64_t round) {
    std::uint64_t found = 1;
    const auto body = [&](void* target) {
      found = std::atomic_ref(*static_cast<std::uint64_t*>(target)).exchange(1);
    };
    while (found != 0) {
      if (round % 2 == 0) {
        guarded.atomics.run(lock, 8, body);
      } else {
        guarded.atomics.exchange(lock, 8, body);
      }
      if (found != 0) ::usleep(50);
    }
  };
  for (std::uint64_t round = 0; round < rounds; ++round) {
    take(round);
    ::usleep(200);  // others try meanwhile, so that this rank was not the last who did
    guarded.data = guarded.data + 1;
    guarded.word = 0;
    ::usleep(100);
    rank.space.publish();  // what waits for the heartbeat otherwise
  }
  rank.space.barrier().wait();
  rank.check(guarded.data == rounds * rank.size(),
             said("data under a lock", guarded.data, rounds * rank.size()));
  guarded.end(rank);
}

// Others find what an address leads to that an instruction has left on the stack of who looks.
void addresses_are_told(RankSpace& rank) {
  Guarded guarded(rank, Order::causal);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const auto address = reinterpret_cast<std::uint64_t>(guarded.blocks.data()) + (round << 48U);
    if (rank.rank() == 0) {
      guarded.data = round;
      guarded.atomics.run(const_cast<std::uint64_t*>(&guarded.word), 8, [&](void* target) {
        std::atomic_ref(*static_cast<std::uint64_t*>(target)).exchange(address);
      });
    } else if (rank.rank() + 1 == rank.size()) {
      while (guarded.word != address) ::usleep(50);
      rank.check(guarded.data == round, said("data at an address", guarded.data, round));
    }
    rank.space.barrier().wait();
  }
  guarded.end(rank);
}

// A plain store by one rank after the other, that all others look for.
void looks_learn(RankSpace& rank) {
  Guarded guarded(rank);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    if (rank.rank() == round % rank.size()) {
      guarded.data = round;
      guarded.word = round;
    } else {
      std::uint64_t found = 0;
      while (found != round) {
        const auto judge = [&](std::span<const std::byte> first) -> OwnedAtomics::Judgement {
          rank.check(first.size() == sizeof found, "a look at other bytes");
          return {.wait_ns = round % 2 == 0 ? 1'000'000 : 0};
        };
        guarded.atomics.look(const_cast<std::uint64_t*>(&guarded.word), sizeof found, judge,
                             [&](void* target) { std::memcpy(&found, target, sizeof found); });
      }
      rank.check(guarded.data == round, said("data before a flag", guarded.data, round));
    }
    rank.space.barrier().wait();
  }
  guarded.end(rank);
}

/// A job of one rank that has its words' atomics done by processors or by a network card: of a card's, only
/// the fabric can tell which they are.
class LoneFabric final : public fabric::Fabric {
 public:
  explicit LoneFabric(fabric::AtomicDomain domain) : Fabric(0, 1), domain_(domain) {}

  std::size_t atomics() const noexcept { return atomics_; }

  fabric::Node node_of(Rank /*rank*/) const noexcept override { return 0; }
  std::uint32_t processors_a_rank() const noexcept override { return 1; }
  fabric::Capabilities capabilities(Rank /*peer*/) const noexcept override {
    return {.load_store = true,
            .native_one_sided = true,
            .atomic_domain = domain_,
            .max_message_bytes = fabric::max_message_bytes,
            .transport = "self"};
  }
  bool alive(Rank /*peer*/) const noexcept override { return true; }
  const Clock& clock() const noexcept override { return clock_; }
  void register_region(fabric::RegionId id, const fabric::RegionMemory& memory) override {
    memory_ = memory.data();
    regions().publish(id, {{.direct = memory_,
                            .direct_atomics = domain_ == fabric::AtomicDomain::cpu ? memory_ : nullptr,
                            .bytes = memory.bytes()}});
  }
  void unregister_region(fabric::RegionId id) override { regions().withdraw(id); }
  fabric::Status flush(Rank /*target*/) override { return fabric::Status::ok; }
  void set_handler(fabric::HandlerId /*id*/, fabric::Handler /*handler*/, void* /*context*/) override {}
  fabric::Status send(Rank /*target*/, fabric::HandlerId /*handler*/, const void* /*payload*/,
                      std::size_t /*bytes*/) override {
    return fabric::Status::ok;
  }
  fabric::Status wait_until(FunctionRef<bool()> condition, TimeNs /*deadline_ns*/,
                            unsigned /*patience*/) override {
    return condition() ? fabric::Status::ok : fabric::Status::timed_out;
  }
  void notify() noexcept override {}
  void sleep_while(const std::atomic<std::uint32_t>& /*word*/, std::uint32_t /*seen*/,
                   TimeNs /*deadline_ns*/) override {}
  void wake_sleepers(const std::atomic<std::uint32_t>& /*word*/) noexcept override {}
  void set_peer_lost_handler(PeerLostHandler /*handler*/, void* /*context*/) override {}
  void declare_lost(Rank /*peer*/) noexcept override {}

 private:
  void start_get(void* /*destination*/, fabric::RemoteAddress /*source*/, std::size_t /*bytes*/,
                 fabric::Completion& completion) override {
    completion.finish_inline(fabric::Status::ok);
  }
  void start_put(fabric::RemoteAddress /*destination*/, const void* /*source*/, std::size_t /*bytes*/,
                 fabric::Completion& completion) override {
    completion.finish_inline(fabric::Status::ok);
  }
  void start_atomic(fabric::AtomicOperation operation, fabric::RemoteAddress word, std::uint64_t* previous,
                    fabric::Completion& completion) override {
    EXPECT_EQ(operation.kind, fabric::AtomicKind::compare_exchange);
    ++atomics_;
    *previous = operation.first;
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_ + word.offset))
        .compare_exchange_strong(*previous, operation.second);
    completion.finish_inline(fabric::Status::ok);
  }

  const fabric::AtomicDomain domain_;
  const SteadyClock clock_{};
  std::byte* memory_ = nullptr;
  std::size_t atomics_ = 0;
};

/// Sanitizers have some of the addresses.
std::unique_ptr<vm::Reservation> reserve_somewhere() {
  const auto bases = vm::Reservation::candidate_bases();
  for (const std::uintptr_t base : bases.first(bases.size() - 1)) {
    try {
      return std::make_unique<vm::Reservation>(base, part_bytes);
    } catch (const Error&) {  // the next one, then
    }
  }
  return std::make_unique<vm::Reservation>(bases.back(), part_bytes);
}

/// Atomic additions of an owner to a word of its part. \returns how many of them went through the fabric
std::size_t add_at_owner(fabric::AtomicDomain domain, bool& takes_wide) {
  LoneFabric fabric(domain);
  const std::unique_ptr<vm::Reservation> reservation = reserve_somewhere();
  vm::MapBudget budget(vm::MapBudget::kernel_limit_here());
  const vm::Mechanisms mechanisms = vm::probe();
  OwnedSegment owned(fabric, "owned", reservation->take(part_bytes, 4096), part_bytes, 0,
                     vm::choose_mechanism("auto", mechanisms), mechanisms, budget, vm::Contents::data);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    owned.run_atomic(owned.part(0) + 4, 4, [](void* target) {
      std::atomic_ref(*static_cast<std::uint32_t*>(target)).fetch_add(1);
    });
  }
  EXPECT_EQ(words_of(owned, 0)[0], rounds << 32U);
  takes_wide = true;
  try {
    owned.run_atomic(owned.part(0), 16, [](void* /*target*/) {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_supported);
    takes_wide = false;
  }
  owned.close();
  return fabric.atomics();
}

TEST(OwnedSegment, AnOwnersAtomicsAreInstructionsWhereProcessorsDoThem) {
  bool takes_wide = false;
  EXPECT_EQ(add_at_owner(fabric::AtomicDomain::cpu, takes_wide), 0U);
  EXPECT_TRUE(takes_wide);
}

TEST(OwnedSegment, AnOwnersAtomicsGoThroughTheFabricWhereANetworkCardDoesThem) {
  bool takes_wide = true;
  EXPECT_EQ(add_at_owner(fabric::AtomicDomain::nic, takes_wide), rounds);
  EXPECT_FALSE(takes_wide);
}

// The owner's part never faults, so that the kernel may write there.
void kernel_writes_at_the_owner(RankSpace& rank) {
  OwnedSegment& owned = rank.space.create_owned_segment("owned", part_bytes);
  for (std::uint64_t round = 1; round <= 5; ++round) {
    std::byte* const mine = owned.part(rank.rank()) + round * 4096;
    const auto sent = static_cast<std::uint64_t>(rank.rank() * 1000 + round);
    int ends[2];
    rank.check(::pipe(ends) == 0, "no pipe");
    rank.check(::write(ends[1], &sent, sizeof sent) == sizeof sent, "nothing written");
    rank.check(::read(ends[0], mine, sizeof sent) == sizeof sent, "the kernel cannot write to a stack");
    ::close(ends[0]);
    ::close(ends[1]);
    rank.space.barrier().wait();
    for (Rank other = 0; other < rank.size(); ++other) {
      const std::uint64_t found = words_of(owned, other)[round * 512];
      rank.check(found == other * 1000 + round, said("what the kernel wrote", found, other * 1000 + round));
    }
    rank.space.barrier().wait();
  }
}

struct Case {
  const char* name;
  void (*body)(RankSpace& rank);

  friend std::ostream& operator<<(std::ostream& out, const Case& which) { return out << which.name; }
};

class OwnedSegments : public testing::TestWithParam<std::tuple<Case, Machine, Rank>> {};

TEST_P(OwnedSegments, Hold) {
  const auto& [which, machine, ranks] = GetParam();
  stage().store(0);  // made before the ranks are
  const std::string failed = run_space(machine, ranks, {}, which.body);
  if (failed.rfind("skipped: ", 0) == 0) GTEST_SKIP() << failed;
  EXPECT_EQ(failed, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, OwnedSegments,
    testing::Combine(
        testing::Values(
            Case{"OwnersWrite", &owners_write}, Case{"NeighbouringBytes", &all_write_neighbouring_bytes},
            Case{"MutexOrders", &mutex_orders}, Case{"PartsAndBlocks", &threads_acquire_parts_and_blocks},
            Case{"Atomics", &atomics_are_exact}, Case{"WhoIsOvertakenLearns", &who_is_overtaken_learns},
            Case{"WhoComesNextLearns", &who_comes_next_learns}, Case{"StoresTellAll", &stores_tell_all},
            Case{"PlainStoresFreeLocks", &plain_stores_free_locks},
            Case{"AddressesAreTold", &addresses_are_told}, Case{"LooksLearn", &looks_learn},
            Case{"KernelWrites", &kernel_writes_at_the_owner}),
        testing::ValuesIn(machines), testing::Values(Rank{2}, Rank{3})),
    [](const auto& param) {
      return std::string(std::get<0>(param.param).name) + "_" + std::get<1>(param.param).name + "_" +
             std::to_string(std::get<2>(param.param));
    });

}  // namespace

}  // namespace craton::space::test
