/// \file
/// How a site is overwritten: what a jump takes with it, when it may not, what a breakpoint does instead; and
/// what hooks may do.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "base/error.hpp"
#include "code_buffer.hpp"
#include "machine.hpp"
#include "posix/atomics/patch.hpp"

namespace craton::posix {
namespace {

// What the hooks of all tests do.
struct Hooked {
  std::array<std::uintptr_t, 8> all{};  // no vector: it is filled in signal handlers
  std::array<std::uint64_t, 8> turns{};
  std::size_t calls = 0;
  int flushes = 0;
  void (*first)(void* address) = nullptr;  // before the operation

  std::vector<std::uintptr_t> addresses() const {
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(calls)};
  }
} hooked;

void on_atomic(void* address, std::size_t /*bytes*/, Perform perform, void* state) {
  hooked.all.at(hooked.calls++) = reinterpret_cast<std::uintptr_t>(address);
  if (hooked.first != nullptr) hooked.first(address);
  perform(state, address);
}
void on_flush() {
  ++hooked.flushes;
}

/// The second time it finds something.
void on_look(const Look& look, Perform perform, void* state) {
  EXPECT_TRUE(look.is_patient);
  hooked.turns.at(hooked.calls) = look.turn;
  EXPECT_EQ(look.bytes, 4U);
  hooked.all.at(hooked.calls) = reinterpret_cast<std::uintptr_t>(look.address);
  if (++hooked.calls == 2) *reinterpret_cast<std::uint32_t*>(hooked.all[0]) = 77;
  if (perform == nullptr) return;
  // On a copy.
  std::array<std::byte, 4> copy{};
  std::memcpy(copy.data(), look.address, copy.size());
  perform(state, copy.data());
}

constexpr std::initializer_list<unsigned> lock_inc_rdi = {0xf0, 0xff, 0x07};
constexpr std::initializer_list<unsigned> lock_inc_rsi = {0xf0, 0xff, 0x06};

class Sites : public testing::Test {
 protected:
  void SetUp() override {
    hooked = {};
    auto& general = machine_.before.general;
    general[rdi] = address(0);
    general[rsi] = address(1);
    general[rsp] = stack_.end() - 1024;
    machine_.before.flags = 0x202;
    std::mt19937_64 engine(7);
    machine_.vectors_before = VectorState::random(engine);
  }
  std::uintptr_t address(std::size_t word) const { return data_.begin() + 8 * word; }
  std::uint32_t& word(std::size_t index) { return *reinterpret_cast<std::uint32_t*>(address(index)); }

  PatchReport patch_it(CodeMap map) {
    const PatchReport report = patch(map, {.ranges = {{.begin = data_.begin(), .end = data_.end()}},
                                           .hooks = {on_atomic, on_flush, nullptr}});
    EXPECT_EQ(report.jumps + report.traps.size(), report.atomics + report.flushes) << text_of(report);
    return report;
  }
  PatchReport patch_it() { return patch_it(buffer_.finish()); }
  /// With looks at what is shared, the data up to `end`.
  PatchReport patch_looks(std::uintptr_t end) {
    return patch(buffer_.finish(), {.ranges = {{.begin = data_.begin(), .end = end}},
                                    .hooks = {.atomic = on_atomic, .flush = on_flush, .look = on_look}});
  }
  void run(std::uintptr_t at) {
    machine_.run(at);
    EXPECT_EQ(machine_.vectors_after.difference_from(machine_.vectors_before), "");
  }

  LowMemory data_{4096};
  LowMemory stack_{256 << 10};
  CodeBuffer buffer_{64 << 10};
  Machine machine_;
};

TEST_F(Sites, AJumpTakesWhatFollows) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0x89, 0xc1});  // mov %eax, %ecx
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  machine_.before.general[rax] = 77;
  run(code);
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(machine_.after.general[rcx], 77U);
  EXPECT_EQ(hooked.addresses(), std::vector{address(0)});
}

TEST_F(Sites, AJumpTakesWhatComesBefore) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x89, 0xf9});  // mov %edi, %ecx
  buffer_.add(lock_inc_rdi);
  const std::uintptr_t loop = buffer_.here();
  buffer_.add({0xff, 0xca, 0x75, 0xfc});  // dec %edx; jne loop
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  EXPECT_EQ(*reinterpret_cast<const std::uint8_t*>(loop), 0xff);
  machine_.before.general[rdx] = 3;
  run(code);
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(machine_.after.general[rcx], machine_.before.general[rdi]);
  EXPECT_EQ(machine_.after.general[rdx], 0U);
}

