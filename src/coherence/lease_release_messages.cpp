/// \file
/// What ranks tell each other of blocks: how it is sent, and who of a rank is told.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "coherence/lease_release.hpp"

namespace craton::coherence {

namespace {

/// What follows a message.
template <typename Words>
Words rest_of(std::span<const std::byte> rest) noexcept {
  Words words;
  CRATON_ASSERT(rest.size() >= sizeof words);
  std::memcpy(&words, rest.data(), sizeof words);
  return words;
}

std::vector<DiffPiece> pieces_of(std::span<const std::byte> bytes) {
  CRATON_ASSERT(bytes.size() % sizeof(DiffPiece) == 0);
  std::vector<DiffPiece> pieces(bytes.size() / sizeof(DiffPiece));
  if (!bytes.empty()) std::memcpy(pieces.data(), bytes.data(), bytes.size());
  return pieces;
}

}  // namespace

/// In as many messages as it takes: what does not fit beside the words goes before them.
/// \param unit bytes that stay together
void LeaseRelease::send_parts(fabric::Rank to, BlockMessage message, Message part,
                              std::span<const std::byte> words, std::span<const std::byte> bytes,
                              std::size_t unit) noexcept {
  alignas(BlockMessage) std::array<std::byte, fabric::max_message_bytes> payload;
  const auto send_one = [&](Message kind, std::span<const std::byte> first, std::size_t most) {
    const auto now = bytes.first(std::min(bytes.size(), most));
    message.kind = kind;
    std::byte* end =
        std::copy_n(reinterpret_cast<const std::byte*>(&message), sizeof message, payload.data());
    end = std::copy(first.begin(), first.end(), end);
    end = std::copy(now.begin(), now.end(), end);
    static_cast<void>(
        fabric_.send(to, handler_, payload.data(), static_cast<std::size_t>(end - payload.data())));
    bytes = bytes.subspan(now.size());
  };
  constexpr std::size_t room = fabric::max_message_bytes - sizeof(BlockMessage);
  const Message last = message.kind;
  const std::size_t most_in_last = (room - words.size()) / unit * unit;
  while (bytes.size() > most_in_last) send_one(part, {}, room / unit * unit);
  send_one(last, words, most_in_last);
}

void LeaseRelease::send_taken(fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t taking,
                              const TakenWords& words, std::span<const std::byte> bytes) noexcept {
  send_parts(to, {.kind = Message::taken, .segment = segment, .block = block, .value = taking},
             Message::taken_bytes, std::as_bytes(std::span(&words, 1)), bytes, 1);
}

void LeaseRelease::send_diff(fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t sending,
                             const SendTerms& terms, std::span<const DiffPiece> pieces) noexcept {
  send_parts(to, {.kind = Message::sent, .segment = segment, .block = block, .value = sending},
             Message::sent_part, std::as_bytes(std::span(&terms, 1)), std::as_bytes(pieces),
             sizeof(DiffPiece));
}

void LeaseRelease::arrived(void* self, fabric::Rank source, const std::byte* payload,
                           std::size_t bytes) noexcept {
  auto& space = *static_cast<LeaseRelease*>(self);
  BlockMessage message{};
  CRATON_ASSERT(bytes >= sizeof message);
  std::memcpy(&message, payload, sizeof message);
  CRATON_ASSERT(message.segment < space.segments_.size());
  CRATON_ASSERT(message.block < space.segments_[message.segment].blocks());
  space.handle(source, message, {payload + sizeof message, bytes - sizeof message});
}

void LeaseRelease::handle(fabric::Rank source, const BlockMessage& message,
                          std::span<const std::byte> rest) noexcept {
  LeaseSegment& segment = segments_[message.segment];
  Block& block = segment.states_[message.block];
  switch (message.kind) {
    case Message::lock_answer:
      block.answer.store(static_cast<std::uint32_t>(message.value), std::memory_order_release);
      break;
    case Message::drop:
      segment.drop_by_message(message.block);
      send(Message::dropped, source, message.segment, message.block, 0);
      break;
    case Message::share:
      send(Message::shared, source, message.segment, message.block, segment.end_sole(message.block, block));
      break;
    case Message::shared:
      block.shared_ts.store(message.value, std::memory_order_release);
      break;
    case Message::dropped:
      block.acks_due.fetch_sub(1, std::memory_order_acq_rel);
      break;
    case Message::take:
      segment.give_home(source, message.block, message.value, rest_of<TakeTerms>(rest));
      break;
    case Message::taken_bytes:
      takings_.answered(message.value, [&](Taking& taking) { taking.receive(rest); });
      break;
    case Message::taken: {
      const auto words = rest_of<TakenWords>(rest);
      takings_.answered(message.value, [&](Taking& taking) {
        taking.receive(rest.subspan(sizeof words));
        taking.answer(words);
      });
      break;
    }
    case Message::lend:
      segment.lend(source, message.block, message.value, rest_of<LendTerms>(rest));
      break;
    case Message::lent:
      lendings_.answered(message.value, [&](Lending& lending) { lending.answer(rest_of<LentWords>(rest)); });
      break;
    case Message::sent_part:
      sent_parts_.add(source, message.value, pieces_of(rest));
      break;
    case Message::sent: {
      std::vector<DiffPiece> pieces = sent_parts_.take(source, message.value);
      const std::vector<DiffPiece> last = pieces_of(rest.subspan(sizeof(SendTerms)));
      pieces.insert(pieces.end(), last.begin(), last.end());
      segment.merge_sent(source, message.block, message.value, rest_of<SendTerms>(rest), std::move(pieces));
      break;
    }
    case Message::merged:
      sendings_.answered(message.value,
                         [&](Sending& sending) { sending.answer(rest_of<MergedWords>(rest)); });
      break;
    case Message::moved:
      segment.has_moved(message.block, message.value);
      break;
  }
}

}  // namespace craton::coherence
