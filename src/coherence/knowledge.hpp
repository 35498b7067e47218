/// \file
/// What a rank knows of writes, of its own and of those that it has acquired: all that an acquirer of it must
/// know; and how much of that it has shown, and posted (bulletin.hpp).
///
///     whole │ news          whole: a signature, in order; what is learnt after it, as it comes
///     ──────┴──────▶ shown  all of it anew, or some news beside what is shown already: who has seen the rest
///                           looks at these alone
///
/// While a rank posts, what it has learnt but by posts and barriers is *unposted* until its next post. Who is
/// shown that by one rank alone posts it as well; before a release ends this rank stops posting.
///
/// Threads: any, one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coherence/signature.hpp"
#include "coherence/signature_exchange.hpp"
#include "fiber/fiber.hpp"

namespace craton::coherence {

class Knowledge {
 public:
  /// \param capacity notices that are known, at most \param shown_at_most and those that are shown
  Knowledge(SignatureExchange& exchange, std::size_t capacity, std::size_t shown_at_most);

  std::size_t capacity() const noexcept { return whole_.capacity(); }
  /// From now on an acquirer of this rank must know of these writes, and have seen all up to that time.
  /// \param is_posted by others, who have told it to all who post
  void learn(std::span<const WriteNotice> notices, Timestamp min_write_ts, bool is_posted = false);
  /// Shows what it has not. What is shown never grows less.
  void show();
  /// The same, unless another thread is at it. \param shown gets shown()
  bool try_show(std::uint64_t& shown);
  /// What this rank, which posts from now on, has to post next: a signature, encoded. What it had not shown
  /// when it did not post is shown now, and the rest if `shows`.
  std::vector<std::byte> post(bool shows);
  /// It does not post any more.
  void stop_posting();
  /// Whether there is anything that it has to post, or to stop posting for.
  bool has_unposted();
  /// What no barrier has told all, or an empty signature.
  Signature untold();
  /// All ranks have had, or are about to have, all that a barrier tells, the `barriers`th: nobody needs to be
  /// told it again.
  void rely_on(const Signature& told, std::uint64_t barriers);

  /// Whether there is anything that no barrier has told all.
  bool has_untold() const noexcept { return has_untold_.load(std::memory_order_acquire); }
  /// How often something new was shown.
  std::uint64_t shown() const noexcept { return shown_.load(std::memory_order_acquire); }

 private:
  void add(std::span<const WriteNotice> notices, Timestamp min_write_ts);
  void show_unshown();
  bool show_news();
  void join_news();

  SignatureExchange& exchange_;
  const std::size_t shown_at_most_;
  fiber::Mutex lock_;
  Signature whole_;
  std::vector<WriteNotice> news_;
  Timestamp learnt_min_ = 0;     ///< whole_'s minimum, but for what has found no room in it: the news'
  bool whole_is_shown_ = false;  ///< and with it so many of the news
  std::size_t news_shown_ = 0;
  bool all_is_shown_ = true;
  bool posts_ = false;
  Signature unposted_;
  std::atomic<bool> has_untold_{false};
  std::atomic<std::uint64_t> shown_{0};
};

}  // namespace craton::coherence
