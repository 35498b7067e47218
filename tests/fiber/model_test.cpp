/// \file
/// Everything that synchronises, under seeded schedules of a simulated machine (model.hpp): from kernel
/// threads, from fibers, and mixed. A failure prints the seed that replays it.
#include "model.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fiber/barrier.hpp"
#include "fiber/condition.hpp"
#include "fiber/delegator.hpp"
#include "fiber/deque.hpp"
#include "fiber/latch.hpp"
#include "fiber/mutex.hpp"
#include "fiber/queues.hpp"
#include "fiber/runtime.hpp"
#include "fiber/semaphore.hpp"
#include "fiber/waiter.hpp"

namespace craton::fiber::model {
namespace {

using Stealing = BasicRuntime<ModelSystem, WorkStealing<ModelSystem>>;
using InOrder = BasicRuntime<ModelSystem, Fifo<ModelSystem>>;

#if defined(CRATON_FIBER_TSAN)
constexpr std::uint64_t many = 20;  // there is one kernel thread: nothing to see for this sanitizer
#elif defined(CRATON_FIBER_ASAN)
constexpr std::uint64_t many = 100;  // the same code at a fraction of the speed
#else
constexpr std::uint64_t many = 2500;
#endif

void require(bool condition, const char* what) {
  if (!condition) World::current().fail(what);
}

RuntimeOptions small(unsigned workers) {
  RuntimeOptions options;
  options.workers = workers;
  options.stacks = {.stack_bytes = std::size_t{64} * 1024, .guard_bytes = 4096};
  options.stacks_kept = 4;
  return options;
}

/// Runs `body(i)` for i below `count`, at once, on what the name says.
struct OnKernelThreads {
  template <typename Body>
  static void each(unsigned count, const Body& body) {
    std::vector<Thread> threads;
    for (unsigned i = 1; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
    body(0);
    for (Thread& thread : threads) thread.join();
  }
};
template <typename Runtime, unsigned workers>
struct OnFibers {
  template <typename Body>
  static void each(unsigned count, const Body& body) {
    Runtime runtime(small(workers));
    std::vector<typename Runtime::Join> joins;
    for (unsigned i = 0; i < count; ++i) joins.push_back(runtime.spawn([&body, i] { body(i); }));
    for (auto& join : joins) join.join();
  }
};
struct OnBoth {
  template <typename Body>
  static void each(unsigned count, const Body& body) {
    Stealing runtime(small(2));
    std::vector<Stealing::Join> joins;
    std::vector<Thread> threads;
    for (unsigned i = 1; i < count; ++i) {
      if (i % 2 == 0) {
        threads.emplace_back([&body, i] { body(i); });
      } else {
        joins.push_back(runtime.spawn([&body, i] { body(i); }));
      }
    }
    body(0);
    for (Thread& thread : threads) thread.join();
    for (auto& join : joins) join.join();
  }
};

template <typename On>
class Synchronisation : public testing::Test {};
using AllKinds = testing::Types<OnKernelThreads, OnFibers<Stealing, 1>, OnFibers<Stealing, 2>,
                                OnFibers<InOrder, 2>, OnBoth>;
struct KindNames {
  template <typename On>
  static std::string GetName(int index) {
    constexpr std::array<const char*, 5> names{"kernel_threads", "fibers_1_worker", "fibers_2_workers",
                                               "fibers_fifo", "mixed"};
    return names[static_cast<std::size_t>(index)];
  }
};
TYPED_TEST_SUITE(Synchronisation, AllKinds, KindNames);

template <typename On, typename Lock>
void exclude() {
  struct State {
    Lock mutex;
    Plain<int> inside{0};
    Plain<int> count{0};
  } state;
  On::each(3, [&state](unsigned) {
    for (int i = 0; i < 2; ++i) {
      state.mutex.lock();
      require(state.inside == 0, "two hold a mutex");
      state.inside = 1;
      World::current().step();
      state.count = state.count + 1;
      state.inside = 0;
      state.mutex.unlock();
    }
  });
  require(state.count == 6, "a critical section was lost");
}
TYPED_TEST(Synchronisation, MutexExcludes) {
  EXPECT_EQ(explore(many, [] { exclude<TypeParam, BasicMutex<ModelSystem>>(); }), "");
}
TYPED_TEST(Synchronisation, McsMutexExcludes) {
  EXPECT_EQ(explore(many, [] { exclude<TypeParam, BasicMcsMutex<ModelSystem>>(); }), "");
}

TYPED_TEST(Synchronisation, ConditionLosesNoWakeUp) {
  EXPECT_EQ(explore(many,
                    [] {
                      struct State {
                        BasicMutex<ModelSystem> mutex;
                        BasicCondition<ModelSystem> changed;
                        Plain<int> filled{0};
                        Plain<int> taken{0};
                      } state;
                      TypeParam::each(4, [&state](unsigned self) {
                        if (self < 2) {  // takes what the others bring
                          for (int i = 0; i < 2; ++i) {
                            state.mutex.lock();
                            state.changed.wait(state.mutex, [&] { return state.filled != 0; });
                            state.filled = state.filled - 1;
                            state.taken = state.taken + 1;
                            state.mutex.unlock();
                          }
                        } else {
                          for (int i = 0; i < 2; ++i) {
                            state.mutex.lock();
                            state.filled = state.filled + 1;
                            state.mutex.unlock();
                            state.changed.notify_one();
                          }
                        }
                      });
                      require(state.taken == 4 && state.filled == 0,
                              "something was taken twice or not at all");
                    }),
            "");
}

TYPED_TEST(Synchronisation, NotifyAllWakesAll) {
  EXPECT_EQ(explore(many / 2,
                    [] {
                      struct State {
                        BasicMutex<ModelSystem> mutex;
                        BasicCondition<ModelSystem> opened;
                        Plain<bool> open{false};
                      } state;
                      TypeParam::each(4, [&state](unsigned self) {
                        state.mutex.lock();
                        if (self == 0) {
                          state.open = true;
                          state.opened.notify_all();
                        } else {
                          state.opened.wait(state.mutex, [&] { return static_cast<bool>(state.open); });
                        }
                        state.mutex.unlock();
                      });
                    }),
            "");
}

TYPED_TEST(Synchronisation, BarrierSeparatesRounds) {
  EXPECT_EQ(explore(many,
                    [] {
                      constexpr unsigned size = 3;
                      struct State {
                        BasicBarrier<ModelSystem> barrier{size};
                        std::array<Plain<int>, size> round{};
                        Atomic<int> lasts{0};
                      } state;
                      TypeParam::each(size, [&state](unsigned self) {
                        for (int i = 1; i <= 3; ++i) {
                          state.round[self] = i;
                          if (state.barrier.arrive_and_wait())
                            state.lasts.fetch_add(1, std::memory_order_relaxed);
                          for (unsigned other = 0; other < size; ++other)
                            require(state.round[other] == i, "a barrier let one through early");
                          state.barrier.arrive_and_wait();
                        }
                      });
                      require(state.lasts.load() == 3, "a round has not exactly one last");
                    }),
            "");
}

TYPED_TEST(Synchronisation, SemaphoreAdmitsSoMany) {
  EXPECT_EQ(explore(many,
                    [] {
                      struct State {
                        BasicSemaphore<ModelSystem> semaphore{2};
                        Atomic<int> inside{0};
                      } state;
                      TypeParam::each(4, [&state](unsigned) {
                        state.semaphore.acquire();
                        require(state.inside.fetch_add(1) < 2, "a semaphore of 2 admitted 3");
                        World::current().step();
                        state.inside.fetch_sub(1);
                        state.semaphore.release();
                      });
                      require(state.semaphore.try_acquire() && state.semaphore.try_acquire() &&
                                  !state.semaphore.try_acquire(),
                              "a semaphore does not count as it was given back");
                    }),
            "");
}

TYPED_TEST(Synchronisation, LatchOpensForAll) {
  EXPECT_EQ(explore(many / 2,
                    [] {
                      struct State {
                        BasicLatch<ModelSystem> latch{2};
                        std::array<Plain<int>, 2> written{};
                      } state;
                      TypeParam::each(4, [&state](unsigned self) {
                        if (self < 2) {
                          state.written[self] = 1;
                          state.latch.count_down();
                        } else {
                          state.latch.wait();
                          require(state.written[0] == 1 && state.written[1] == 1, "a latch opened too early");
                        }
                      });
                    }),
            "");
}

TYPED_TEST(Synchronisation, FutureBringsItsValue) {
  EXPECT_EQ(explore(many / 2,
                    [] {
                      BasicFuture<Plain<int>, ModelSystem> future;
                      TypeParam::each(3, [&future](unsigned self) {
                        if (self == 0) {
                          future.set(42);
                        } else {
                          require(future.get() == 42, "a future has another value than was set");
                        }
                      });
                    }),
            "");
}

TYPED_TEST(Synchronisation, WaiterMissesNoNotification) {
  EXPECT_EQ(explore(many,
                    [] {
                      struct State {
                        std::array<std::unique_ptr<BasicWaiter<ModelSystem>>, 4> waiters;
                        std::array<Plain<int>, 4> written{};
                      } state;
                      for (auto& waiter : state.waiters)
                        waiter = std::make_unique<BasicWaiter<ModelSystem>>();
                      TypeParam::each(
                          4, [&state](unsigned self) {  // a ring: each waits for the one before it
                            if (self != 0) {
                              state.waiters[self]->wait();
                              state.waiters[self].reset();  // its notifier may still be inside notify()
                              require(state.written[self - 1] == 1,
                                      "what was written before a notification is not seen");
                            }
                            state.written[self] = 1;
                            if (self != 3) state.waiters[self + 1]->notify();
                          });
                    }),
            "");
}

TYPED_TEST(Synchronisation, UnlockAndWaitIsOneStep) {
  EXPECT_EQ(explore(many,
                    [] {
                      struct State {
                        BasicMutex<ModelSystem> mutex;
                        BasicSuspended<ModelSystem> waiting;
                        Plain<bool> told{false};
                      } state;
                      TypeParam::each(2, [&state](unsigned self) {
                        for (bool done = false; !done;) {
                          state.mutex.lock();
                          if (self == 0) {
                            if (!state.told) {
                              state.mutex.unlock_and_wait(state.waiting);
                              require(static_cast<bool>(state.told),
                                      "a suspended thread went on before it was told to");
                            } else {
                              state.mutex.unlock();
                            }
                            done = true;
                          } else {
                            state.told = true;
                            const Handle held = state.waiting.take();
                            state.mutex.unlock();
                            if (held != nobody) resume<ModelSystem>(held);
                            done = true;
                          }
                        }
                      });
                    }),
            "");
}

// ---- Delegation

struct Addition {
  int by = 0;
  unsigned source = 0;
  int number = 0;
};
/// A resource that one thread at a time may use: it adds, after a while.
struct Adder {
  struct Shared {
    Plain<int> sum{0};
    std::array<Plain<int>, 4> last{};
    Atomic<int> done{0};
  };
  Shared& shared;
  int under_way = 0;

