/// \file
/// Counts operations in flight to one peer so that a flush waits for those issued before it and for no later
/// ones, however many other threads keep issuing.
#pragma once

#include <atomic>
#include <cstdint>

namespace craton::fabric {

/// Operations belong to one of two epochs; a flush closes the current one and waits until it has drained.
/// Flushes to one peer take turns (the caller sees to it), so the epoch that is opened has always drained.
class FlushCounter {
 public:
  using Epoch = std::uint8_t;

  /// An operation is issued. \returns what finish() wants back
  Epoch start() noexcept {
    // A flush that closes the epoch between the load and the add may have seen it drained already: then the
    // count must move to the epoch that is open now. If the epoch is still open after the add, a later flush
    // sees it.
    for (;;) {
      const Epoch epoch = current_.load();
      in_flight_[epoch].fetch_add(1);
      if (current_.load() == epoch) return epoch;
      in_flight_[epoch].fetch_sub(1);
    }
  }
  void finish(Epoch epoch) noexcept { in_flight_[epoch].fetch_sub(1, std::memory_order_acq_rel); }

  /// Closes the current epoch. \returns it, to be passed to drained()
  Epoch close() noexcept { return current_.exchange(current_.load() ^ 1U); }
  bool drained(Epoch epoch) const noexcept { return in_flight_[epoch].load(std::memory_order_acquire) == 0; }
  bool idle() const noexcept { return drained(0) && drained(1); }

 private:
  std::atomic<Epoch> current_{0};
  std::atomic<std::uint32_t> in_flight_[2]{};
};

}  // namespace craton::fabric