TEST_F(Sites, AJumpTakesNothingThatIsJumpedAt) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0xff, 0xca, 0x75, 0xfc});  // 1: dec %edx; jne 1b
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  ASSERT_EQ(report.traps.size(), 1U) << text_of(report);
  EXPECT_EQ(report.traps[0].address, code);
  machine_.before.general[rdx] = 3;
  run(code);
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(machine_.after.general[rdx], 0U);
  EXPECT_EQ(hooked.calls, 1U);
}

// Programs jump over the lock of an instruction where they have one thread.
TEST_F(Sites, ALongOneThatIsJumpedIntoTraps) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x74, 0x01});                                // je behind the lock
  buffer_.add({0xf0, 0xff, 0x87, 0x00, 0x00, 0x00, 0x00});  // lock incl 0(%rdi)
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  ASSERT_EQ(report.traps.size(), 1U) << text_of(report);
  EXPECT_EQ(report.traps[0].address, code + 2);
  run(code);
  EXPECT_EQ(word(0), 1U);
  EXPECT_EQ(hooked.calls, 1U);
  machine_.before.flags |= 0x40;  // equal
  run(code);
  EXPECT_EQ(word(0), 2U);
  EXPECT_EQ(hooked.calls, 1U);
}

TEST_F(Sites, AShortOneThatIsJumpedIntoTraps) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x74, 0x01});  // je behind the lock
  buffer_.add(lock_inc_rdi);
  buffer_.add({0x89, 0xc1});  // mov %eax, %ecx
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  ASSERT_EQ(report.traps.size(), 1U) << text_of(report);
  EXPECT_EQ(report.traps[0].address, code + 2);
  run(code);
  machine_.before.flags |= 0x40;
  run(code);
  EXPECT_EQ(word(0), 2U);
  EXPECT_EQ(hooked.calls, 1U);
}

TEST_F(Sites, AnotherFunctionsJumpCountsToo) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  const std::uintptr_t inside = buffer_.here();
  buffer_.add_exit();
  buffer_.end_function();
  const std::uintptr_t cold = buffer_.begin_function();
  buffer_.add({0xe9});
  buffer_.add_value(static_cast<std::int32_t>(inside - (buffer_.here() + 4)));
  buffer_.end_function();
  EXPECT_EQ(patch_it().traps.size(), 1U);
  run(cold);
  EXPECT_EQ(word(0), 0U);
  run(code);
  EXPECT_EQ(word(0), 1U);
}

TEST_F(Sites, ACompareExchangeIsTriedAgain) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x8b, 0x07});              // 1: mov (%rdi), %eax
  buffer_.add({0x8d, 0x50, 0x01});        // lea 1(%rax), %edx
  buffer_.add({0xf0, 0x0f, 0xb1, 0x17});  // lock cmpxchg %edx, (%rdi)
  buffer_.add({0x75, 0xf5});              // jne 1b
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  EXPECT_EQ(report.loads_to_store, std::vector<std::uintptr_t>{code});
  hooked.first = [](void* place) {  // another rank comes between, twice
    if (hooked.calls <= 2) *static_cast<std::uint32_t*>(place) += 10;
  };
  run(code);
  EXPECT_EQ(word(0), 21U);
  EXPECT_EQ(hooked.calls, 3U);
}

TEST_F(Sites, OnlyALoadOfTheSamePlaceIsOfACompareExchange) {
  static_cast<void>(buffer_.begin_function());
  buffer_.add({0x8b, 0x07});  // mov (%rdi), %eax: a branch comes between, and it may be for something else
  buffer_.add({0xeb, 0x00});  // jmp behind it
  buffer_.add({0x8b, 0x06});  // mov (%rsi), %eax
  buffer_.add({0x8b, 0x4f, 0x08});        // mov 8(%rdi), %ecx
  buffer_.add({0x89, 0x07});              // mov %eax, (%rdi)
  buffer_.add({0xf0, 0x0f, 0xb1, 0x17});  // lock cmpxchg %edx, (%rdi)
  buffer_.add({0x8b, 0x07});              // mov (%rdi), %eax
  buffer_.add({0xf0, 0x0f, 0xc1, 0x07});  // lock xadd %eax, (%rdi)
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.atomics, 2U) << text_of(report);
  EXPECT_TRUE(report.loads_to_store.empty());
}

