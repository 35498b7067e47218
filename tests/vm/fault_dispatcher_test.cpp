/// \file
/// The handler of faults: whose a fault is, what it runs on, and how a program dies that has a mistake.
#include "vm/fault_dispatcher.hpp"

#include <gtest/gtest.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "fiber/fiber.hpp"
#include "segment_rig.hpp"
#include "vm/fault_state.hpp"
#include "vm/thread_scope.hpp"

namespace craton::vm {
namespace {

/// The mechanism that a test takes where it does not matter which.
Backend any_backend() {
  return missing(Backend::userfaultfd).empty() ? Backend::userfaultfd : Backend::mprotect;
}

class FunctionHandler final : public FaultHandler {
 public:
  explicit FunctionHandler(std::function<void(BlockIndex, bool)> function) : function_(std::move(function)) {}
  void fault(BlockIndex block, bool write) override { function_(block, write); }

 private:
  std::function<void(BlockIndex, bool)> function_;
};

class Dispatching : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (const std::string why_not = missing(GetParam()); !why_not.empty()) GTEST_SKIP() << why_not;
  }
};

TEST_P(Dispatching, FaultsNest) {
  SegmentRig* rig = nullptr;
  int deepest = 0;
  FunctionHandler handler([&](BlockIndex block, bool write) {
    deepest = std::max(deepest, thread_faults().depth);
    // What handles block n reads block n + 1.
    if (block + 1 < fault_depth_most) static_cast<void>(rig->load((block + 1) * page_bytes));
    rig->table().set_access(block, write ? Access::write : Access::read);
  });
  SegmentRig made(GetParam(), 16, page_bytes, &handler);
  rig = &made;
  std::thread thread([&] {
    const ThreadScope scope;
    made.store(0, 1);
  });
  thread.join();
  EXPECT_EQ(deepest, fault_depth_most);
  for (BlockIndex block = 1; block < fault_depth_most; ++block)
    EXPECT_EQ(made.table().access(block), Access::read);
}

#if defined(__x86_64__)
extern "C" std::uint64_t craton_test_load(const void* from);
extern "C" std::uint64_t craton_test_other_load(const void* from);
__asm__(R"(
  .pushsection .text
  .type craton_test_load,@function
craton_test_load:
  movq (%rdi), %rax
  ret
  .size craton_test_load,.-craton_test_load
  .type craton_test_other_load,@function
craton_test_other_load:
  movq (%rdi), %rax
  ret
  .size craton_test_other_load,.-craton_test_other_load
  .popsection
)");

TEST_P(Dispatching, ALoadBeforeAStoreCountsAsAWrite) {
  SegmentRig* rig = nullptr;
  std::vector<bool> writes;
  FunctionHandler handler([&](BlockIndex block, bool write) {
    writes.push_back(write);
    rig->table().set_access(block, write ? Access::write : Access::read);
  });
  SegmentRig made(GetParam(), 4, page_bytes, &handler);
  if (made.view_table() == nullptr) GTEST_SKIP() << "it has no instructions";
  rig = &made;
  const std::byte* const base = made.application_view();
  std::thread thread([&] {
    const ThreadScope scope;
    add_loads_to_store({reinterpret_cast<std::uintptr_t>(&craton_test_load), 1});
    EXPECT_EQ(craton_test_load(base + page_bytes), 0U);
    EXPECT_EQ(craton_test_other_load(base), 0U);
    made.store(page_bytes, 1);  // it is open already
  });
  thread.join();
  EXPECT_EQ(writes, (std::vector<bool>{true, false}));
}
#endif

TEST_P(Dispatching, ErrnoIsKept) {
  FunctionHandler* forward = nullptr;
  SegmentRig* rig = nullptr;
  FunctionHandler handler([&](BlockIndex block, bool /*write*/) {
    errno = ENOTTY;
    rig->table().set_access(block, Access::write);
  });
  forward = &handler;
  SegmentRig made(GetParam(), 2, page_bytes, forward);
  rig = &made;
  errno = ELOOP;
  made.store(0, 1);
  EXPECT_EQ(errno, ELOOP);
}

TEST_P(Dispatching, AThreadWithoutAnAlternateStackFaultsToo) {
  SegmentRig rig(GetParam(), 4);
  std::thread thread([&rig] {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    rig.store(0, 17);
  });
  thread.join();
  EXPECT_EQ(rig.word(0), 17U);
}

