#include "base/assert.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/ring_log.hpp"

namespace {

enum class Colour : std::uint8_t { red = 3, green = 4 };

std::string temporary_text(const char* text) {
  return text;
}
std::vector<int> temporary_vector(std::size_t size) {
  return std::vector<int>(size);
}

class AssertDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST(Assert, PassesWhatHolds) {
  const int four = 4;
  const unsigned four_unsigned = 4;
  int evaluations = 0;
  CRATON_ASSERT(four == 4);
  CRATON_ASSERT(four != 5);
  CRATON_ASSERT(four < 5);
  CRATON_ASSERT(four <= 4);
  CRATON_ASSERT(four > 3);
  CRATON_ASSERT(four >= 4);
  CRATON_ASSERT(four_unsigned == 4);
  CRATON_ASSERT(++evaluations == 1);
  CRATON_ASSERT(&four != nullptr);
  CRATON_ASSERT(temporary_text("a") == "a");
  EXPECT_EQ(evaluations, 1) << "the expression must be evaluated once";
}

TEST(Assert, ComparesIntegersOfMixedSignsByValue) {
  // -1 converted to unsigned is the largest number: a comparison by the language's rules would fail here.
  CRATON_ASSERT(-1 < 1U);
  CRATON_ASSERT(1U > -1);
  CRATON_ASSERT(-1 != std::numeric_limits<unsigned>::max());
}

TEST_F(AssertDeathTest, PrintsFileLineExpressionAndBothOperands) {
  const int left = 17;
  const int right = 23;
  EXPECT_DEATH(CRATON_ASSERT(left == right),
               "assert_test\\.cpp:[0-9]+: assertion failed: left == right \\[17, 23\\]");
}

TEST_F(AssertDeathTest, PrintsOperandsOfEveryComparison) {
  const std::int64_t low = std::numeric_limits<std::int64_t>::min();
  const std::uint64_t high = std::numeric_limits<std::uint64_t>::max();
  EXPECT_DEATH(CRATON_ASSERT(low > high), "low > high \\[-9223372036854775808, 18446744073709551615\\]");
  EXPECT_DEATH(CRATON_ASSERT(1 >= 2), "\\[1, 2\\]");
  EXPECT_DEATH(CRATON_ASSERT(2 < 1), "\\[2, 1\\]");
  EXPECT_DEATH(CRATON_ASSERT(2 <= 1), "\\[2, 1\\]");
  EXPECT_DEATH(CRATON_ASSERT(2 != 2), "\\[2, 2\\]");
}

TEST_F(AssertDeathTest, PrintsOperandsOfEveryType) {
  EXPECT_DEATH(CRATON_ASSERT(Colour::red == Colour::green), "\\[3, 4\\]");
  EXPECT_DEATH(CRATON_ASSERT(true == false), "\\[true, false\\]");
  EXPECT_DEATH(CRATON_ASSERT(1.5 == 2.25), "\\[1\\.5, 2\\.25\\]");
  const int* nowhere = nullptr;
  EXPECT_DEATH(CRATON_ASSERT(nowhere != nullptr), "\\[0x0, nullptr\\]");
  const auto* somewhere = reinterpret_cast<const int*>(std::uintptr_t{0xabc0});
  EXPECT_DEATH(CRATON_ASSERT(somewhere == nowhere), "\\[0xabc0, 0x0\\]");
}

TEST_F(AssertDeathTest, PrintsTemporariesBeforeTheyDie) {
  // Long enough to lie on the heap: a dangling operand would print rubbish, and the address sanitizer would
  // tell.
  EXPECT_DEATH(
      CRATON_ASSERT(temporary_text("a text too long for the string itself") == temporary_text("another")),
      "\\[a text too long for the string itself, another\\]");
  EXPECT_DEATH(CRATON_ASSERT(temporary_vector(3).size() == temporary_vector(5).size()), "\\[3, 5\\]");
}

TEST_F(AssertDeathTest, PrintsTheOneOperandOfATruthValue) {
  const bool ready = false;
  EXPECT_DEATH(CRATON_ASSERT(ready), "assertion failed: ready \\[false\\]");
}

TEST_F(AssertDeathTest, CutsLongOperands) {
  const std::string text(500, 'x');
  EXPECT_DEATH(CRATON_ASSERT(text == "y"), "\\[x{63}, y\\]");
}

TEST_F(AssertDeathTest, EndsWithAbort) {
  EXPECT_EXIT(CRATON_ASSERT(1 == 2), testing::KilledBySignal(SIGABRT), "");
}

/// Runs when the assertion aborts: what it wrote must be in the log by then.
void dump_log_on_abort(int) {
  craton::process_log().dump(STDERR_FILENO);
  ::_exit(77);
}

TEST_F(AssertDeathTest, WritesToTheProcessLog) {
  EXPECT_EXIT(
      {
        ::signal(SIGABRT, dump_log_on_abort);
        CRATON_ASSERT(5 == 6);
      },
      testing::ExitedWithCode(77),
      "\\[[0-9]+\\.[0-9]{9}\\] .*assert_test\\.cpp:[0-9]+: assertion failed: 5 == 6 \\[5, 6\\]");
}

void fail_in_handler(int) {
  CRATON_ASSERT(8 == 9);
}

TEST_F(AssertDeathTest, MayFailInASignalHandlerOnASmallStack) {
  EXPECT_EXIT(
      {
        constexpr std::size_t stack_bytes = 32 * 1024;
        stack_t stack{};
        stack.ss_sp =
            ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        stack.ss_size = stack_bytes;
        ::sigaltstack(&stack, nullptr);
        struct sigaction action {};
        action.sa_handler = fail_in_handler;
        action.sa_flags = SA_ONSTACK;
        ::sigaction(SIGUSR1, &action, nullptr);
        ::raise(SIGUSR1);
      },
      testing::KilledBySignal(SIGABRT), "8 == 9 \\[8, 9\\]");
}

TEST_F(AssertDeathTest, SlowAssertionsAreOnInDebugBuildsOnly) {
#if defined(CRATON_SLOW_ASSERTIONS)
  EXPECT_DEATH(CRATON_ASSERT_SLOW(1 == 2), "\\[1, 2\\]");
#else
  int evaluations = 0;
  CRATON_ASSERT_SLOW(++evaluations == 7);
  EXPECT_EQ(evaluations, 0) << "a slow assertion must cost nothing in a release build";
#endif
}

}  // namespace
