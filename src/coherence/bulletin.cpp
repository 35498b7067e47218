#include "coherence/bulletin.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.hpp"
#include "coherence/block_lock.hpp"

namespace craton::coherence {

namespace {

/// So many notices are put by for a rank; one that has not flushed for as long asks all ranks.
constexpr std::size_t put_by_most = 256;
/// A question and its answer, by tcp.
constexpr TimeNs linger_ns = 50'000;

bool are_some_asked(const fabric::Fabric& fabric) {
  const std::vector<bool> asked = fabric::ranks_to_ask(fabric);
  return std::find(asked.begin(), asked.end(), true) != asked.end();
}

}  // namespace

Bulletin::Bulletin(fabric::Fabric& fabric, fabric::HandlerId handler, std::size_t notice_capacity)
    : fabric_(fabric),
      handler_(handler),
      notice_capacity_(notice_capacity),
      is_used_(are_some_asked(fabric)) {
  fabric_.set_handler(handler_, &Bulletin::arrived, this);
  if (fabric_.rank() != keeper || !is_used_) return;
  const Reader none{.news = Signature(std::min(notice_capacity, put_by_most)),
                    .asks_once = std::vector<bool>(fabric_.size(), false),
                    .coming = {}};
  readers_.assign(fabric_.size(), none);
  posts_.assign(fabric_.size(), false);
}

Bulletin::Told Bulletin::post(std::span<const std::byte> own) {
  const std::vector<std::uint64_t> answer =
      fabric_.rank() == keeper ? keep(keeper, own) : ask(Kind::post, own);
  CRATON_ASSERT(!answer.empty());
  CRATON_ASSERT(answer.front() < answer.size());
  const auto asked = static_cast<std::ptrdiff_t>(answer.front());
  Told told{.news = Signature(notice_capacity_), .ask = {answer.begin() + 1, answer.begin() + 1 + asked}};
  const bool is_whole = told.news.merge_encoded(std::as_bytes(std::span(answer).subspan(1 + answer.front())));
  CRATON_ASSERT(is_whole);
  return told;
}

void Bulletin::linger() {
  if (fabric_.rank() != keeper || !was_in_vain_.exchange(true, std::memory_order_relaxed)) return;
  const auto has_news = [this] { return has_news_.load(std::memory_order_relaxed); };
  static_cast<void>(fabric_.wait_until(has_news, fabric_.clock().now_ns() + linger_ns));
}

void Bulletin::stop() {
  if (fabric_.rank() == keeper) return note_stop(keeper);
  static_cast<void>(ask(Kind::stop, {}));
}

/// Asks the keeper, which is another rank. \returns its answer
std::vector<std::uint64_t> Bulletin::ask(Kind kind, std::span<const std::byte> own) {
  CRATON_ASSERT(is_used_);
  Question question;
  const fabric::Questions<Question>::Asked asked(questions_, question);
  send(keeper, {.kind = kind, .question = asked.number(), .bytes = own.size()}, own);
  wait_for(fabric_, fabric_, [&] { return question.is_answered.load(std::memory_order_acquire); });
  return std::move(question.answer);
}

/// In as many messages as it takes. To the dead: who waits will notice.
void Bulletin::send(fabric::Rank to, Message message, std::span<const std::byte> bytes) noexcept {
  alignas(Message) std::array<std::byte, fabric::max_message_bytes> payload;
  std::memcpy(payload.data(), &message, sizeof message);
  do {
    const std::size_t count = std::min(bytes.size(), payload.size() - sizeof message);
    if (count != 0) std::memcpy(payload.data() + sizeof message, bytes.data(), count);
    static_cast<void>(fabric_.send(to, handler_, payload.data(), sizeof message + count));
    bytes = bytes.subspan(count);
  } while (!bytes.empty());
}

void Bulletin::arrived(void* self, fabric::Rank source, const std::byte* payload,
                       std::size_t bytes) noexcept {
  Message message;
  CRATON_ASSERT(bytes >= sizeof message);
  std::memcpy(&message, payload, sizeof message);
  static_cast<Bulletin*>(self)->receive(source, message, {payload + sizeof message, bytes - sizeof message});
}

/// In a handler.
void Bulletin::receive(fabric::Rank source, const Message& message,
                       std::span<const std::byte> bytes) noexcept {
  switch (message.kind) {
    case Kind::post: {
      CRATON_ASSERT(source < readers_.size());
      std::vector<std::byte>& post = readers_[source].coming;
      post.insert(post.end(), bytes.begin(), bytes.end());
      if (post.size() < message.bytes) return;
      const std::vector<std::uint64_t> answer = keep(source, post);
      post.clear();
      const std::span<const std::byte> all = std::as_bytes(std::span(answer));
      return send(source, {.kind = Kind::told, .question = message.question, .bytes = all.size()}, all);
    }
    case Kind::stop:
      note_stop(source);
      return send(source, {.kind = Kind::stopped, .question = message.question, .bytes = 0}, {});
    case Kind::told:
    case Kind::stopped:
      questions_.answered(message.question, [&](Question& question) {
        CRATON_ASSERT(message.bytes % sizeof(std::uint64_t) == 0);
        CRATON_ASSERT(question.received + bytes.size() <= message.bytes);
        question.answer.resize(message.bytes / sizeof(std::uint64_t));
        const std::span<std::byte> to = std::as_writable_bytes(std::span(question.answer));
        std::copy(bytes.begin(), bytes.end(), to.begin() + static_cast<std::ptrdiff_t>(question.received));
        question.received += bytes.size();
        if (question.received == message.bytes) question.is_answered.store(true, std::memory_order_release);
      });
      return;
  }
}

// ---- The keeper

/// Puts news by for all others. \returns the answer: whom to ask, and what was put by
std::vector<std::uint64_t> Bulletin::keep(fabric::Rank source, std::span<const std::byte> post) {
  const std::lock_guard lock(lock_);
  Signature news(notice_capacity_);
  const bool is_whole = news.merge_encoded(post);
  CRATON_ASSERT(is_whole);
  const bool begins = !posts_[source];
  posts_[source] = true;
  for (fabric::Rank rank = 0; rank < readers_.size(); ++rank) {
    Reader& reader = readers_[rank];
    if (rank == source || reader.asks_all) continue;
    if (begins) reader.asks_once[source] = true;
    if (news.empty()) continue;
    if (news.min_write_ts() == 0 &&
        reader.news.notices().size() + news.notices().size() <= reader.news.capacity()) {
      reader.news.merge_encoded(post);
    } else {
      reader.news = Signature(reader.news.capacity());
      reader.asks_all = true;
    }
  }
  if (!news.empty()) {
    if (source != keeper) has_news_.store(true, std::memory_order_relaxed);
    was_in_vain_.store(false, std::memory_order_relaxed);
  }
  if (source == keeper) has_news_.store(false, std::memory_order_relaxed);
  Reader& reader = readers_[source];
  std::vector<std::uint64_t> answer{0};
  for (fabric::Rank rank = 0; rank < readers_.size(); ++rank)
    if (rank != source && (reader.asks_all || reader.asks_once[rank] || !posts_[rank]))
      answer.push_back(rank);
  const std::size_t asked = answer.size() - 1;
  answer.front() = asked;
  answer.resize(answer.size() + reader.news.encoded_bytes() / sizeof(std::uint64_t));
  reader.news.encode(std::as_writable_bytes(std::span(answer).subspan(1 + asked)).data());
  reader.news = Signature(reader.news.capacity());
  reader.asks_all = false;
  std::fill(reader.asks_once.begin(), reader.asks_once.end(), false);
  return answer;
}

void Bulletin::note_stop(fabric::Rank source) {
  const std::lock_guard lock(lock_);
  posts_[source] = false;
}

}  // namespace craton::coherence
