#include "vm/saved_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/unique_fd.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

const std::size_t page_size = kernel::page_bytes();

/// A program's data: pages of a file, then anonymous ones.
class SavedPagesTest : public testing::Test {
 protected:
  static constexpr std::size_t file_pages = 3;
  static constexpr std::size_t zero_pages = 10'000;  // more than is read of the kernel's list at a time

  void SetUp() override {
    const UniqueFd file(::memfd_create("data", MFD_CLOEXEC));
    ASSERT_TRUE(file);
    const std::vector<char> text(page_size, 'f');
    for (std::size_t page : {std::size_t{0}, std::size_t{2}})
      ASSERT_EQ(::pwrite(file.get(), text.data(), page_size, static_cast<off_t>(page * page_size)),
                static_cast<ssize_t>(page_size));
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(file_pages * page_size)), 0);
    void* const all =
        ::mmap(nullptr, all_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(all, MAP_FAILED);
    data_ = static_cast<std::byte*>(all);
    ASSERT_EQ(
        ::mmap(data_, file_pages * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file.get(), 0),
        data_);
    // Large pages would be touched as a whole.
    ::madvise(zeros(), zero_pages * page_size, MADV_NOHUGEPAGE);
  }
  void TearDown() override { ::munmap(data_, all_bytes()); }

  static std::size_t all_bytes() { return (file_pages + zero_pages) * page_size; }
  std::byte* zeros() const { return data_ + file_pages * page_size; }
  std::span<const std::byte> all() const { return {data_, all_bytes()}; }
  SavedPages save() const {
    const std::array<std::span<const std::byte>, 1> zero_filled{std::span(zeros(), zero_pages * page_size)};
    return {all(), zero_filled};
  }
  std::size_t touched_zero_pages() const {
    const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    std::vector<std::uint64_t> entries(zero_pages);
    const auto bytes = static_cast<ssize_t>(zero_pages * sizeof(entries[0]));
    const auto first =
        static_cast<off_t>(reinterpret_cast<std::uintptr_t>(zeros()) / page_size * sizeof(entries[0]));
    EXPECT_EQ(::pread(pagemap.get(), entries.data(), static_cast<std::size_t>(bytes), first), bytes);
    return static_cast<std::size_t>(
        std::count_if(entries.begin(), entries.end(), [](std::uint64_t entry) { return entry >> 62U != 0; }));
  }
  void replace_by_zeros() const {
    ASSERT_EQ(
        ::mmap(data_, all_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        data_);
  }

  std::byte* data_ = nullptr;
};

TEST_F(SavedPagesTest, WhatWasThereIsThereAgain) {
  zeros()[5000 * page_size + 17] = std::byte{1};
  zeros()[zero_pages * page_size - 1] = std::byte{2};
  data_[page_size + 1] = std::byte{3};  // a page of the file that was zero
  const std::vector<std::byte> expected(data_, data_ + all_bytes());
  const SavedPages saved = save();
  EXPECT_EQ(saved.bytes(), 5 * page_size);
  replace_by_zeros();
  saved.restore();
  EXPECT_EQ(std::memcmp(data_, expected.data(), all_bytes()), 0);
}

TEST_F(SavedPagesTest, WhatNobodyHasTouchedIsNotTouched) {
  zeros()[4 * page_size] = std::byte{1};
  const std::size_t before = touched_zero_pages();
  ASSERT_LT(before, zero_pages / 2);
  EXPECT_EQ(save().bytes(), 3 * page_size);
  EXPECT_EQ(touched_zero_pages(), before);
}

TEST_F(SavedPagesTest, WithoutZerosAllIsRead) {
  zeros()[7 * page_size] = std::byte{1};
  const SavedPages saved(all(), {});
  EXPECT_EQ(saved.bytes(), 3 * page_size);
}

TEST_F(SavedPagesTest, ZerosOutsideOfTheMemoryAreNotLookedAt) {
  zeros()[0] = std::byte{1};
  const std::array<std::span<const std::byte>, 2> zero_filled{all(), std::span(zeros(), page_size)};
  const SavedPages saved({zeros(), page_size}, zero_filled);
  EXPECT_EQ(saved.bytes(), page_size);
  EXPECT_EQ(SavedPages({}, zero_filled).bytes(), 0U);
}

}  // namespace
}  // namespace craton::vm