/// A function with a table of distances, as compilers make of a switch; the site is followed by `target`.
std::uintptr_t add_switch(CodeBuffer& buffer, bool leads_behind_site, bool has_table) {
  const std::uintptr_t table = buffer.here();
  buffer.add_value(std::uint64_t{0});
  const std::uintptr_t code = buffer.begin_function();
  if (has_table) {
    buffer.add({0x48, 0x8d, 0x15});  // lea table(%rip), %rdx
    buffer.add_value(static_cast<std::int32_t>(table - (buffer.here() + 4)));
    buffer.add({0x48, 0x63, 0x04, 0x8a});  // movslq (%rdx, %rcx, 4), %rax
    buffer.add({0x48, 0x01, 0xd0});        // add %rdx, %rax
  }
  buffer.add({0xff, 0xe0});  // jmp *%rax
  const std::uintptr_t first = buffer.here();
  buffer.add(lock_inc_rdi);
  const std::uintptr_t second = leads_behind_site ? buffer.here() : first;
  buffer.add({0x90, 0x90, 0x90});
  buffer.add_exit();
  buffer.end_function();
  const std::int32_t distances[] = {static_cast<std::int32_t>(first - table),
                                    static_cast<std::int32_t>(second - table)};
  std::memcpy(reinterpret_cast<void*>(table), distances, sizeof distances);
  return code;
}

TEST_F(Sites, AJumpTableLeadsBehindTheSite) {
  const std::uintptr_t code = add_switch(buffer_, true, true);
  const PatchReport report = patch_it();
  EXPECT_EQ(report.traps.size(), 1U) << text_of(report);
  machine_.before.general[rcx] = 0;
  run(code);
  EXPECT_EQ(word(0), 1U);
  machine_.before.general[rcx] = 1;
  run(code);
  EXPECT_EQ(word(0), 1U);
}

TEST_F(Sites, AJumpTableLeadsElsewhere) {
  const std::uintptr_t code = add_switch(buffer_, false, true);
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  for (const std::uint64_t index : {0UL, 1UL}) {
    machine_.before.general[rcx] = index;
    run(code);
  }
  EXPECT_EQ(word(0), 2U);
}

TEST_F(Sites, AJumpWithoutATableMayLeadAnywhere) {
  const std::uintptr_t code = add_switch(buffer_, true, false);
  const PatchReport report = patch_it();
  ASSERT_EQ(report.traps.size(), 1U) << text_of(report);
  machine_.before.general[rax] = report.traps[0].address + 3;
  run(code);
  EXPECT_EQ(word(0), 0U);
  machine_.before.general[rax] = report.traps[0].address;
  run(code);
  EXPECT_EQ(word(0), 1U);
}

TEST_F(Sites, ALandingPadIsATarget) {
  buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  const std::uintptr_t pad = buffer_.here();
  buffer_.add_exit();
  buffer_.end_function();
  CodeMap map = buffer_.finish();
  map.landing_pads.push_back(pad);
  EXPECT_EQ(patch_it(map).traps.size(), 1U);
}

TEST_F(Sites, FillerBehindAFunctionIsTaken) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x87, 0x07, 0xc3});  // xchg %eax, (%rdi); ret
  buffer_.end_function();
  buffer_.begin_function();
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  machine_.before.general[rax] = 5;
  *reinterpret_cast<std::uint64_t*>(machine_.before.general[rsp]) = Machine::exit_address();
  word(0) = 9;
  run(code);
  EXPECT_EQ(word(0), 5U);
  EXPECT_EQ(machine_.after.general[rax], 9U);
  EXPECT_EQ(machine_.after.general[rsp], machine_.before.general[rsp] + 8);
}

TEST_F(Sites, WhatIsNoFillerStays) {
  buffer_.begin_function();
  buffer_.add({0x87, 0x07, 0xc3});
  buffer_.end_function();
  buffer_.add({0x48, 0x89, 0xc0});  // code that nobody told of
  const PatchReport report = patch_it();
  EXPECT_EQ(report.traps.size(), 1U) << text_of(report);
}

