#include "coherence/put_by.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/assert.hpp"

namespace craton::coherence {

PutBy::PutBy(const std::byte* twin, std::size_t bytes) : bytes_(bytes), base_(new std::byte[bytes]) {
  std::memcpy(base_.get(), twin, bytes);
}

void PutBy::add(fabric::Rank from, Timestamp write_ts, std::vector<DiffPiece> pieces) {
  const Timestamp last_ts = sent_.empty() ? 0 : sent_.back().write_ts;
  CRATON_ASSERT(last_ts < write_ts);
  sent_.push_back({.from = from, .write_ts = write_ts, .pieces = std::move(pieces)});
}

void PutBy::catch_up(Timestamp until, std::byte* copy,
                     FunctionRef<void(fabric::Rank from, const MergeOutcome& outcome)> merged) {
  for (; !sent_.empty() && sent_.front().write_ts <= until; sent_.pop_front())
    merged(sent_.front().from, merge_diff(sent_.front().pieces, copy, base_.get()));
}

void PutBy::publish(const std::byte* copy, std::byte* twin) {
  std::vector<DiffPiece> written;
  make_diff(copy, base_.get(), bytes_, bytes_ / DiffPiece::bytes, written);
  note_diff(written, base_.get());
  note_diff(written, twin);
  std::vector<std::uint32_t> here(bytes_ / DiffPiece::bytes);
  for (const DiffPiece& piece : written) here[piece.index] = piece.changed;
  for (Sent& sent : sent_) {
    for (DiffPiece& piece : sent.pieces) piece.changed &= ~here[piece.index];
  }
}

}  // namespace craton::coherence
