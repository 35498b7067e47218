#include "vm/skipped_addresses.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "base/unique_fd.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

constexpr std::size_t room_bytes = std::size_t{1} << 36U;

struct Span {
  std::uintptr_t begin;
  std::uintptr_t end;
};

std::uintptr_t map(std::size_t bytes) {
  void* const got = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(got);
}

/// What a child of this process is given that skips `rooms` rooms before it maps. It is this process's twin:
/// without them all are given the same.
std::vector<Span> mapped_by_a_child(std::size_t rooms) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    skip_addresses(rooms * room_bytes);
    for (int i = 0; i < 60; ++i) {
      const std::size_t pages = i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : 700;
      const std::uintptr_t begin = map(pages * kernel::page_bytes());
      const Span span{begin, begin + pages * kernel::page_bytes()};
      if (begin == 0 || ::write(out.get(), &span, sizeof span) != sizeof span) ::_exit(1);
    }
    ::_exit(0);
  }
  out.reset();
  std::vector<Span> spans;
  for (Span span{}; ::read(in.get(), &span, sizeof span) == sizeof span;) spans.push_back(span);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(spans.size(), 60U);
  return spans;
}

std::size_t overlaps(const std::vector<Span>& some, const std::vector<Span>& others) {
  std::size_t count = 0;
  for (const Span& one : some)
    for (const Span& other : others) count += one.begin < other.end && other.begin < one.end;
  return count;
}

TEST(SkippedAddresses, ProcessesAlikeShareNone) {
  // Gaps between what is mapped, which the kernel prefers where they are long enough.
  const std::size_t page = kernel::page_bytes();
  const std::uintptr_t around = map(40 * page);
  ASSERT_NE(around, 0U);
  for (const std::size_t at : {2U, 9U})
    ::munmap(reinterpret_cast<void*>(around + at * page), (at - 1) * page);

  const std::array<std::vector<Span>, 4> given = {mapped_by_a_child(0), mapped_by_a_child(1),
                                                  mapped_by_a_child(2), mapped_by_a_child(3)};
  EXPECT_EQ(overlaps(given[0], mapped_by_a_child(0)), 60U);  // what it is for
  for (std::size_t one = 0; one < given.size(); ++one)
    for (std::size_t other = 0; other < one; ++other)
      EXPECT_EQ(overlaps(given[one], given[other]), 0U) << one << ", " << other;
  ::munmap(reinterpret_cast<void*>(around), 40 * page);
}

TEST(SkippedAddresses, AreTakenOnce) {
  const std::size_t page = kernel::page_bytes();
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uintptr_t before = map(page);
    skip_addresses(room_bytes);
    const std::uintptr_t next = map(3 * room_bytes);  // right beyond, on either side
    const std::uintptr_t skipped = next < before ? next + 3 * room_bytes : next - room_bytes;
    const std::uintptr_t end = skipped + room_bytes;
    const std::uintptr_t half = skipped + room_bytes / 2;
    if (!is_skipped(half) || is_skipped(next) || is_skipped(before)) ::_exit(6);
    if (take_skipped(next, next + 3 * room_bytes, page) != 0) ::_exit(1);
    if (take_skipped(skipped, end, 2 * room_bytes) != 0) ::_exit(2);
    // The highest first; below a limit, and what is above that is gone.
    if (take_skipped(skipped - page, end + page, page) != end - page) ::_exit(3);
    if (take_skipped(skipped, half, 4 * page) != half - 4 * page) ::_exit(4);
    if (take_skipped(half - 4 * page, end, page) != 0 || is_skipped(half)) ::_exit(7);
    if (take_skipped(skipped, end, page) != half - 5 * page) ::_exit(8);
    end_brk();
    if (::sbrk(static_cast<std::intptr_t>(2 * page)) != reinterpret_cast<void*>(-1)) ::_exit(5);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SkippedAddresses, OfNoRoomAreNone) {
  skip_addresses(0);
  EXPECT_EQ(take_skipped(0, ~std::uintptr_t{0}, kernel::page_bytes()), 0U);
}

}  // namespace
}  // namespace craton::vm
