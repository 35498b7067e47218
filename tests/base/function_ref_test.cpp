#include "base/function_ref.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace craton {
namespace {

static_assert(sizeof(FunctionRef<int(int)>) == 2 * sizeof(void*), "two words, as promised");
static_assert(std::is_trivially_copyable_v<FunctionRef<void()>>);
static_assert(!std::is_constructible_v<FunctionRef<int()>, std::string (*)()>, "the result must convert");
static_assert(!std::is_constructible_v<FunctionRef<int()>, int (*)(int)>, "the arguments must fit");

int call_with_five(FunctionRef<int(int)> function) {
  return function(5);
}

TEST(FunctionRef, RefersToStateAndDoesNotCopyIt) {
  int calls = 0;
  auto count = [&calls, own = 0](int by) mutable {
    own += by;
    ++calls;
    return own;
  };
  EXPECT_EQ(call_with_five(count), 5);
  EXPECT_EQ(call_with_five(count), 10) << "a copy of the callable would have started anew";
  EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, TakesALambdaInPlace) {
  const std::array<int, 4> large = {1, 2, 3, 4};
  EXPECT_EQ(call_with_five([large](int x) { return large[0] + large[3] + x; }), 10);
}

TEST(FunctionRef, TakesConstCallables) {
  const auto twice = [](int x) { return 2 * x; };
  EXPECT_EQ(call_with_five(twice), 10);
}

TEST(FunctionRef, CopiesReferToTheSame) {
  int value = 0;
  auto set = [&value](int x) { return value = x; };
  const FunctionRef<int(int)> first = set;
  const FunctionRef<int(int)> second =
      first;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  second(9);
  EXPECT_EQ(value, 9);
}

TEST(FunctionRef, PassesReferencesAndWhatOnlyMoves) {
  auto take = [](std::unique_ptr<int> owned, std::string& out) {
    out = std::to_string(*owned);
    return true;
  };
  std::string out;
  const FunctionRef<bool(std::unique_ptr<int>, std::string&)> function = take;
  EXPECT_TRUE(function(std::make_unique<int>(42), out));
  EXPECT_EQ(out, "42");
}

TEST(FunctionRef, LetsExceptionsThrough) {
  auto fail = [] { throw 7; };
  const FunctionRef<void()> function = fail;
  EXPECT_THROW(function(), int);
}

}  // namespace
}  // namespace craton