TEST_P(Dispatching, AnAccessAcrossABorderFaultsOnBothSides) {
  SegmentRig rig(GetParam(), 4);
  const std::size_t offset = 2 * page_bytes - 4;
  rig.store(offset, 0x1122334455667788);
  EXPECT_EQ(rig.handler().writes, 2);
  EXPECT_EQ(rig.load(offset), 0x1122334455667788U);
}

TEST_P(Dispatching, AHandlerWaitsWhileFibersNotify) {
  fiber::Runtime runtime({.workers = 2});
  fiber::Waiter waiter;
  SegmentRig* rig = nullptr;
  FunctionHandler handler([&](BlockIndex block, bool /*write*/) {
    waiter.wait();  // blocks the kernel thread, not the fiber
    rig->table().set_access(block, Access::write);
  });
  SegmentRig made(GetParam(), 2, page_bytes, &handler);
  rig = &made;
  runtime.run([&] {
    fiber::Join faulting = fiber::fork([&made] { made.store(0, 5); });
    fiber::Join notifier = fiber::fork([&waiter] { waiter.notify(); });
    faulting.join();
    notifier.join();
  });
  EXPECT_EQ(made.word(0), 5U);
}

// Both install a handler of SIGSEGV; whichever comes first is called by the other.
TEST_P(Dispatching, SegmentsAndFibersShareTheSignals) {
  {
    fiber::Runtime runtime({.workers = 1});
    SegmentRig rig(GetParam(), 2);
    runtime.run([&rig] { rig.store(0, 1); });
    EXPECT_EQ(rig.word(0), 1U);
  }
  SegmentRig* rig = nullptr;
  FunctionHandler handler([&rig](BlockIndex block, bool /*write*/) {
    if (block == 0) static_cast<void>(rig->load(page_bytes));  // nested below somebody else's handler
    rig->table().set_access(block, Access::write);
  });
  SegmentRig made(GetParam(), 2, page_bytes, &handler);
  rig = &made;
  fiber::Runtime runtime({.workers = 1});
  runtime.run([&made] { made.store(0, 2); });
  EXPECT_EQ(made.word(0), 2U);
}

#if !defined(CRATON_FIBER_SANITIZED)  // they follow stacks, and swapcontext(3) confuses them
[[gnu::noinline]] std::size_t deeper(std::size_t depth) {
  volatile char frame[2048];
  frame[depth % sizeof frame] = 1;
  return depth == 0 ? 0 : deeper(depth - 1) + static_cast<std::size_t>(frame[depth % sizeof frame]);
}
std::size_t reached;
ucontext_t back;
TEST_P(Dispatching, AStackMayLieInASegment) {
  constexpr std::uint64_t blocks = 64;
  SegmentRig rig(GetParam(), blocks);
  std::thread thread([&rig] {
    const ThreadScope scope;
    ucontext_t there{};
    getcontext(&there);
    there.uc_stack.ss_sp = rig.application_view();
    there.uc_stack.ss_size = blocks * page_bytes;
    there.uc_link = &back;
    makecontext(
        &there, [] { reached = deeper(80); }, 0);
    swapcontext(&back, &there);
  });
  thread.join();
  EXPECT_EQ(reached, 80U);
  EXPECT_GE(rig.handler().writes, 40);
}
#endif

INSTANTIATE_TEST_SUITE_P(Holds, Dispatching, testing::Values(Backend::userfaultfd, Backend::mprotect),
                         [](const auto& backend) { return name_of(backend.param); });

// ---- Alternate stacks

std::size_t alternate_stack_bytes() {
  stack_t now{};
  sigaltstack(nullptr, &now);
  return (now.ss_flags & SS_DISABLE) != 0 ? 0 : now.ss_size;
}

/// Ends the process with code 7 if a handler can run on this thread's alternate stack.
void run_handler_on_alternate_stack() {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(7); };
  action.sa_flags = SA_ONSTACK;
  ::sigaction(SIGUSR1, &action, nullptr);
  ::pthread_kill(::pthread_self(), SIGUSR1);
}

TEST(ThreadScope, LeavesAThreadItsStackWhereAnotherEndsIt) {
  EXPECT_EXIT(
      {
        std::optional<ThreadScope> scope;
        std::atomic<int> step{0};
        std::thread thread([&] {
          scope.emplace();
          step = 1;
          while (step != 2) std::this_thread::yield();
          run_handler_on_alternate_stack();
        });
        while (step != 1) std::this_thread::yield();
        scope.reset();
        step = 2;
        thread.join();
        _exit(1);
      },
      testing::ExitedWithCode(7), "");
}

