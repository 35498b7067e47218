#include "fabric/tcp/send_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace craton::fabric::tcp {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Takes up to `limit` bytes from the front, as the kernel would.
std::string take(SendQueue& queue, std::size_t limit) {
  std::array<iovec, SendQueue::max_pieces> pieces{};
  const std::size_t count = queue.front(pieces);
  std::string taken;
  for (std::size_t i = 0; i < count && taken.size() < limit; ++i) {
    taken.append(static_cast<const char*>(pieces[i].iov_base),
                 std::min(pieces[i].iov_len, limit - taken.size()));
  }
  queue.consume(taken.size());
  return taken;
}

TEST(SendQueue, KeepsTheOrderOfCopiedAndBorrowedBytes) {
  std::mt19937 random(3);
  SendQueue queue;
  std::deque<std::string> borrowed;  // must stay where it is
  std::string expected;
  std::string sent;
  for (int step = 0; step < 20'000; ++step) {
    std::string piece(random() % (step % 100 == 0 ? 200'000 : 300), '\0');
    for (char& each : piece) each = static_cast<char>(random());
    expected += piece;
    if (random() % 3 == 0) {
      borrowed.push_back(std::move(piece));
      queue.borrow(bytes_of(borrowed.back()));
    } else {
      queue.copy(bytes_of(piece));
    }
    if (random() % 2 == 0) sent += take(queue, random() % 2000);
    ASSERT_EQ(queue.queued_bytes(), expected.size() - sent.size());
  }
  while (!queue.empty()) sent += take(queue, 1 << 20);
  EXPECT_TRUE(sent == expected);
}

TEST(SendQueue, ClearForgetsEverything) {
  SendQueue queue;
  queue.copy(bytes_of("abc"));
  queue.clear();
  EXPECT_TRUE(queue.empty());
  std::array<iovec, SendQueue::max_pieces> pieces{};
  EXPECT_EQ(queue.front(pieces), 0U);
}

}  // namespace
}  // namespace craton::fabric::tcp
