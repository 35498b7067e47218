// Ours: active messages to a handler that counts them.
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "message_rate/message_rate.hpp"

namespace craton::bench {
namespace {

constexpr fabric::HandlerId count_handler = 210;
constexpr fabric::HandlerId ask_handler = 211;
constexpr fabric::HandlerId answer_handler = 212;
constexpr fabric::Rank target = 1;
constexpr TimeNs answer_limit_ns = 60'000'000'000;

void check(fabric::Status status) {
  if (status != fabric::Status::ok) [[unlikely]] {
    throw Error(ErrorCode::peer_lost, {"cannot measure messages", "the target does not answer", "", ""});
  }
}

}  // namespace

CratonMessages::CratonMessages(fabric::Fabric& fabric) : fabric_(fabric) {
  fabric.set_handler(count_handler, counted, this);
  fabric.set_handler(ask_handler, asked, this);
  fabric.set_handler(answer_handler, answered, this);
}

void CratonMessages::counted(void* context, fabric::Rank, const std::byte*, std::size_t) noexcept {
  ++static_cast<CratonMessages*>(context)->counted_;
}

void CratonMessages::asked(void* context, fabric::Rank source, const std::byte*, std::size_t) noexcept {
  auto* self = static_cast<CratonMessages*>(context);
  const std::uint64_t arrived = std::exchange(self->counted_, 0);
  // A lost initiator is noticed by everything else here.
  static_cast<void>(self->fabric_.send(source, answer_handler, &arrived, sizeof arrived));
}

void CratonMessages::answered(void* context, fabric::Rank, const std::byte* payload, std::size_t) noexcept {
  auto* self = static_cast<CratonMessages*>(context);
  std::memcpy(&self->answer_, payload, sizeof self->answer_);
  self->answers_.fetch_add(1, std::memory_order_release);
}

std::uint64_t CratonMessages::ask() {
  const std::uint64_t before = answers_.load(std::memory_order_relaxed);
  const std::uint64_t question = 0;
  check(fabric_.send(target, ask_handler, &question, sizeof question));
  check(fabric_.wait_until([&] { return answers_.load(std::memory_order_acquire) != before; },
                           fabric_.clock().now_ns() + answer_limit_ns));
  return answer_;
}

double CratonMessages::rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) {
  const std::byte payload[SharedRing::cell_bytes]{};
  const TimeNs start = now_ns();
  const std::uint64_t sent =
      send_for(turn_ns, threads, [&] { check(fabric_.send(target, count_handler, payload, bytes)); });
  const std::uint64_t arrived = ask();
  return rate(sent, arrived, now_ns() - start);
}

Sample CratonMessages::round_trip_turn(TimeNs turn_ns) {
  return time_each(turn_ns, [this] { static_cast<void>(ask()); });
}

}  // namespace craton::bench
