/// \file
/// What ranks that flush tell each other: a flush is an acquire from all ranks, of which most have nothing
/// new, and where each must be asked by a message (tcp) so many ranks cost so many messages. So one rank, the
/// keeper, has what each of them has not been told yet.
///
///     who flushes                    keeper                       who flushes next
///       post: its news ────────────▶ put by for all others
///             ◀──────────── what was put by for it, and whom it must ask itself
///                                                    ◀──────────── post
///                                    the first one's news ───────▶
///
/// What a rank publishes and shows (SignatureExchange) but does not post, with the release of a lock say, the
/// keeper does not know of. So it stops posting first: from then on whoever posts is told to ask that rank
/// itself, as all are in the beginning, until it has asked once after the rank has flushed again. And what it
/// learns of other ranks one by one, which may not have posted it yet, it posts as well. So who has posted,
/// and asked whom it was told to, has acquired all that had been released anywhere before, and what that
/// follows from. Knowledge keeps account of what a rank owes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "coherence/signature.hpp"
#include "fabric/fabric.hpp"
#include "fabric/questions.hpp"

namespace craton::coherence {

/// Of a rank; the keeper's has what is put by.
class Bulletin {
 public:
  static constexpr fabric::Rank keeper = 0;

  /// Sets `handler`, the same on all ranks. \param notice_capacity of signatures
  Bulletin(fabric::Fabric& fabric, fabric::HandlerId handler, std::size_t notice_capacity);
  Bulletin(const Bulletin&) = delete;
  Bulletin& operator=(const Bulletin&) = delete;
  ~Bulletin() = default;

  /// Whether ranks post: where some must be asked by messages. The same on all.
  bool is_used() const noexcept { return is_used_; }

  struct Told {
    Signature news;                 ///< what others have posted
    std::vector<fabric::Rank> ask;  ///< who must be asked for what they show, after this
  };
  /// From now on this rank posts. One thread at a time, of these two. Blocks.
  /// \param own a signature, encoded: its news \throws Error peer_lost
  Told post(std::span<const std::byte> own);
  /// After a post of which nothing came, if the one before was in vain as well: the keeper, who need not ask
  /// anybody, waits for about as long as an answer takes elsewhere, or until there is news.
  void linger();
  /// From now on this rank does not: when it returns, whoever posts is told to ask it. Blocks.
  /// \throws Error peer_lost
  void stop();

 private:
  enum class Kind : std::uint32_t { post, told, stop, stopped };
  struct Message {
    Kind kind;
    std::uint32_t reserved = 0;
    std::uint64_t question;  ///< of who asks; goes along with the answer
    std::uint64_t bytes;     ///< of a post, or an answer, in all: it may come in several messages
  };
  /// Of a thread that waits for an answer.
  struct Question {
    std::vector<std::uint64_t> answer;  ///< a count, so many ranks, and an encoded signature
    std::size_t received = 0;           ///< bytes of it
    std::atomic<bool> is_answered{false};
  };
  /// With the keeper, of a rank.
  struct Reader {
    Signature news;
    bool asks_all = true;           ///< and nothing is put by: it has not posted yet, or not for long
    std::vector<bool> asks_once;    ///< by rank: whom it must ask, though they post by now
    std::vector<std::byte> coming;  ///< of a post, so far
  };

  std::vector<std::uint64_t> ask(Kind kind, std::span<const std::byte> own);
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void receive(fabric::Rank source, const Message& message, std::span<const std::byte> bytes) noexcept;
  std::vector<std::uint64_t> keep(fabric::Rank source, std::span<const std::byte> post);
  void note_stop(fabric::Rank source);
  void send(fabric::Rank to, Message message, std::span<const std::byte> bytes) noexcept;

  fabric::Fabric& fabric_;
  const fabric::HandlerId handler_;
  const std::size_t notice_capacity_;
  const bool is_used_;
  fabric::Questions<Question> questions_;

  // The keeper's.
  std::mutex lock_;  ///< its own threads call, beside the handler
  std::vector<Reader> readers_;
  std::vector<bool> posts_;            ///< by rank
  std::atomic<bool> has_news_{false};  ///< for the keeper itself
  std::atomic<bool> was_in_vain_{false};
};

}  // namespace craton::coherence
