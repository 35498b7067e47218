#include "space/signature_board.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "coherence/block_lock.hpp"

namespace craton::space {

namespace {

constexpr std::size_t head_at = 0;
constexpr std::size_t turn_at = sizeof(std::uint64_t);
constexpr std::size_t ring_at = fabric::line_bytes;
constexpr std::size_t least_ring_bytes = std::size_t{256} * 1024;

// The head: where the signature begins, and how long it is. Positions count on until 2^40, which the ring, a
// power of two, divides.
constexpr unsigned size_bits = 24;
constexpr std::uint64_t position_mask = ~std::uint64_t{0} >> size_bits;
constexpr std::uint64_t head_of(std::uint64_t position, std::size_t bytes) noexcept {
  return position << size_bits | bytes;
}
constexpr std::uint64_t position_of(std::uint64_t head) noexcept {
  return head >> size_bits;
}
constexpr std::size_t bytes_of(std::uint64_t head) noexcept {
  return head & ((std::uint64_t{1} << size_bits) - 1);
}

}  // namespace

/// What is fetched from a rank, byte by byte or in an answer.
struct SignatureBoard::Reading {
  View* view;
  std::uint64_t head;  ///< that it is fetched of
  std::vector<std::byte> bytes;
};

/// A thread's, which waits for answers.
struct SignatureBoard::Look {
  std::vector<Reading> answers;  ///< what was new, of each that was asked
  std::atomic<std::size_t> missing{0};
};

/// A question, or an answer, behind which follows what is new, unless it is too much.
struct SignatureBoard::Message {
  enum class Kind : std::uint32_t { question, answer };
  Kind kind;
  std::uint32_t index;  ///< of the view
  std::uint64_t look;
  std::uint64_t head;  ///< that was seen before; that is shown now
};

SignatureBoard::SignatureBoard(fabric::Fabric& fabric, fabric::RegionId region, fabric::HandlerId handler,
                               std::size_t notice_capacity, std::uint64_t shown_bytes)
    : fabric_(fabric),
      region_(region),
      handler_(handler),
      notice_capacity_(notice_capacity),
      max_bytes_(coherence::Signature::head_bytes + notice_capacity * sizeof(coherence::WriteNotice)),
      ring_bytes_(std::bit_ceil(std::max(least_ring_bytes, 8 * max_bytes_))),
      memory_("craton signatures", ring_at + ring_bytes_),
      first_(shown_bytes),
      next_(shown_bytes),
      asked_(fabric::ranks_to_ask(fabric)) {
  CRATON_ASSERT(2 * max_bytes_ < std::size_t{1} << size_bits);
  fabric_.set_handler(handler_, &SignatureBoard::arrived, this);
  fabric_.register_region(region_, memory_);
}

void SignatureBoard::close() {
  fabric_.unregister_region(region_);
}

void SignatureBoard::show(const coherence::Signature& signature) {
  const std::size_t bytes = signature.encoded_bytes();
  CRATON_ASSERT(bytes <= max_bytes_);
  // None lies across the end.
  if (next_ % ring_bytes_ + bytes > ring_bytes_) next_ += ring_bytes_ - next_ % ring_bytes_;
  signature.encode(memory_.data() + ring_at + next_ % ring_bytes_);
  first_ = next_;
  next_ += bytes;
  set_head();
}

bool SignatureBoard::show_more(coherence::Timestamp min_write_ts, std::uint64_t barriers,
                               std::span<const coherence::WriteNotice> news) {
  const std::size_t bytes = coherence::Signature::head_bytes + news.size_bytes();
  // After one that ends with the ring the next begins at its start.
  if (next_ == first_ || next_ % ring_bytes_ == 0 || next_ % ring_bytes_ + bytes > ring_bytes_ ||
      next_ - first_ + bytes > 2 * max_bytes_)
    return false;
  coherence::Signature::encode(min_write_ts, barriers, news, memory_.data() + ring_at + next_ % ring_bytes_);
  next_ += bytes;
  set_head();
  return true;
}

void SignatureBoard::set_head() noexcept {
  own_word(head_at).store(head_of(first_, next_ - first_));
}

std::atomic_ref<std::uint64_t> SignatureBoard::own_word(std::size_t offset) noexcept {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_.data() + offset));
}

void SignatureBoard::set_turn(std::uint64_t turn) {
  own_word(turn_at).store(turn);
}

void SignatureBoard::get_turns(std::span<std::uint64_t> turns) {
  CRATON_ASSERT(turns.size() == fabric_.size());
  fabric::Completion completion;
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    fabric_.get(&turns[rank], {.rank = rank, .region = region_, .offset = turn_at}, sizeof turns[rank],
                completion);
  coherence::wait_for(fabric_, completion);
}

std::size_t SignatureBoard::news_bytes(std::uint64_t head, std::uint64_t version) noexcept {
  // What was added since, where it is still the same that is added to.
  return bytes_of(head) - (position_of(head) == position_of(version) ? bytes_of(version) : 0);
}

std::size_t SignatureBoard::offset_of_news(std::uint64_t head, std::uint64_t version) const noexcept {
  return ring_at + position_of(head) % ring_bytes_ + (bytes_of(head) - news_bytes(head, version));
}

bool SignatureBoard::is_whole(std::uint64_t head, std::uint64_t now) const noexcept {
  // The writer may be at the one after it, and may have skipped the end of the ring for it.
  const std::uint64_t written_to = position_of(now) + bytes_of(now) + 2 * max_bytes_;
  return ((written_to - position_of(head)) & position_mask) <= ring_bytes_;
}