TEST_F(Sites, SitesNextToEachOtherShareAJump) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add(lock_inc_rsi);
  buffer_.add(lock_inc_rdi);
  buffer_.add({0x0f, 0xae, 0xf0});  // mfence
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 4U) << text_of(report);
  run(code);
  EXPECT_EQ(word(0), 2U);
  EXPECT_EQ(word(1), 1U);
  EXPECT_EQ(hooked.addresses(), (std::vector{address(0), address(1), address(0)}));
  EXPECT_EQ(hooked.flushes, 1);
}

TEST_F(Sites, FencesAreFlushes) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x0f, 0xae, 0xf0});                    // mfence
  buffer_.add({0xf0, 0x48, 0x83, 0x0c, 0x24, 0x00});  // lock orq $0, (%rsp)
  buffer_.add({0xf0, 0x83, 0x44, 0x24, 0xfc, 0x00});  // lock addl $0, -4(%rsp)
  buffer_.add({0xf0, 0x48, 0x83, 0x0c, 0x24, 0x10});  // lock orq $16, (%rsp): no fence
  buffer_.add({0xf0, 0x48, 0x83, 0x0f, 0x00});        // lock orq $0, (%rdi): none either
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.flushes, 3U) << text_of(report);
  EXPECT_EQ(report.atomics, 2U);
  const auto on_stack = reinterpret_cast<std::uint64_t*>(machine_.before.general[rsp]);
  *on_stack = 1;
  run(code);
  EXPECT_EQ(hooked.flushes, 3);
  EXPECT_EQ(*on_stack, 17U);
  EXPECT_EQ(hooked.addresses(), std::vector{address(0)});
  for (const Register name : {rax, rcx, rdx, rsp, r15})
    EXPECT_EQ(machine_.after.general[name], machine_.before.general[name]);
}

TEST_F(Sites, AFenceMayTrap) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x0f, 0xae, 0xf0, 0xff, 0xca, 0x75, 0xfc});  // mfence; 1: dec %edx; jne 1b
  buffer_.add_exit();
  buffer_.end_function();
  EXPECT_EQ(patch_it().traps.size(), 1U);
  machine_.before.general[rdx] = 2;
  run(code);
  EXPECT_EQ(hooked.flushes, 1);
  EXPECT_EQ(machine_.after.general[rdx], 0U);
}

TEST_F(Sites, WhatCannotBeDoneIsTold) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x48, 0x87, 0x27});  // xchg %rsp, (%rdi)
  buffer_.add_exit();
  buffer_.end_function();
  const std::uintptr_t unreadable = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0x90, 0x90, 0x06});  // no instruction
  buffer_.end_function();
  const PatchReport report = patch_it();
  ASSERT_EQ(report.untouched.size(), 2U) << text_of(report);
  EXPECT_EQ(report.untouched[0].address, code);
  EXPECT_EQ(report.untouched[1].address, unreadable + 5);
  EXPECT_EQ(report.traps.size(), 1U);  // who knows what the rest of the function jumps at
  EXPECT_LT(report.read_bytes, report.code_bytes);
}

TEST_F(Sites, WhatLiesInNoFunctionIsTold) {
  const std::uintptr_t before = buffer_.here();
  buffer_.add({0x90});
  buffer_.add(lock_inc_rdi);
  buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0x89, 0xc1});
  buffer_.add_exit();
  buffer_.end_function();
  const std::uintptr_t behind = buffer_.here();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0x06});  // no instruction: nothing behind it is looked at
  buffer_.add(lock_inc_rdi);
  CodeMap map = buffer_.finish();
  map.code.front().begin = before;
  const PatchReport report = patch_it(map);
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  ASSERT_EQ(report.untouched.size(), 2U) << text_of(report);
  EXPECT_EQ(report.untouched[0].address, before + 1);
  EXPECT_EQ(report.untouched[1].address, behind);
  EXPECT_EQ(report.unread_bytes, map.code.front().end - behind - 3);
}

