#include "fiber/context.hpp"

#include <gtest/gtest.h>

#include <cfenv>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <vector>

#include "fiber/coroutine.hpp"
#include "fiber/stack.hpp"

namespace craton::fiber {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024;

/// A coroutine that runs a function and gives the thread back whenever it is told to.
class Generator {
 public:
  explicit Generator(void (*body)(Generator&))
      : body_(body), stack_(stack_bytes), coroutine_(stack_, &main, this) {}

  void resume() { coroutine_.resume(); }
  void give_back() { coroutine_.suspend(); }
  bool finished = false;
  std::uint64_t value = 0;

 private:
  static void main(void* self) {
    auto& own = *static_cast<Generator*>(self);
    own.body_(own);
    own.finished = true;
    own.coroutine_.finish();
  }
  void (*body_)(Generator&);
  Stack stack_;
  Coroutine coroutine_;
};

TEST(Context, SwitchesThereAndBack) {
  Generator counter([](Generator& self) {
    for (std::uint64_t i = 1; i <= 1000; ++i) {
      self.value = i;
      self.give_back();
    }
  });
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    counter.resume();
    ASSERT_EQ(counter.value, i);
  }
  counter.resume();
  EXPECT_TRUE(counter.finished);
}

TEST(Context, ManyStacksKeepTheirOwnLocals) {
  std::vector<std::unique_ptr<Generator>> all;
  for (std::uint64_t i = 0; i < 200; ++i) {
    all.push_back(std::make_unique<Generator>([](Generator& self) {
      volatile std::uint64_t locals[64];
      for (std::uint64_t j = 0; j < 64; ++j) locals[j] = self.value * 64 + j;
      self.give_back();
      std::uint64_t right = 0;
      for (std::uint64_t j = 0; j < 64; ++j) right += locals[j] == self.value * 64 + j ? 1U : 0U;
      self.value = right;
    }));
    all.back()->value = i;
  }
  for (const auto& one : all) one->resume();
  for (const auto& one : all) one->resume();
  for (const auto& one : all) EXPECT_EQ(one->value, 64U);
}

TEST(Context, StackIsAlignedAtTheStart) {
  Generator aligned([](Generator& self) {
    alignas(16) volatile std::byte local{};
    // A vector instruction on the stack faults if the ABI's alignment is not kept; ask for the address as
    // well.
    self.value = reinterpret_cast<std::uintptr_t>(&local) % 16;
    const long double printed = static_cast<long double>(self.value) + 0.5L;
    EXPECT_EQ(printed, 0.5L);
  });
  aligned.resume();
  EXPECT_EQ(aligned.value, 0U);
}

TEST(Context, ExceptionsStayInTheirFiber) {
  Generator thrower([](Generator& self) {
    try {
      throw std::runtime_error("inside");
    } catch (const std::runtime_error&) {
      self.give_back();  // in the handler: its exception is the current one here and nowhere else
      try {
        std::rethrow_exception(std::current_exception());
      } catch (const std::runtime_error& error) {
        self.value = std::string_view(error.what()) == "inside" ? 1 : 2;
      }
    }
  });
  thrower.resume();
  EXPECT_EQ(std::current_exception(), nullptr);
  try {
    throw std::logic_error("outside");
  } catch (const std::logic_error&) {
    thrower.resume();
    EXPECT_STREQ("outside", [] {
      try {
        throw;
      } catch (const std::exception& error) {
        return error.what();
      }
    }());
  }
  EXPECT_TRUE(thrower.finished);
  EXPECT_EQ(thrower.value, 1U);
}

TEST(Context, UncaughtExceptionsAreCountedByFiber) {
  struct SwitchWhileUnwinding {
    Generator& self;
    ~SwitchWhileUnwinding() { self.give_back(); }
  };
  Generator thrower([](Generator& self) {
    try {
      const SwitchWhileUnwinding guard{self};
      throw 1;
    } catch (int) {
      self.value = static_cast<std::uint64_t>(std::uncaught_exceptions()) + 1;
    }
  });
  thrower.resume();
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  thrower.resume();
  EXPECT_EQ(thrower.value, 1U);
}

TEST(Context, RoundingModeBelongsToTheFiber) {
  Generator rounder([](Generator& self) {
    std::fesetround(FE_UPWARD);
    self.give_back();
    self.value = std::fegetround() == FE_UPWARD ? 1 : 0;
  });
  rounder.resume();
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  rounder.resume();
  EXPECT_EQ(rounder.value, 1U);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(StackDeathTest, AnOverrunHitsTheGuardPage) {
  EXPECT_EXIT(
      {
        const Stack stack(stack_bytes);
        *static_cast<volatile std::byte*>(stack.bottom() - 1) = std::byte{1};
      },
      testing::KilledBySignal(SIGSEGV), "");
}
#endif

}  // namespace
}  // namespace craton::fiber
