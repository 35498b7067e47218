#include "vm/reservation.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "segment_rig.hpp"

namespace craton::vm {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30U;

template <typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Reservation, SomeCandidateIsFree) {
  int free = 0;
  for (const std::uintptr_t base : Reservation::candidate_bases()) {
    try {
      const Reservation reservation(base, 8 * gib);
      EXPECT_EQ(reservation.base(), reinterpret_cast<std::byte*>(base));
      ++free;
    } catch (const Error&) {
      continue;
    }
  }
  EXPECT_GE(free, 1);
#if !defined(CRATON_FIBER_SANITIZED)
  EXPECT_EQ(free, static_cast<int>(Reservation::candidate_bases().size()));
#endif
}

TEST(Reservation, SaysWhatIsInItsPlace) {
  const auto first = reserve(gib);
  const auto base = reinterpret_cast<std::uintptr_t>(first->base());
  EXPECT_NE(message_of([base] { const Reservation second(base + gib / 2, gib); }).find("in use: "),
            std::string::npos);
  EXPECT_THROW(Reservation(base, gib), Error);
  EXPECT_THROW(Reservation(base + 1, gib), Error);
  EXPECT_THROW(Reservation(base, 0), Error);
}

#if !defined(CRATON_FIBER_SANITIZED)  // their shadows are over any limit
TEST(ReservationDeathTest, NamesTheLimitOfAddresses) {
  const auto reserve_too_much = [] {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = gib;
    setrlimit(RLIMIT_AS, &limit);
    const std::string message =
        message_of([] { const Reservation too_much(Reservation::candidate_bases()[0], 4 * gib); });
    fprintf(stderr, "%s\n", message.c_str());
    _exit(0);
  };
  EXPECT_EXIT(reserve_too_much(), testing::ExitedWithCode(0),
              "cannot reserve 4294967296 bytes.*ulimit -v.*vm.overcommit_memory");
}
#endif

TEST(Reservation, HandsOutPiecesInTheSameOrderEachTime) {
  std::vector<std::ptrdiff_t> first_run;
  for (int run = 0; run < 2; ++run) {
    const auto reservation = reserve(gib);
    std::vector<std::ptrdiff_t> offsets;
    const auto note = [&](const AddressRange& range) {
      offsets.push_back(range.begin() - reservation->base());
    };
    AddressRange a = reservation->take(5000, 4096);
    const AddressRange b = reservation->take(4096, 1 << 20U);
    const AddressRange c = reservation->take(4096, 4096);
    EXPECT_EQ(a.bytes(), 8192U);
    note(a), note(b), note(c);
    a = {};
    const AddressRange again = reservation->take(4096, 4096);
    note(again);
    EXPECT_EQ(again.begin(), reservation->base());
    if (run == 0) first_run = offsets;
    EXPECT_EQ(offsets, first_run);
    EXPECT_EQ(b.begin() - reservation->base(), 1 << 20U);
  }
}

TEST(Reservation, PiecesJoinAgain) {
  const auto reservation = reserve(16 * page_bytes);
  std::vector<AddressRange> pieces;
  for (int i = 0; i < 16; ++i) pieces.push_back(reservation->take(page_bytes, page_bytes));
  EXPECT_NE(message_of([&] { reservation->take(page_bytes, page_bytes); }).find("no more than 0 are free"),
            std::string::npos);
  for (const std::size_t i : {3, 5, 4, 0, 15, 14, 1, 2, 6, 13, 7, 12, 8, 11, 9, 10}) pieces[i] = {};
  const AddressRange all = reservation->take(16 * page_bytes, page_bytes);
  EXPECT_EQ(all.begin(), reservation->base());
}

TEST(Reservation, TakesAPlaceThatIsAskedFor) {
  const auto reservation = reserve(16 * page_bytes);
  const AddressRange middle = reservation->take_at(4 * page_bytes, 4 * page_bytes);
  EXPECT_EQ(middle.begin(), reservation->base() + 4 * page_bytes);
  EXPECT_THROW(reservation->take_at(7 * page_bytes, page_bytes), Error);
  EXPECT_THROW(reservation->take_at(3 * page_bytes, 2 * page_bytes), Error);
  EXPECT_THROW(reservation->take_at(16 * page_bytes, page_bytes), Error);
  const AddressRange after = reservation->take_at(8 * page_bytes, 8 * page_bytes);
  const AddressRange before = reservation->take_at(0, 4 * page_bytes);
}

TEST(SegmentMemory, RefusesBlocksThatNoPageTableCanProtect) {
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{512}, page_bytes + 1, std::size_t{8} << 20U})
    EXPECT_THROW(check_block_bytes(wrong), Error) << wrong;
  for (const std::size_t right : {page_bytes, 3 * page_bytes, std::size_t{4} << 20U})
    EXPECT_NO_THROW(check_block_bytes(right)) << right;
  const auto reservation = reserve(16 * page_bytes);
  EXPECT_THROW(SegmentMemory("odd", reservation->take(3 * page_bytes, page_bytes), 2 * page_bytes), Error);
}

TEST(SegmentMemory, LeavesItsAddressesReserved) {
  const auto reservation = reserve(16 * page_bytes);
  std::byte* view = nullptr;
  {
    const SegmentMemory memory("short", reservation->take(4 * page_bytes, page_bytes), page_bytes);
    view = memory.application_view();
    EXPECT_EQ(view, reservation->base());
  }
  void* const other = mmap(view, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(other, view);
  munmap(other, page_bytes);
}

}  // namespace
}  // namespace craton::vm