TEST_F(Sites, OfCodeWithDataAmongItNothingIsGuessed) {
  const std::uintptr_t begin = buffer_.here();
  buffer_.add(lock_inc_rdi);
  CodeMap map = buffer_.finish();
  map.code.front().begin = begin;
  map.code.front().holds_data = true;
  const PatchReport report = patch_it(map);
  EXPECT_TRUE(report.untouched.empty()) << text_of(report);
  EXPECT_EQ(report.unread_bytes, map.code.front().end - begin);
}

TEST_F(Sites, ExchangesHaveAHookOfTheirOwn) {
  static int exchanges;
  exchanges = 0;
  const auto on_exchange = [](void* address, std::size_t bytes, Perform perform, void* state) {
    EXPECT_EQ(bytes, ++exchanges <= 3 ? 4U : 1U);
    perform(state, address);
  };
  const std::uintptr_t at = buffer_.begin_function();
  buffer_.add({0x87, 0x07});              // xchg %eax, (%rdi)
  buffer_.add({0xf0, 0x87, 0x07});        // the same with a lock prefix
  buffer_.add({0xf2, 0xf0, 0x87, 0x07});  // as what elides locks
  buffer_.add({0x86, 0x07});              // xchg %al, (%rdi)
  buffer_.add(lock_inc_rdi);
  buffer_.add({0xf0, 0x0f, 0xc1, 0x07});  // lock xadd %eax, (%rdi)
  buffer_.add({0xf0, 0x0f, 0xb1, 0x17});  // lock cmpxchg %edx, (%rdi)
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report =
      patch(buffer_.finish(), {.ranges = {{.begin = data_.begin(), .end = data_.end()}},
                               .hooks = {.atomic = on_atomic, .flush = on_flush, .exchange = on_exchange}});
  EXPECT_EQ(report.atomics, 7U) << text_of(report);
  run(at);
  EXPECT_EQ(exchanges, 4);
  EXPECT_EQ(hooked.calls, 3U);
}

TEST_F(Sites, ALookIsDoneByItsHook) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x8b, 0x0f, 0x85, 0xc9, 0x74, 0xfa});  // 1: mov (%rdi), %ecx; test %ecx, %ecx; je 1b
  buffer_.add({0x8b, 0x16});                          // mov (%rsi), %edx
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_looks(data_.end());
  EXPECT_EQ(report.looks, 1U) << text_of(report);
  EXPECT_EQ(report.atomics, 0U) << text_of(report);
  EXPECT_EQ(report.jumps, 1U) << text_of(report);
  run(code);
  EXPECT_EQ(machine_.after.general[rcx], 77U);
  EXPECT_EQ(hooked.addresses(), (std::vector{address(0), address(0)}));
  EXPECT_EQ(hooked.turns[0], hooked.turns[1]);
  // With something else in a register the thread has come to the loop again.
  const std::uint64_t before = hooked.turns[0];
  hooked.calls = 0;
  word(0) = 0;
  ++machine_.before.general[rbx];
  run(code);
  EXPECT_NE(hooked.turns[0], before);
}

TEST_F(Sites, ALookMayTrap) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x39, 0x0f, 0x75, 0xfc});  // 1: cmp %ecx, (%rdi); jne 1b
  buffer_.add({0xff, 0xca, 0x75, 0xfc});  // 2: dec %edx; jne 2b
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_looks(data_.end());
  EXPECT_EQ(report.looks, 1U) << text_of(report);
  ASSERT_EQ(report.traps.size(), 1U) << text_of(report);
  EXPECT_EQ(report.traps[0].address, code);
  machine_.before.general[rcx] = 77;
  machine_.before.general[rdx] = 3;
  run(code);
  EXPECT_EQ(machine_.after.general[rdx], 0U);
  EXPECT_EQ(hooked.addresses(), (std::vector{address(0), address(0)}));
}

/// Of one that cannot be done elsewhere the hook is told before.
TEST_F(Sites, ALookIsDoneBehindItsHook) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x0f, 0xba, 0x27, 0x00, 0x73, 0xfa});  // 1: btl $0, (%rdi); jae 1b
  buffer_.add({0x0f, 0xba, 0x26, 0x00, 0x73, 0xfa});  // 2: btl $0, (%rsi); 3: jae 2b
  buffer_.add({0xff, 0xca, 0x75, 0xfa});              // dec %edx; jne 3b
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_looks(data_.end());
  EXPECT_EQ(report.looks, 2U) << text_of(report);
  EXPECT_EQ(report.traps.size(), 1U) << text_of(report);
  machine_.before.general[rdx] = 1;
  word(1) = 1;
  run(code);
  EXPECT_EQ(machine_.after.general[rdx], 0U);
  EXPECT_EQ(hooked.addresses(), (std::vector{address(0), address(0), address(1)}));
}

