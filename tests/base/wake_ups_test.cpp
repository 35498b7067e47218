#include "base/wake_ups.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace craton {

namespace {

struct Ended {};

/// Each time the next thing to do comes while the thread has just done the one before.
TEST(WakeUps, LoseNothingThatComesAsTheThreadIsDone) {
  constexpr std::uint32_t things = 50'000;
  WakeUps wake_ups;
  std::atomic<std::uint32_t> asked{0};
  std::atomic<std::uint32_t> done{0};
  std::thread thread([&] {
    try {
      wake_ups.serve([&] {
        done.store(asked.load());
        if (done.load() == things) throw Ended();
      });
    } catch (const Ended&) {
    }
  });
  for (std::uint32_t i = 1; i <= things; ++i) {
    asked.store(i);
    wake_ups.wake();
    while (done.load() != i) std::this_thread::yield();
  }
  thread.join();
}

}  // namespace

}  // namespace craton
