#include "fabric/shm/message_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/futex.hpp"

namespace craton::fabric::shm {
namespace {

struct Ring {
  explicit Ring(std::uint64_t bytes) : records(std::make_unique<std::byte[]>(bytes)), capacity(bytes) {}
  RingHeader header;
  std::unique_ptr<std::byte[]> records;
  std::uint64_t capacity;
  RingProducer producer{&header, records.get(), capacity};
  RingConsumer consumer{&header, records.get(), capacity};
};

/// A message whose content follows from its number.
std::vector<unsigned char> message(std::uint32_t number) {
  std::minstd_rand random(number + 1);
  std::vector<unsigned char> bytes(random() % (max_message_bytes + 1));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() >> 8);
  return bytes;
}

TEST(MessageRing, EverySizeArrivesWholeAndInOrderBetweenThreads) {
  Ring ring(min_ring_bytes);
  constexpr std::uint32_t count = 3'000;
  std::thread producer([&] {
    for (std::uint32_t number = 0; number < count; ++number) {
      const auto bytes = message(number);
      while (!ring.producer.push(static_cast<HandlerId>(number % max_handlers), bytes.data(), bytes.size()))
        spin_pause();
    }
  });
  std::uint32_t number = 0;
  std::string wrong;
  while (number < count && wrong.empty()) {
    const auto outcome =
        ring.consumer.take([&](HandlerId handler, const std::byte* payload, std::size_t bytes) {
          const auto expected = message(number);
          if (handler != number % max_handlers || bytes != expected.size() ||
              std::memcmp(payload, expected.data(), bytes) != 0 ||
              reinterpret_cast<std::uintptr_t>(payload) % 8 != 0) {
            wrong = "message " + std::to_string(number) + " of " + std::to_string(bytes) + " bytes";
          }
          ++number;
        });
    if (outcome == RingConsumer::Outcome::corrupt) wrong = "corrupt after " + std::to_string(number);
    ring.consumer.producer_waits();
  }
  if (!wrong.empty()) {  // let the producer end
    ring.header.head.store(~std::uint64_t{0} >> 1);
  }
  producer.join();
  EXPECT_EQ(wrong, "");
  EXPECT_TRUE(ring.consumer.empty());
}

TEST(MessageRing, AFullRingRefusesAndAsksToBeRung) {
  Ring ring(min_ring_bytes);
  const std::vector<unsigned char> bytes(1000);
  std::size_t fitted = 0;
  while (ring.producer.push(9, bytes.data(), bytes.size())) ++fitted;
  EXPECT_EQ(fitted, min_ring_bytes / record_bytes(bytes.size()));
  EXPECT_TRUE(ring.consumer.producer_waits());
  EXPECT_FALSE(ring.consumer.producer_waits()) << "asked once, rung once";
  EXPECT_EQ(ring.consumer.take([](HandlerId, const std::byte*, std::size_t) {}),
            RingConsumer::Outcome::taken);
  EXPECT_TRUE(ring.producer.push(9, bytes.data(), 8));
}

TEST(MessageRing, WhatANeighbourScribblesIsNotTrusted) {
  std::mt19937 random(5);
  std::size_t corrupt = 0;
  for (int round = 0; round < 20'000; ++round) {
    Ring ring(min_ring_bytes);
    for (std::size_t i = 0; i < 256; ++i) ring.records[i] = static_cast<std::byte>(random() % 5);
    const RecordHeader record{.bytes = static_cast<std::uint32_t>(random() >> (random() % 32)),
                              .handler = static_cast<HandlerId>(random() >> (random() % 32)),
                              .kind = static_cast<std::uint16_t>(random() % 4)};
    std::memcpy(ring.records.get(), &record, sizeof record);
    ring.header.tail.store(random() >> (random() % 32));
    for (int i = 0; i < 100; ++i) {
      const auto outcome =
          ring.consumer.take([&](HandlerId handler, const std::byte* payload, std::size_t bytes) {
            ASSERT_LT(handler, max_handlers);
            ASSERT_LE(bytes, max_message_bytes);
            ASSERT_GE(payload, ring.records.get());
            ASSERT_LE(payload + bytes, ring.records.get() + ring.capacity);
          });
      if (outcome == RingConsumer::Outcome::corrupt) ++corrupt;
      if (outcome != RingConsumer::Outcome::taken) break;
    }
  }
  EXPECT_GT(corrupt, 10'000U);
}

}  // namespace
}  // namespace craton::fabric::shm
