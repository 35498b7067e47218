/// \file
/// Programs that do nothing but atomics, compiled as others compile them, loaded and patched here: all
/// threads on the same words, and every sum must come out. Operations on shared memory are done by a hook in
/// a way that is not atomic with instructions: one that was not sent there loses something.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "code_buffer.hpp"
#include "posix/atomics/libatomic.hpp"
#include "posix/atomics/patch.hpp"
#include "torture/words.h"

namespace craton::posix {
namespace {

constexpr int threads = 4;
constexpr int rounds = 4000;

std::mutex operations;
std::atomic<std::uint64_t> atomics;
std::atomic<std::uint64_t> atomics16;  // by libatomic's functions
std::atomic<std::uint64_t> flushes;
std::atomic<std::uint64_t> locked;

/// On a copy, with time between taking it and putting it back.
void do_on_copy(void* address, std::size_t bytes, Perform perform, void* state) {
  const std::scoped_lock lock(operations);
  atomics.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 16) atomics16.fetch_add(1, std::memory_order_relaxed);
  alignas(16) std::array<std::byte, 16> copy;
  std::memcpy(copy.data(), address, bytes);
  perform(state, copy.data());
  for (int i = 0; i < 20; ++i) __builtin_ia32_pause();
  std::memcpy(address, copy.data(), bytes);
}
void count_flush() {
  flushes.fetch_add(1, std::memory_order_relaxed);
}
void do_locked(void* /*address*/, FunctionRef<void()> body) {
  const std::scoped_lock lock(operations);
  locked.fetch_add(1, std::memory_order_relaxed);
  body();
}

/// On pages of its own.
struct alignas(4096) Words {
  torture_words words;
};
Words shared_words;
Words private_words;

/// The objects are patched once, whatever the number of tests.
const SharedMemory& shared_memory() {
  static const SharedMemory made = [] {
    const auto begin = reinterpret_cast<std::uintptr_t>(&shared_words);
    SharedMemory shared{.ranges = {{.begin = begin, .end = begin + sizeof shared_words}},
                        .hooks = {do_on_copy, count_flush, do_locked}};
    send_libatomic_to(shared);
    return shared;
  }();
  return made;
}

struct Object {
  void* handle = nullptr;
  PatchReport report;
};

const Object& object(const std::string& level) {
  static std::map<std::string, Object> objects;
  auto [found, is_new] = objects.try_emplace(level);
  if (!is_new) return found->second;
  const std::string path = fmt::format("{}/libtorture{}.so", CRATON_TORTURE_FOLDER, level);
  Object& made = found->second;
  made.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (made.handle == nullptr) throw std::runtime_error(::dlerror());
  const std::optional<CodeMap> map = code_map_at(::dlsym(made.handle, "torture_cpp"));
  made.report = patch(map.value(), shared_memory());
  return made;
}

class Torture : public testing::TestWithParam<const char*> {
 protected:
  void run(const char* name, Words& all, unsigned char first_product = 0) {
    auto* const program = reinterpret_cast<torture_program*>(::dlsym(object(GetParam()).handle, name));
    ASSERT_NE(program, nullptr);
    all.words = {};
    all.words.c1[2] = first_product;
    all.words.c2[2] = first_product;
    all.words.c4[2] = first_product;
    all.words.c8[2] = first_product;
    atomics = atomics16 = flushes = locked = 0;
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([=, &all] { program(&all.words, i, threads, rounds); });
    for (std::thread& thread : running) thread.join();
  }
  /// On shared memory all operations reach the hooks, on private memory none.
  void expect_counts(const Words& all) { EXPECT_EQ(atomics != 0, &all == &shared_words); }
  template <typename Word>
  void expect_sums(const Word* word, std::uint64_t each) {
    EXPECT_TRUE(word[0] == static_cast<Word>(each * threads * rounds)) << sizeof(Word);
    EXPECT_TRUE(word[1] == static_cast<Word>((1U << threads) - 1)) << sizeof(Word);
  }
  template <typename Word>
  void expect_exchanges(const Word* word, std::uint64_t each) {
    EXPECT_TRUE(word[2] == static_cast<Word>(each * threads * rounds)) << sizeof(Word);
    EXPECT_TRUE(word[3] == static_cast<Word>(threads * rounds)) << sizeof(Word);
  }
};

TEST_P(Torture, C11) {
  for (Words* const all : {&shared_words, &private_words}) {
    run("torture_c11", *all);
    const torture_words& words = all->words;
    expect_sums(words.c1, 1);
    expect_sums(words.c2, 1);
    expect_sums(words.c4, 1);
    expect_sums(words.c8, 1);
    expect_sums(words.c16, 1);
    expect_exchanges(words.c1, 1);
    expect_exchanges(words.c2, 1);
    expect_exchanges(words.c4, 1);
    expect_exchanges(words.c8, 1);
    expect_exchanges(words.c16, 1);
    EXPECT_EQ(words.f, threads * rounds);
    EXPECT_EQ(words.d, threads * rounds);
    EXPECT_EQ(words.ld, threads * rounds);
    EXPECT_EQ(words.odd.bytes[0] + 256 * words.odd.bytes[1] + 65536 * words.odd.bytes[2], threads * rounds);
    EXPECT_EQ(locked != 0, all == &shared_words);
    expect_counts(*all);
    EXPECT_EQ(atomics16 != 0, all == &shared_words);
    EXPECT_GE(flushes, static_cast<std::uint64_t>(threads * rounds));
  }
}

TEST_P(Torture, Cpp) {
  for (Words* const all : {&shared_words, &private_words}) {
    run("torture_cpp", *all);
    const torture_words& words = all->words;
    expect_sums(words.c1, 2);
    expect_sums(words.c2, 2);
    expect_sums(words.c4, 2);
    expect_sums(words.c8, 2);
    expect_sums(words.c16, 1);
    expect_exchanges(words.c1, 2);
    expect_exchanges(words.c2, 2);
    expect_exchanges(words.c4, 2);
    expect_exchanges(words.c8, 2);
    expect_exchanges(words.c16, 1);
    EXPECT_EQ(words.f, threads * rounds);
    EXPECT_EQ(words.d, threads * rounds);
    EXPECT_EQ(words.ld, threads * rounds);
    expect_counts(*all);
    EXPECT_GE(flushes, static_cast<std::uint64_t>(threads * rounds));
  }
}

TEST_P(Torture, OpenMp) {
  for (Words* const all : {&shared_words, &private_words}) {
    run("torture_openmp", *all, 1);
    const torture_words& words = all->words;
    const auto expect = [&](const auto* word) {
      using Word = std::remove_cvref_t<decltype(word[0])>;
      expect_sums(word, 1);
      Word product = 1;
      for (int i = 0; i < threads * rounds; ++i) product = static_cast<Word>(product * 3);
      EXPECT_EQ(word[2], product) << sizeof(Word);
      EXPECT_EQ(word[3], Word{127}) << sizeof(Word);
    };
    expect(words.c1);
    expect(words.c2);
    expect(words.c4);
    expect(words.c8);
    EXPECT_EQ(words.f, threads * rounds);
    EXPECT_EQ(words.d, threads * rounds);
    EXPECT_EQ(words.ld, threads * rounds);
    expect_counts(*all);
    EXPECT_GE(flushes, static_cast<std::uint64_t>(threads * rounds));
  }
}

TEST_P(Torture, Locks) {
  for (Words* const all : {&shared_words, &private_words}) {
    run("torture_locks", *all);
    EXPECT_EQ(all->words.c4[0], 0U);
    EXPECT_EQ(all->words.c4[1], static_cast<unsigned>(threads * rounds));
    EXPECT_EQ(all->words.c8[0], static_cast<unsigned long>(threads * rounds));
    expect_counts(*all);
  }
}

TEST_P(Torture, IsFoundCompletely) {
  const PatchReport& report = object(GetParam()).report;
  EXPECT_EQ(report.problem, "");
  EXPECT_TRUE(report.untouched.empty()) << text_of(report);
  EXPECT_GT(report.atomics, 20U);
  EXPECT_GT(report.flushes, 2U);
  // Compilers' code leaves hardly a site that must trap.
  EXPECT_GE(report.jumps * 10, (report.atomics + report.flushes) * 9) << text_of(report);
  RecordProperty("report", text_of(report));
}

INSTANTIATE_TEST_SUITE_P(CompiledBy, Torture, testing::Values("O0", "O2", "O3", "Os"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace craton::posix
