#include "frame/target_control.hpp"

#include <cstring>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "frame/measure.hpp"

namespace craton::bench {
namespace {

constexpr fabric::HandlerId mode_handler = 200;
constexpr fabric::HandlerId adopted_handler = 201;
constexpr fabric::Rank initiator = 0;
constexpr fabric::Rank target = 1;
constexpr TimeNs change_limit_ns = 30'000'000'000;

/// Arithmetic that cannot be optimised away, with no system call and no call into the library.
void compute(const std::atomic<std::uint64_t>& orders, std::uint64_t obeyed) noexcept {
  std::uint64_t state = 1;
  while (orders.load(std::memory_order_relaxed) == obeyed) {
    for (int i = 0; i < 1000; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      asm volatile("" : "+r"(state));
    }
  }
}

void check(fabric::Status status) {
  if (status != fabric::Status::ok) {
    throw Error(ErrorCode::peer_lost,
                {"cannot steer the target of a benchmark", "it does not answer", "", ""});
  }
}

}  // namespace

TargetControl::TargetControl(fabric::Fabric& fabric) : fabric_(fabric) {
  fabric.set_handler(mode_handler, mode_arrived, this);
  fabric.set_handler(adopted_handler, adopted_arrived, this);
}

void TargetControl::mode_arrived(void* context, fabric::Rank, const std::byte* payload,
                                 std::size_t bytes) noexcept {
  auto* self = static_cast<TargetControl*>(context);
  TargetMode mode{};
  CRATON_ASSERT(bytes == sizeof mode);
  std::memcpy(&mode, payload, sizeof mode);
  self->mode_.store(mode, std::memory_order_relaxed);
  self->orders_.fetch_add(1, std::memory_order_release);
}

void TargetControl::adopted_arrived(void* context, fabric::Rank, const std::byte*, std::size_t) noexcept {
  static_cast<TargetControl*>(context)->adopted_.fetch_add(1, std::memory_order_release);
}

void TargetControl::serve() {
  std::uint64_t obeyed = 0;
  TargetMode mode = TargetMode::waiting;
  while (mode != TargetMode::quit) {
    if (mode == TargetMode::computing) {
      compute(orders_, obeyed);
    } else {
      check(fabric_.wait_until([this, obeyed] { return orders_.load(std::memory_order_acquire) != obeyed; }));
    }
    // The next order comes only after this one has been acknowledged, so the mode is the one of this order.
    obeyed = orders_.load(std::memory_order_acquire);
    mode = mode_.load(std::memory_order_relaxed);
    check(fabric_.send(initiator, adopted_handler, nullptr, 0));
  }
}

void TargetControl::set_mode(TargetMode mode) {
  ++ordered_;
  check(fabric_.send(target, mode_handler, &mode, sizeof mode));
  check(fabric_.wait_until([this] { return adopted_.load(std::memory_order_acquire) == ordered_; },
                           fabric_.clock().now_ns() + change_limit_ns));
}

}  // namespace craton::bench