  bool execute(Addition& addition) {
    if (under_way == 2) return false;  // as if a queue to the hardware were full
    require(shared.last[addition.source] < addition.number, "commands of one thread changed order");
    shared.last[addition.source] = addition.number;
    shared.sum = shared.sum + addition.by;
    ++under_way;
    return true;
  }
  bool progress() {
    if (under_way == 0) return false;
    --under_way;
    shared.done.fetch_add(1);
    return true;
  }
  bool is_active() const noexcept { return under_way != 0; }
};

template <typename On, typename Delegator, typename... Capacity>
void delegate_all(Capacity... capacity) {
  struct State {
    Delegator delegator;
    Adder::Shared shared;
    Atomic<int> left{0};
    explicit State(Capacity... given) : delegator(given...) {}
  } state(capacity...);
  constexpr unsigned users = 3;
  On::each(users + 1, [&state](unsigned self) {
    if (self == 0) {
      Adder consumer{state.shared};
      state.delegator.consume(consumer);
      return;
    }
    int delegated = 0;
    for (int i = 1; i <= 3; ++i) {
      const auto fill = [&](Addition& addition) { addition = {1, self, i}; };
      const auto immediate = [&] { state.shared.sum = state.shared.sum + 1; };
      switch (World::current().random(3)) {
        case 0:
          state.delegator.lock();
          immediate();
          state.delegator.unlock();
          break;
        case 1:
          if (!state.delegator.execute_or_delegate(immediate, fill)) ++delegated;
          break;
        default:
          state.delegator.delegate(fill);
          ++delegated;
          break;
      }
    }
    if (state.left.fetch_add(delegated + 1000) / 1000 == static_cast<int>(users) - 1) {  // the last user
      state.delegator.stop_consumer();
    }
  });
  require(state.shared.sum == 9, "a delegated or a direct section was lost or done twice");
  require(state.shared.done.load() == state.left.load() % 1000,
          "a consumer stopped with something under way");
}
TYPED_TEST(Synchronisation, RingDelegatorLosesNothing) {
  EXPECT_EQ(
      explore(many,
              [] { delegate_all<TypeParam, BasicRingDelegator<ModelSystem, Addition>>(std::size_t{2}); }),
      "");
}
TYPED_TEST(Synchronisation, ListDelegatorLosesNothing) {
  EXPECT_EQ(explore(many, [] { delegate_all<TypeParam, BasicListDelegator<ModelSystem, Addition>>(); }), "");
}

template <typename Lock>
void serve_in_order() {
  struct State {
    Lock mutex;
    std::array<Atomic<int>, 3> waiting{};
    Plain<int> served{0};
  } state;
  state.mutex.lock();
  std::vector<Thread> threads;
  for (int i = 1; i <= 2; ++i) {
    threads.emplace_back([&state, i] {
      BasicSuspended<ModelSystem> unused;
      state.waiting[static_cast<std::size_t>(i)].store(1);
      state.mutex.lock();
      state.served = state.served + 1;
      require(state.served == i, "a mutex was not handed on in the order of arrival");
      state.mutex.unlock();
    });
    // The next one comes when this one sleeps in the kernel, or seems to: then it is in the queue.
    for (int turns = 0; turns < 400; ++turns) ModelSystem::pause();
  }
  state.mutex.unlock();
  for (Thread& thread : threads) thread.join();
}
TEST(Order, McsMutexServesInOrderOfArrival) {
  EXPECT_EQ(explore(many / 4, [] { serve_in_order<BasicMcsMutex<ModelSystem>>(); }), "");
}

TEST(Order, FifoRunsInTheOrderOfReadiness) {
  EXPECT_EQ(explore(many / 4,
                    [] {
                      InOrder runtime(small(1));
                      std::vector<int> ran;
                      runtime.run([&] {
                        std::vector<InOrder::Join> joins;
                        for (int i = 0; i < 4; ++i)
                          joins.push_back(runtime.spawn([&ran, i] { ran.push_back(i); }));
                        for (auto& join : joins) join.join();
                      });
                      require(ran == std::vector<int>({0, 1, 2, 3}), "fibers of a FIFO ran in another order");
                    }),
            "");
}

TEST(Deque, EveryItemGoesToOneTaker) {
  EXPECT_EQ(explore(3 * many,
                    [] {
                      constexpr int items = 7;
                      struct State {
                        Deque<ModelSystem, Plain<int>*> deque{2};  // so that it grows
                        std::array<Plain<int>, items> item{};
                        std::array<Atomic<int>, items> taken{};
                        Atomic<bool> ended{false};
                      } state;
                      const auto take = [&state](Plain<int>* item) {
                        const int number = *item;  // written before it was pushed
                        require(state.taken[static_cast<std::size_t>(number)].fetch_add(1) == 0,
                                "an item was taken twice");
                      };
                      const auto thief = [&state, &take] {
                        while (!state.ended.load(std::memory_order_relaxed)) {
                          if (Plain<int>* const item = state.deque.steal()) take(item);
                          ModelSystem::pause();
                        }
                      };
                      std::vector<Thread> thieves;
                      thieves.emplace_back(thief);
                      thieves.emplace_back(thief);
                      for (int i = 0; i < items; ++i) {
                        state.item[static_cast<std::size_t>(i)] = i;
                        state.deque.push(&state.item[static_cast<std::size_t>(i)]);
                        if (World::current().one_in(2)) {
                          if (Plain<int>* const item = state.deque.pop()) take(item);
                        }
                      }
                      while (Plain<int>* const item = state.deque.pop()) take(item);
                      require(state.deque.empty(), "a deque that gives nothing is not empty");
                      state.ended.store(true);
                      for (Thread& each : thieves) each.join();
                      for (auto& taken : state.taken) require(taken.load() == 1, "an item was lost");
                    }),
            "");
}

template <typename Runtime>
int tree(int depth) {
  if (depth == 0) return 1;
  Plain<int> left{0};
  auto child = Runtime::fork([&left, depth] { left = tree<Runtime>(depth - 1); });
  const int right = tree<Runtime>(depth - 1);
  child.join();
  return left + right;
}
TEST(Runtime, ForkAndJoinAddUp) {
  EXPECT_EQ(explore(many,
                    [] {
                      Stealing runtime(small(2));
                      require(runtime.run([] { return tree<Stealing>(3); }) == 8,
                              "a tree of forks does not add up");
                    }),
            "");
  EXPECT_EQ(explore(many / 4,
                    [] {
                      InOrder runtime(small(2));
                      require(runtime.run([] { return tree<InOrder>(2); }) == 4,
                              "a tree of forks does not add up");
                    }),
            "");
}

TEST(Runtime, SleepingWorkersAreWoken) {
  EXPECT_EQ(explore(many,
                    [] {
                      Stealing runtime(small(2));
                      for (int i = 0; i < 3; ++i) {
                        // The caller is no worker, and blocks until the fiber has run: all workers may sleep
                        // meanwhile.
                        Plain<int> value{0};
                        runtime.run([&value, i] { value = i; });
                        require(value == i, "a fiber did not run");
                        for (auto turns = World::current().random(200); turns > 0; --turns)
                          ModelSystem::pause();
                      }
                    }),
            "");
}

TEST(Runtime, YieldAndDetachAndJoinFromElsewhere) {
  EXPECT_EQ(explore(many / 2,
                    [] {
                      Atomic<int> ended{0};
                      {
                        Stealing runtime(small(2));
                        Stealing::Join handed_on;
                        runtime.run([&] {
                          Stealing::fork([&ended] { ended.fetch_add(1); }).detach();
                          runtime
                              .spawn([&ended] {
                                current_host<ModelSystem>()->worker()->yield();
                                ended.fetch_add(1);
                              })
                              .detach();
                          handed_on = Stealing::fork([&ended] {
                            current_host<ModelSystem>()->worker()->yield();
                            ended.fetch_add(1);
                          });
                          current_host<ModelSystem>()->worker()->yield();
                        });
                        handed_on.join();  // by a kernel thread
                        while (ended.load() != 3) ModelSystem::pause();
                      }
                    }),
            "");
}

TEST(Runtime, EnterAndSwapGoStraightOn) {
  EXPECT_EQ(explore(many / 2,
                    [] {
                      Stealing runtime(small(2));
                      struct State {
                        BasicMutex<ModelSystem> mutex;
                        BasicSuspended<ModelSystem> first, second;
                        Plain<int> turns{0};
                      } state;
                      runtime.run([&] {
                        auto one = runtime.spawn([&state] {
                          state.mutex.lock();
                          state.mutex.unlock_and_wait(state.first);
                          state.turns = state.turns + 1;  // entered
                          BasicSuspended<ModelSystem> back = std::move(state.second);
                          back.notify();
                        });
                        for (bool there = false; !there;) {
                          state.mutex.lock();
                          there = static_cast<bool>(state.first);
                          if (there) {
                            // Into `second`, on to `first`, and back when that one says so.
                            state.second.swap_with(state.first, [&state] {
                              state.mutex.unlock();
                              return true;
                            });
                            require(state.turns == 1, "the one swapped to did not run first");
                          } else {
                            state.mutex.unlock();
                            current_host<ModelSystem>()->worker()->yield();
                          }
                        }
                        one.join();
                      });
                    }),
            "");
}

}  // namespace
}  // namespace craton::fiber::model