bool SignatureBoard::look(std::span<View> views) {
  Look look;
  for (View& view : views) {
    if (asked_[view.rank]) look.answers.push_back({.view = &view, .head = view.version, .bytes = {}});
  }
  if (!look.answers.empty()) ask(look);
  bool is_news = false;
  std::vector<Reading> readings;
  for (const Reading& answered : look.answers) {
    View& view = *answered.view;
    view.now = answered.head;
    if (view.now == view.version) continue;
    is_news = true;
    if (!decode_news(view, answered.bytes))
      readings.push_back({.view = &view, .head = view.now, .bytes = {}});
  }
  if (look.answers.size() != views.size()) {
    fabric::Completion got_heads;
    for (View& view : views)
      if (!asked_[view.rank]) get_head(view, got_heads);
    coherence::wait_for(fabric_, got_heads);
    for (View& view : views) {
      if (asked_[view.rank] || view.now == view.version) continue;
      is_news = true;
      readings.push_back({.view = &view, .head = view.now, .bytes = {}});
    }
  }
  read(readings);
  return is_news;
}

std::uint64_t SignatureBoard::encode_news(std::uint64_t version, std::span<std::byte> room,
                                          std::size_t& bytes) noexcept {
  const std::uint64_t head = own_word(head_at).load();
  bytes = news_bytes(head, version);
  if (bytes > room.size()) bytes = 0;
  std::memcpy(room.data(), memory_.data() + offset_of_news(head, version), bytes);
  if (!is_whole(head, own_word(head_at).load())) bytes = 0;
  return head;
}

bool SignatureBoard::decode_news(View& view, std::span<const std::byte> news) {
  if (news.size() != news_bytes(view.now, view.version)) return false;
  decode(view, news);
  return true;
}

void SignatureBoard::decode(View& view, std::span<const std::byte> news) const {
  view.signature = coherence::Signature(notice_capacity_);
  const bool whole = view.signature.merge_encoded(news);
  CRATON_ASSERT(whole);
}

/// Fetches what is new, byte by byte.
void SignatureBoard::read(std::vector<Reading>& readings) {
  while (!readings.empty()) {
    fabric::Completion completion;
    for (Reading& reading : readings) {
      const std::uint64_t version = reading.view->version;
      reading.bytes.resize(news_bytes(reading.head, version));
      fabric_.get(
          reading.bytes.data(),
          {.rank = reading.view->rank, .region = region_, .offset = offset_of_news(reading.head, version)},
          reading.bytes.size(), completion);
    }
    coherence::wait_for(fabric_, completion);
    fabric::Completion looked_again;
    for (Reading& reading : readings) get_head(*reading.view, looked_again);
    coherence::wait_for(fabric_, looked_again);
    std::erase_if(readings, [&](Reading& reading) {
      View& view = *reading.view;
      if (!is_whole(reading.head, view.now)) {
        reading.head = view.now;
        return false;
      }
      decode(view, reading.bytes);
      view.now = reading.head;
      return true;
    });
  }
}

// ---- By messages

/// Asks all of a look, and waits for their answers.
void SignatureBoard::ask(Look& look) {
  look.missing.store(look.answers.size(), std::memory_order_relaxed);
  const fabric::Questions<Look>::Asked asked(looks_, look);
  for (std::uint32_t i = 0; i < look.answers.size(); ++i) {
    const View& view = *look.answers[i].view;
    const Message question{
        .kind = Message::Kind::question, .index = i, .look = asked.number(), .head = view.version};
    if (fabric_.send(view.rank, handler_, &question, sizeof question) != fabric::Status::ok)
      coherence::throw_lost(fabric_);
  }
  coherence::wait_for(fabric_, fabric_, [&] { return look.missing.load(std::memory_order_acquire) == 0; });
}

void SignatureBoard::arrived(void* self, fabric::Rank source, const std::byte* payload,
                             std::size_t bytes) noexcept {
  auto& here = *static_cast<SignatureBoard*>(self);
  Message message;
  CRATON_ASSERT(bytes >= sizeof message);
  std::memcpy(&message, payload, sizeof message);
  if (message.kind == Message::Kind::question) {
    here.answer(source, message);
  } else {
    here.take_answer(source, message, {payload + sizeof message, bytes - sizeof message});
  }
}

/// In a handler, beside a thread that shows.
void SignatureBoard::answer(fabric::Rank source, const Message& question) noexcept {
  alignas(Message) std::array<std::byte, fabric::max_message_bytes> payload;
  Message answer = question;
  answer.kind = Message::Kind::answer;
  std::size_t bytes = 0;
  answer.head = encode_news(question.head, std::span(payload).subspan(sizeof answer), bytes);
  std::memcpy(payload.data(), &answer, sizeof answer);
  static_cast<void>(fabric_.send(source, handler_, payload.data(), sizeof answer + bytes));
}

/// In a handler. Who has asked may have gone, since a rank has died.
void SignatureBoard::take_answer(fabric::Rank source, const Message& answer,
                                 std::span<const std::byte> news) noexcept {
  looks_.answered(answer.look, [&](Look& look) {
    CRATON_ASSERT(answer.index < look.answers.size());
    Reading& reading = look.answers[answer.index];
    CRATON_ASSERT(reading.view->rank == source);
    reading.head = answer.head;
    reading.bytes.assign(news.begin(), news.end());
    look.missing.fetch_sub(1, std::memory_order_release);
  });
}

void SignatureBoard::get_heads(std::span<View> views) {
  fabric::Completion completion;
  for (View& view : views) get_head(view, completion);
  coherence::wait_for(fabric_, completion);
}

void SignatureBoard::get_head(View& view, fabric::Completion& completion) {
  fabric_.get(&view.now, {.rank = view.rank, .region = region_, .offset = head_at}, sizeof view.now,
              completion);
}

}  // namespace craton::space