TEST(ThreadScope, NestsAndLeavesWhatWasThere) {
  std::thread thread([] {
    const std::size_t before = alternate_stack_bytes();
    {
      const ThreadScope outer;
      EXPECT_GE(alternate_stack_bytes(), ThreadScope::stack_bytes);
      const ThreadScope inner;
      EXPECT_GE(alternate_stack_bytes(), ThreadScope::stack_bytes);
    }
    EXPECT_EQ(alternate_stack_bytes(), before);
    {
      const fiber::AlternateStack small(true);
      const std::size_t bytes = alternate_stack_bytes();
      {
        const ThreadScope larger;
        EXPECT_GE(alternate_stack_bytes(), ThreadScope::stack_bytes);
      }
      EXPECT_EQ(alternate_stack_bytes(), bytes);
    }
  });
  thread.join();
}

// ---- Faults that are not ours

volatile std::sig_atomic_t own_faults = 0;
sigjmp_buf after_fault;

void jump_out(int /*signal*/) {
  own_faults = own_faults + 1;
  siglongjmp(after_fault, 1);
}

void touch_nothing() {
  static volatile std::uintptr_t nothing = 16;  // which the compiler does not know
  *reinterpret_cast<volatile int*>(nothing) = 1;
}

TEST(Dispatcher, AFaultThatIsNotOursIsTheProgramsHandlers) {
  struct sigaction action {};
  action.sa_handler = jump_out;
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  own_faults = 0;
  {
    SegmentRig rig(any_backend(), 2);
    for (int i = 0; i < 3; ++i)
      if (sigsetjmp(after_fault, 1) == 0) touch_nothing();
    EXPECT_EQ(own_faults, 3);
    rig.store(0, 1);
    EXPECT_EQ(own_faults, 3);
  }
  struct sigaction after {};
  sigaction(SIGSEGV, &before, &after);
  EXPECT_EQ(after.sa_handler, &jump_out) << "restored when the last segment goes";
}

[[gnu::noinline]] void touch_nothing_once() {
  if (sigsetjmp(after_fault, 1) == 0) touch_nothing();
}

TEST(Dispatcher, TheNextActionIsExchangedBelowOurs) {
  struct sigaction original {};
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = jump_out;
  ASSERT_EQ(sigaction(SIGSEGV, nullptr, &original), 0);
  EXPECT_FALSE(exchange_next_action(SIGSEGV, &action, &before)) << "there is none of ours";
  own_faults = 0;
  {
    SegmentRig rig(any_backend(), 2);
    EXPECT_TRUE(exchange_next_action(SIGSEGV, &action, &before));
    EXPECT_EQ(before.sa_handler, original.sa_handler);
    EXPECT_TRUE(exchange_next_action(SIGSEGV, nullptr, &before));
    EXPECT_EQ(before.sa_handler, &jump_out);
    for (int i = 0; i < 3; ++i) touch_nothing_once();
    EXPECT_EQ(own_faults, 3);
    rig.store(0, 1);
    EXPECT_EQ(own_faults, 3) << "ours still comes first";
    // Called once only where it wants so, each time that it is set.
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(exchange_next_action(SIGSEGV, &action, nullptr));
      touch_nothing_once();
    }
    EXPECT_EQ(own_faults, 5);
    action.sa_flags = 0;
    EXPECT_TRUE(exchange_next_action(SIGSEGV, &action, nullptr));
  }
  sigaction(SIGSEGV, &original, &before);
  EXPECT_EQ(before.sa_handler, &jump_out) << "the last that was set, when the last segment goes";
}

TEST(Dispatcher, HandlersGoWithTheLastSegment) {
  struct sigaction before {};
  struct sigaction during {};
  struct sigaction after {};
  for (const int signal : {SIGSEGV, SIGBUS}) {
    sigaction(signal, nullptr, &before);
    {
      const SegmentRig outer(any_backend(), 2);
      { const SegmentRig inner(any_backend(), 2); }
      sigaction(signal, nullptr, &during);
    }
    sigaction(signal, nullptr, &after);
    EXPECT_NE(during.sa_sigaction, before.sa_sigaction);
    EXPECT_NE(during.sa_flags & SA_ONSTACK, 0);
    EXPECT_EQ(after.sa_sigaction, before.sa_sigaction);
    constexpr int restorer = 0x04000000;  // the C library's own mark, on whatever it has set once
    EXPECT_EQ(after.sa_flags & ~restorer, before.sa_flags & ~restorer);
  }
}

