#include "frame/shared_ring.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "frame/measure.hpp"

namespace craton::bench {
namespace {

constexpr TimeNs spin_ns = 20'000;
constexpr int looks_between_clocks = 32;

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void SharedCounter::publish(std::uint32_t value) noexcept {
  value_.store(value);
  if (sleepers_.load() != 0) ::syscall(SYS_futex, &value_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

std::uint32_t SharedCounter::wait_beyond(std::uint32_t seen) noexcept {
  if (const std::uint32_t value = load(); value != seen) return value;
  const TimeNs spin_until = now_ns() + spin_ns;
  do {
    for (int look = 0; look < looks_between_clocks; ++look) {
      const std::uint32_t value = load();
      if (value != seen) return value;
      relax();
    }
  } while (now_ns() < spin_until);

  sleepers_.fetch_add(1);
  std::uint32_t value = value_.load();
  while (value == seen) {
    ::syscall(SYS_futex, &value_, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    value = value_.load();
  }
  sleepers_.fetch_sub(1);
  return value;
}

void SharedRing::push(const void* payload, std::size_t bytes) noexcept {
  const std::uint32_t next = produced.load();
  if (next - consumed_seen == cells) consumed_seen = consumed.wait_beyond(consumed_seen);
  std::memcpy(cell[next % cells], payload, bytes);
  produced.publish(next + 1);
}

void SharedRing::pop(FunctionRef<void(const unsigned char*)> consume) noexcept {
  const std::uint32_t taken = consumed.load();
  const std::uint32_t arrived = produced.wait_beyond(taken);
  for (std::uint32_t i = taken; i != arrived; ++i) consume(cell[i % cells]);
  consumed.publish(arrived);
}

}  // namespace craton::bench
