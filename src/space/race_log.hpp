/// \file
/// Write-write races: what LeaseRelease::report saw, once a place, for a report at the end; or the end of the
/// process at the first. A race is seen when the writes of two ranks to the same bytes meet at a release, and
/// only if they wrote different values.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coherence/lease_release.hpp"
#include "fiber/fiber.hpp"
#include "space/space.hpp"

namespace craton::space {

/// A place where ranks raced.
struct RacePlace {
  const std::byte* address;  ///< of the first byte that was seen to differ
  std::uint64_t bytes;       ///< how many differed, at most, from there on
  std::uint64_t count;       ///< how often it was seen
  fabric::Rank here;         ///< whose writes came second
  fabric::Rank there;        ///< whose came first; it may have passed on those of another
  std::uint64_t region = 0;  ///< the function of the one in which it was seen, where that is kept; 0: none
};

class RaceLog {
 public:
  /// Places beyond these are only counted.
  static constexpr std::size_t places_most = 256;
  static constexpr std::size_t segments_most = 1024;

  /// \param abort_at_once prints the first race and ends the process by abort()
  RaceLog(fabric::Rank own, bool abort_at_once) : own_(own), abort_at_once_(abort_at_once) {}
  RaceLog(const RaceLog&) = delete;
  RaceLog& operator=(const RaceLog&) = delete;

  /// Tells it of a segment before any race in it can be.
  void add_segment(Segment& segment) noexcept;
  /// For LeaseRelease::set_race_handler, with this as its context. Neither blocks nor allocates.
  static void saw(void* self, const coherence::Race& race) noexcept;

  std::vector<RacePlace> places();
  /// How often one was seen at a place that had no room.
  std::uint64_t left_out() const noexcept { return left_out_.load(std::memory_order_relaxed); }

 private:
  void add(const RacePlace& place) noexcept;
  [[noreturn]] void abort_at(const RacePlace& place, const Segment& segment) const noexcept;

  const fabric::Rank own_;
  const bool abort_at_once_;
  std::array<std::atomic<Segment*>, segments_most> segments_{};
  std::atomic<std::uint64_t> left_out_{0};
  fiber::SpinLock<fiber::NativeSystem> lock_;
  std::size_t place_count_ = 0;
  std::array<RacePlace, places_most> places_{};
};

/// What all ranks saw: the same place once, with the counts added up. In order of address.
std::vector<RacePlace> merged_places(std::vector<RacePlace> all);

/// What is told of a place, with its end of line. \param where it is
std::string race_line(const RacePlace& place, const std::string& where);

}  // namespace craton::space