TEST(Dispatcher, AHandlerPutOverOursKeepsWorking) {
  static struct sigaction below;
  static int passed;
  passed = 0;
  struct sigaction action {};
  struct sigaction original {};
  sigaction(SIGSEGV, nullptr, &original);
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  action.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
    ++passed;
    below.sa_sigaction(signal, info, context);
  };
  for (int i = 0; i < 2; ++i) {
    SegmentRig* rig = nullptr;
    FunctionHandler nesting([&rig](BlockIndex block, bool /*write*/) {
      if (block == 0) static_cast<void>(rig->load(page_bytes));  // the handler above blocks the signal
      rig->table().set_access(block, Access::write);
    });
    SegmentRig made(Backend::mprotect, 2, page_bytes, &nesting);
    rig = &made;
    sigaction(SIGSEGV, &action, i == 0 ? &below : nullptr);
    made.store(0, 1);
    EXPECT_EQ(made.word(0), 1U);
  }
  // Ours was left below it when the first segment went; the second put another of ours on top, then it was
  // covered.
  EXPECT_GE(passed, 2);
  sigaction(SIGSEGV, &original, nullptr);
}

class DispatchingDeathTest : public Dispatching {};

TEST_P(DispatchingDeathTest, AHandlerThatCannotHelpSaysWhy) {
  EXPECT_EXIT(
      {
        FunctionHandler handler([](BlockIndex, bool) { refuse_fault("rank 2 is dead"); });
        SegmentRig rig(GetParam(), 8, page_bytes, &handler);
        rig.store(5 * page_bytes + 24, 1);
      },
      testing::KilledBySignal(GetParam() == Backend::mprotect ? SIGSEGV : SIGBUS),
      "craton: rank 3: write to 0x[0-9a-f]+, segment \"rig\", offset 20504, block 5: rank 2 is dead; by "
      ".*test_vm\\+0x[0-9a-f]+");
}

TEST_P(DispatchingDeathTest, NestingHasABound) {
  EXPECT_EXIT(
      {
        const ThreadScope scope;
        SegmentRig* rig = nullptr;
        FunctionHandler handler(
            [&](BlockIndex block, bool) { static_cast<void>(rig->load((block + 1) * page_bytes)); });
        SegmentRig made(GetParam(), 32, page_bytes, &handler);
        rig = &made;
        static_cast<void>(made.load(0));
      },
      testing::KilledBySignal(GetParam() == Backend::mprotect ? SIGSEGV : SIGBUS),
      "read of 0x[0-9a-f]+, segment \"rig\", offset 32768, block 8: faults of one thread are nested too "
      "deep");
}

TEST_P(DispatchingDeathTest, AForkedChildIsTold) {
  SegmentRig rig(GetParam(), 2);
  rig.store(0, 7);
  EXPECT_EXIT(static_cast<void>(rig.load(0)), testing::KilledBySignal(SIGSEGV),
              "read of 0x[0-9a-f]+, segment \"rig\", offset 0, block 0: this is a forked child");
  EXPECT_EXIT(rig.table().set_access(0, Access::none), testing::KilledBySignal(SIGABRT),
              "a forked child has no segments");
  EXPECT_EQ(rig.table().access(0), Access::write);
  EXPECT_EQ(rig.load(0), 7U);
  EXPECT_EQ(rig.faults(), 1) << "the child must not have changed what the parent's blocks allow";
}

#if defined(__x86_64__)
TEST_P(DispatchingDeathTest, JumpingIntoASegmentEnds) {
  EXPECT_EXIT(
      {
        SegmentRig rig(GetParam(), 2);
        rig.table().set_access(0, Access::write);
        reinterpret_cast<void (*)()>(rig.application_view())();
      },
      testing::KilledBySignal(SIGSEGV),
      "jump to 0x[0-9a-f]+, segment \"rig\", offset 0, block 0: a segment holds data");
}
#endif

INSTANTIATE_TEST_SUITE_P(Holds, DispatchingDeathTest,
                         testing::Values(Backend::userfaultfd, Backend::mprotect),
                         [](const auto& backend) { return name_of(backend.param); });

