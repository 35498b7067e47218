/// \file
/// What atomic instructions on lines of a stack have left (space/line_notes.hpp).
#include "space/line_notes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace craton::space::test {

namespace {

class Lines : public testing::Test {
 protected:
  bool note(std::uintptr_t address, std::uint64_t before, std::uint64_t after, std::size_t bytes) {
    return notes_->note(address, before, after, bytes);
  }
  LineNotes& notes() { return *notes_; }

 private:
  std::unique_ptr<LineNotes> notes_ = std::make_unique<LineNotes>();
};

constexpr std::uintptr_t somewhere = 0x7000'0000'0040;
constexpr std::uintptr_t lines_apart = std::uintptr_t{1} << 14U;  // on the same block

TEST_F(Lines, TellAPlainStoreFromWhatWasLeft) {
  EXPECT_FALSE(note(somewhere, 0, 1, 4)) << "nobody knows who wrote it first";
  EXPECT_TRUE(note(somewhere, 1, 1, 4));
  EXPECT_FALSE(note(somewhere, 0, 1, 4)) << "freed by a plain store";
  EXPECT_TRUE(note(somewhere, 1, 5, 4));
  EXPECT_TRUE(note(somewhere, 5, 6, 4));
}

TEST_F(Lines, KnowEachByte) {
  EXPECT_FALSE(note(somewhere, 0, 0x0102, 2));
  EXPECT_TRUE(note(somewhere, 0x02, 0x03, 1));
  EXPECT_TRUE(note(somewhere + 1, 0x01, 0x01, 1));
  EXPECT_FALSE(note(somewhere, 0x0103, 0x0104, 4)) << "two of its bytes no instruction has written";
  EXPECT_TRUE(note(somewhere, 0x0104, 0, 4));
  EXPECT_FALSE(note(somewhere + 56, 0, ~std::uint64_t{0}, 8));
  EXPECT_TRUE(note(somewhere + 56, ~std::uint64_t{0}, 0, 8));
  EXPECT_TRUE(note(somewhere + 63, 0, 0, 1));
}

TEST_F(Lines, OnOneBlockAreToldApart) {
  EXPECT_FALSE(note(somewhere, 0, 1, 8));
  EXPECT_FALSE(note(somewhere + lines_apart, 0, 2, 8));
  EXPECT_TRUE(note(somewhere, 1, 3, 8));
  EXPECT_TRUE(note(somewhere + lines_apart, 2, 2, 8));
}

TEST_F(Lines, ThatAreForgottenCountAsChanged) {
  constexpr std::uintptr_t many = 200;
  for (std::uintptr_t i = 0; i < many; ++i) EXPECT_FALSE(note(somewhere + i * lines_apart, i, i, 8));
  EXPECT_FALSE(note(somewhere, 0, 0, 8));
  EXPECT_TRUE(note(somewhere + (many - 1) * lines_apart, many - 1, 0, 8));
}

TEST_F(Lines, AreOneThreadsAtATime) {
  std::uint64_t turns = 0;
  EXPECT_TRUE(notes().try_lock(turns));
  EXPECT_FALSE(notes().try_lock(turns));
  const std::uint64_t while_locked = turns;
  notes().unlock();
  EXPECT_TRUE(notes().try_lock(turns));
  notes().unlock();
  notes().pass();
  EXPECT_TRUE(notes().try_lock(turns));
  EXPECT_FALSE(notes().try_lock(turns));
  EXPECT_NE(turns, while_locked) << "who waits for a change would miss it";
  notes().unlock();
}

}  // namespace

}  // namespace craton::space::test
