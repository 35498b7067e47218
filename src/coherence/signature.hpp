/// \file
/// What a release tells an acquire: which blocks were written (dissertation, section 3.4.5, figure 3.17).
///
///     min_write_ts │ notice, notice, ... notice      ordered by write_ts, at most `capacity` of them
///                  ▲
///                  └─ the oldest are discarded into it: "all writes up to this time, wherever they were"
///
/// A notice names a block exactly, so that only copies of that block are dropped, and says from whom one get
/// brings the new one. The minimum stands for all notices that found no room: every copy whose lease ends
/// before it is dropped. A list of capacity 0 leaves leases alone.
///
/// A barrier of all ranks tells everybody everything, so what it told is left out of signatures after it. A
/// signature says how many barriers it relies on; who acquires one waits until its own rank has left as many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coherence/timestamp.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

/// Number of a segment, the same on every rank.
using SegmentId = std::uint32_t;
inline constexpr std::size_t segments_at_most = 4096;

/// A block was released with this write timestamp. Travels as it is.
struct WriteNotice {
  /// A bit of `source`: who needs the block asks its home, which was that rank.
  static constexpr fabric::Rank ask_home = fabric::Rank{1} << 31U;

  fabric::Rank source;  ///< where the write is: its writer, or the block's home
  SegmentId segment;
  std::uint64_t block;
  Timestamp write_ts;
  Timestamp read_ts;  ///< until then no later write of the block exists

  bool asks_home() const noexcept { return (source & ask_home) != 0; }
  fabric::Rank writer() const noexcept { return source & ~ask_home; }
};
static_assert(sizeof(WriteNotice) == 32);

class Signature {
 public:
  explicit Signature(std::size_t capacity = 0) : capacity_(capacity) {}

  std::size_t capacity() const noexcept { return capacity_; }
  Timestamp min_write_ts() const noexcept { return min_write_ts_; }
  /// In ascending order of write_ts.
  std::span<const WriteNotice> notices() const noexcept { return notices_; }
  bool empty() const noexcept { return notices_.empty() && min_write_ts_ == 0; }
  /// Barriers of all ranks whose notices are left out.
  std::uint64_t barriers() const noexcept { return barriers_; }

  /// Adds notices in any order. One of a block replaces older ones of it, whose writes it includes. Costs a
  /// sort of them, and a pass over those that are here.
  /// \returns whether it tells anything that was not told before
  bool add(std::span<const WriteNotice> notices);
  void merge(const Signature& other) {
    raise_min(other.min_write_ts_);
    add(other.notices_);
  }
  /// Discards the oldest, so that no more than `notices` are left. The capacity stays.
  void limit(std::size_t notices) noexcept;
  void raise_min(Timestamp write_ts) noexcept { min_write_ts_ = std::max(min_write_ts_, write_ts); }
  /// Forgets the notices that `told` includes. Right where everybody who could need them has had them, or
  /// knows that it must wait for them: after a barrier of all ranks, the `barriers`th, that told them.
  void forget(const Signature& told, std::uint64_t barriers);

  // ---- Bytes to send

  static constexpr std::size_t head_bytes = sizeof(std::uint64_t) * 3;
  std::size_t encoded_bytes() const noexcept { return head_bytes + notices_.size() * sizeof(WriteNotice); }
  /// \param to at least encoded_bytes()
  void encode(std::byte* to) const noexcept { encode(min_write_ts_, barriers_, notices_, to); }
  /// What a signature of these notices would encode, in any order. \param to head_bytes, and
  /// sizeof(WriteNotice) each
  static void encode(Timestamp min_write_ts, std::uint64_t barriers, std::span<const WriteNotice> notices,
                     std::byte* to) noexcept;
  /// Adds what encode() wrote, once or several times in a row, and takes over the number of barriers.
  /// \returns false if it is malformed
  bool merge_encoded(std::span<const std::byte> bytes);

 private:
  std::size_t capacity_;
  Timestamp min_write_ts_ = 0;
  std::uint64_t barriers_ = 0;
  std::vector<WriteNotice> notices_;
};

}  // namespace craton::coherence