/// The hook is for shared memory alone, and the instruction itself then runs as it does elsewhere.
TEST_F(Sites, ALookAtPrivateMemoryIsALoad) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add({0x8b, 0x0f, 0x85, 0xc9, 0x74, 0xfa});  // 1: mov (%rdi), %ecx; test %ecx, %ecx; je 1b
  buffer_.add_exit();
  buffer_.end_function();
  patch_looks(data_.begin() + 8);
  machine_.before.general[rdi] = address(1);
  word(1) = 9;
  run(code);
  EXPECT_EQ(machine_.after.general[rcx], 9U);
  EXPECT_EQ(hooked.calls, 0U);
}

TEST_F(Sites, WrongArgumentsAreRefused) {
  buffer_.begin_function();
  buffer_.add_exit();
  buffer_.end_function();
  const CodeMap map = buffer_.finish();
  SharedMemory shared{.ranges = {}, .hooks = {on_atomic, on_flush, nullptr}};
  shared.ranges.resize(shared_ranges_most + 1);
  EXPECT_THROW(patch(map, shared), Error);
  EXPECT_THROW(patch(map, {.ranges = {}, .hooks = {}}), Error);
  EXPECT_THROW(
      patch(*code_map_at(reinterpret_cast<const void*>(&patch)), {.ranges = {}, .hooks = shared.hooks}),
      Error);
}

// ---- Signals

std::byte* closed_page;

void open_page(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (info->si_addr != closed_page) _exit(99);
  ::mprotect(closed_page, 4096, PROT_READ | PROT_WRITE);
}

TEST_F(Sites, HooksMayFault) {
  const LowMemory page(4096);
  closed_page = page.bytes().data();
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = open_page;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &before);
  const std::uintptr_t jumping = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add_exit();
  buffer_.end_function();
  const std::uintptr_t trapping = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0xff, 0xca, 0x75, 0xfc});
  buffer_.add_exit();
  buffer_.end_function();
  const PatchReport report = patch_it();
  EXPECT_EQ(report.jumps, 1U);
  EXPECT_EQ(report.traps.size(), 1U);
  hooked.first = [](void* /*address*/) { *closed_page = std::byte{1}; };
  machine_.before.general[rdx] = 1;
  for (const std::uintptr_t code : {jumping, trapping}) {
    ::mprotect(closed_page, 4096, PROT_NONE);
    run(code);
  }
  EXPECT_EQ(word(0), 2U);
  sigaction(SIGSEGV, &before, nullptr);
}

int traps_of_others;

TEST_F(Sites, TrapsOfOthersAreTheirs) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { ++traps_of_others; };
  sigaction(SIGTRAP, &action, &before);
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0xff, 0xca, 0x75, 0xfc, 0xcc});  // 1: dec %edx; jne 1b; int3
  buffer_.add_exit();
  buffer_.end_function();
  EXPECT_EQ(patch_it().traps.size(), 1U);
  machine_.before.general[rdx] = 1;
  run(code);
  raise(SIGTRAP);
  EXPECT_EQ(traps_of_others, 2);
  EXPECT_EQ(word(0), 1U);
}

TEST_F(Sites, ATrapOfNobodyEndsTheProcess) {
  const std::uintptr_t code = buffer_.begin_function();
  buffer_.add(lock_inc_rdi);
  buffer_.add({0xff, 0xca, 0x75, 0xfc, 0xcc});
  buffer_.add_exit();
  buffer_.end_function();
  const CodeMap map = buffer_.finish();
  EXPECT_EXIT(
      {
        signal(SIGTRAP, SIG_DFL);
        patch_it(map);
        machine_.before.general[rdx] = 1;
        machine_.run(code);
      },
      testing::KilledBySignal(SIGTRAP), "");
}

}  // namespace
}  // namespace craton::posix
