/// \file
/// What the unwind tables of a real object say of its functions.
#include "posix/atomics/code_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace craton::posix {
namespace {

volatile int sink;

#if defined(__clang__)
#define CRATON_TEST_WHOLE
#else
#define CRATON_TEST_WHOLE __attribute__((optimize("no-reorder-blocks-and-partition")))
#endif
/// Has a landing pad, and keeps it: GCC would put it among the cold code.
[[gnu::noinline]] CRATON_TEST_WHOLE void catches(int value) {
  try {
    if (value > 0) throw std::runtime_error("thrown");
    sink = value;
  } catch (const std::exception&) {
    sink = 1;
  }
}
[[gnu::noinline]] void plain(int value) {
  sink = value * 3;
}

std::ptrdiff_t landing_pads_in(const CodeMap& map, const AddressRange& function) {
  return std::count_if(map.landing_pads.begin(), map.landing_pads.end(),
                       [&](std::uintptr_t pad) { return function.holds(pad) && pad != function.begin; });
}

TEST(CodeMaps, HaveFunctionsAndLandingPads) {
  catches(1);
  plain(1);
  const auto address = [](void (*function)(int)) { return reinterpret_cast<std::uintptr_t>(function); };
  const std::optional<CodeMap> map = code_map_at(reinterpret_cast<const void*>(&catches));
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->problem, "");
  for (const std::uintptr_t function : {address(catches), address(plain)}) {
    const AddressRange* const found = map->function_at(function);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->begin, function);
    EXPECT_EQ(map->function_at(found->end - 1), found);
    EXPECT_EQ(landing_pads_in(*map, *found) != 0, function == address(catches));
  }
  EXPECT_TRUE(std::is_sorted(map->functions.begin(), map->functions.end(),
                             [](const auto& left, const auto& right) { return left.end < right.begin + 1; }));
}

TEST(CodeMaps, AreThereForLoadedObjectsOnly) {
  const int local = 0;
  EXPECT_FALSE(code_map_at(&local).has_value());
  const std::optional<CodeMap> library = code_map_at(reinterpret_cast<const void*>(&std::rand));
  ASSERT_TRUE(library.has_value());
  EXPECT_GT(library->functions.size(), 1000U);
  EXPECT_NE(library->function_at(reinterpret_cast<std::uintptr_t>(&std::rand)), nullptr);
}

}  // namespace
}  // namespace craton::posix
