#include "base/append_only.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace craton {

namespace {

TEST(AppendOnly, KeepsElementsWhereTheyAreAndInOrder) {
  AppendOnly<int, 4> list;
  EXPECT_TRUE(list.empty());
  list.append(std::make_unique<int>(1));
  const int* const first = &list[0];
  for (int i = 2; i <= 4; ++i) list.append(std::make_unique<int>(i));
  EXPECT_EQ(first, &list[0]);
  EXPECT_EQ(list.back(), 4);
  int expected = 0;
  for (const auto& element : list) EXPECT_EQ(*element, ++expected);
  EXPECT_EQ(expected, 4);
  list.clear();
  EXPECT_EQ(list.size(), 0U);
}

TEST(AppendOnly, ShowsOnlyWholeElementsToOtherThreads) {
  constexpr int count = 2000;
  AppendOnly<int, count> list;
  std::thread reader([&list] {
    for (std::size_t seen = 0; seen < count;) {
      for (; seen < list.size(); ++seen) ASSERT_EQ(list[seen], static_cast<int>(seen));
    }
  });
  for (int i = 0; i < count; ++i) list.append(std::make_unique<int>(i));
  reader.join();
}

}  // namespace

}  // namespace craton
