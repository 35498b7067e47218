#include "coherence/signature.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace craton::coherence {

namespace {

WriteNotice notice(std::uint64_t block, Timestamp write_ts, fabric::Rank source = 0) {
  return {.source = source, .segment = 0, .block = block, .write_ts = write_ts, .read_ts = write_ts + 10};
}

std::vector<std::uint64_t> blocks_of(const Signature& signature) {
  std::vector<std::uint64_t> blocks;
  for (const WriteNotice& each : signature.notices()) blocks.push_back(each.block);
  return blocks;
}

TEST(Signature, KeepsTheNewestNoticesInOrder) {
  Signature signature(3);
  signature.add(std::vector{notice(1, 50), notice(2, 20), notice(3, 40), notice(4, 30), notice(5, 10)});
  EXPECT_EQ(blocks_of(signature), (std::vector<std::uint64_t>{4, 3, 1}));
  EXPECT_EQ(signature.min_write_ts(), 20U);  // the newest of those that were discarded
}

TEST(Signature, WithoutRoomIsItsMinimumAlone) {
  Signature signature(0);
  signature.add(std::vector{notice(1, 7), notice(2, 9)});
  EXPECT_TRUE(signature.notices().empty());
  EXPECT_EQ(signature.min_write_ts(), 9U);
}

TEST(Signature, HasOneNoticeOfABlockTheNewest) {
  Signature signature(4);
  signature.add(std::vector{notice(1, 7, 3)});
  signature.add(std::vector{notice(1, 9, 2), notice(1, 8, 1)});
  ASSERT_EQ(signature.notices().size(), 1U);
  EXPECT_EQ(signature.notices()[0].write_ts, 9U);
  EXPECT_EQ(signature.notices()[0].source, 2U);
}

TEST(Signature, RatherKnowsWhereTheBytesAre) {
  Signature signature(4);
  signature.add(std::vector{notice(1, 7, WriteNotice::ask_home), notice(1, 7, 2)});
  ASSERT_EQ(signature.notices().size(), 1U);
  EXPECT_EQ(signature.notices()[0].source, 2U);
}

TEST(Signature, MergingIsAddingAndTheGreaterMinimum) {
  Signature one(2);
  one.add(std::vector{notice(1, 10), notice(2, 20), notice(3, 30)});
  Signature other(2);
  other.add(std::vector{notice(4, 25)});
  other.raise_min(5);
  one.merge(other);
  EXPECT_EQ(blocks_of(one), (std::vector<std::uint64_t>{4, 3}));
  EXPECT_EQ(one.min_write_ts(), 20U);
}

TEST(Signature, ComesOutAsItWentIn) {
  Signature signature(5);
  signature.add(std::vector{notice(1, 10), notice(2, 20, 7)});
  signature.raise_min(4);
  std::vector<std::byte> bytes(signature.encoded_bytes());
  signature.encode(bytes.data());
  Signature other(5);
  ASSERT_TRUE(other.merge_encoded(bytes));
  EXPECT_EQ(blocks_of(other), blocks_of(signature));
  EXPECT_EQ(other.min_write_ts(), 4U);
  EXPECT_EQ(other.notices()[1].source, 7U);
}

TEST(Signature, ComesOutOfSeveralInARow) {
  Signature signature(5);
  signature.add(std::vector{notice(1, 10), notice(2, 20)});
  signature.raise_min(4);
  const std::vector news{notice(3, 30), notice(1, 15, 7)};
  const std::size_t first_bytes = signature.encoded_bytes();
  std::vector<std::byte> bytes(first_bytes + Signature::head_bytes + 2 * sizeof(WriteNotice));
  signature.encode(bytes.data());
  Signature::encode(6, 3, news, bytes.data() + first_bytes);
  Signature other(5);
  ASSERT_TRUE(other.merge_encoded(bytes));
  EXPECT_EQ(blocks_of(other), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(other.notices()[0].source, 7U);
  EXPECT_EQ(other.min_write_ts(), 6U);
  EXPECT_EQ(other.barriers(), 3U);
}

TEST(Signature, RefusesMalformedBytes) {
  Signature signature(5);
  signature.add(std::vector{notice(1, 10)});
  std::vector<std::byte> bytes(signature.encoded_bytes());
  signature.encode(bytes.data());
  Signature other(5);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(other.merge_encoded({bytes.data(), size})) << size << " bytes";
  bytes[7] = std::byte{0xff};  // a minimum beyond all time
  EXPECT_FALSE(other.merge_encoded(bytes));
}

}  // namespace

}  // namespace craton::coherence