TEST(DispatcherDeathTest, AddressesOfNoSegment) {
  EXPECT_EXIT(
      {
        const auto reservation = reserve(16 * page_bytes);
        SegmentMemory memory("here", reservation->take(2 * page_bytes, page_bytes), page_bytes);
        MapBudget budget(1000);
        AllowingHandler handler;
        const auto table = make_page_table(Mechanism::mprotect, {}, memory, budget);
        const CaughtSegment caught(*table, handler, 1);
        *reinterpret_cast<volatile int*>(reservation->base() + 4 * page_bytes) = 1;
      },
      testing::KilledBySignal(SIGSEGV),
      "craton: write to 0x[0-9a-f]+, which is in the address space of Craton but in no segment");
}

#if !defined(CRATON_FIBER_SANITIZED)  // they report and exit
TEST(DispatcherDeathTest, AProgramsOwnMistakeDiesAsItAlwaysDid) {
  EXPECT_EXIT(
      {
        const SegmentRig rig(any_backend(), 2);
        touch_nothing();
      },
      testing::KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT(
      {
        const SegmentRig rig(any_backend(), 2);
        raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "^$");
}
#endif

TEST(DispatcherDeathTest, ASignalThatWasIgnoredStaysSo) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_IGN);
        SegmentRig rig(any_backend(), 2);
        raise(SIGBUS);
        raise(SIGBUS);
        rig.store(0, 1);
        _exit(rig.word(0) == 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(DispatcherDeathTest, HandlersThatStayBelowOthersAreBounded) {
  const auto cover_again_and_again = [] {
    for (int i = 0; i < 20; ++i) {
      try {
        const SegmentRig rig(any_backend(), 2);
        for (const int signal : {SIGSEGV, SIGBUS}) ::signal(signal, [](int) { _exit(3); });
      } catch (const Error& error) {
        fprintf(stderr, "%s\n", error.what());
        _exit(i);
      }
    }
    _exit(99);
  };
  EXPECT_EXIT(cover_again_and_again(), testing::ExitedWithCode(8), "others put theirs over ours 8 times");
}

TEST(DispatcherDeathTest, AFailureInsideAHandlerEndsTheProcess) {
  EXPECT_EXIT(
      {
        const auto reservation = reserve(64 * page_bytes);
        SegmentMemory memory("tight", reservation->take(64 * page_bytes, page_bytes), page_bytes);
        MapBudget budget(10);
        AllowingHandler handler;
        const auto table = make_page_table(Mechanism::mprotect, {}, memory, budget);
        handler.table = table.get();
        const CaughtSegment caught(*table, handler, 1);
        for (std::size_t block = 0; block < 64; block += 2)
          *reinterpret_cast<volatile int*>(table->application_view() + block * page_bytes) = 1;
      },
      testing::KilledBySignal(SIGSEGV),
      "rank 1: write to 0x[0-9a-f]+, segment \"tight\", offset [0-9]+, block [0-9]+: cannot protect blocks "
      "one by one "
      "with mprotect.*vm.max_map_count is 10, segments may use 8 of them.*choose larger blocks");
}

TEST(Dispatcher, ManySegments) {
  const auto reservation = reserve(2048 * page_bytes);
  MapBudget budget(65'000);
  struct Segment {
    SegmentMemory memory;
    std::unique_ptr<ViewPageTable> table;
    AllowingHandler handler;
    std::optional<CaughtSegment> caught;
    Segment(Reservation& from, MapBudget& budget)
        : memory("one of many", from.take(page_bytes, page_bytes), page_bytes),
          table(make_page_table(Mechanism::mprotect, {}, memory, budget)) {
      handler.table = table.get();
      caught.emplace(*table, handler);
    }
  };
  std::vector<std::unique_ptr<Segment>> segments;
  for (std::size_t i = 0; i < caught_segments_most; ++i)
    segments.push_back(std::make_unique<Segment>(*reservation, budget));
  EXPECT_THROW(Segment(*reservation, budget), Error);
  for (const auto& each : segments) *reinterpret_cast<volatile int*>(each->table->application_view()) = 1;
  for (const auto& each : segments) EXPECT_EQ(each->handler.writes, 1);
  segments.erase(segments.begin(), segments.begin() + 500);
  Segment again(*reservation, budget);
  *reinterpret_cast<volatile int*>(again.table->application_view()) = 1;
  EXPECT_EQ(again.handler.writes, 1);
}

}  // namespace
}  // namespace craton::vm
