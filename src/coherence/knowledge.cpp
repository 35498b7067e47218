#include "coherence/knowledge.hpp"

#include <algorithm>
#include <mutex>

namespace craton::coherence {

namespace {

/// So many notices, and one for so many that are known, are shown before all of them are shown anew: who has
/// not looked for a while gets few of the same block, and who shows writes few for each.
constexpr std::size_t least_news = 8;
constexpr std::size_t known_a_news = 4;
/// Where a signature is full, so much of it is left for news.
constexpr std::size_t part_for_news = 8;

}  // namespace

Knowledge::Knowledge(SignatureExchange& exchange, std::size_t capacity, std::size_t shown_at_most)
    : exchange_(exchange), shown_at_most_(shown_at_most), whole_(capacity), unposted_(shown_at_most) {}

void Knowledge::learn(std::span<const WriteNotice> notices, Timestamp min_write_ts, bool is_posted) {
  const std::lock_guard lock(lock_);
  if (posts_ && !is_posted) {
    unposted_.add(notices);
    if (min_write_ts > learnt_min_) unposted_.raise_min(min_write_ts);
  }
  add(notices, min_write_ts);
}

void Knowledge::show() {
  const std::lock_guard lock(lock_);
  show_unshown();
}

std::vector<std::byte> Knowledge::post(bool shows) {
  const std::lock_guard lock(lock_);
  if (shows || !posts_) show_unshown();
  posts_ = true;
  std::vector<std::byte> own(unposted_.encoded_bytes());
  Signature::encode(unposted_.min_write_ts(), whole_.barriers(), unposted_.notices(), own.data());
  unposted_ = Signature(unposted_.capacity());
  return own;
}

void Knowledge::stop_posting() {
  const std::lock_guard lock(lock_);
  posts_ = false;
  unposted_ = Signature(unposted_.capacity());
}

bool Knowledge::has_unposted() {
  const std::lock_guard lock(lock_);
  return !unposted_.empty();
}

bool Knowledge::try_show(std::uint64_t& shown) {
  const std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  show_unshown();
  shown = shown_.load(std::memory_order_relaxed);
  return true;
}

Signature Knowledge::untold() {
  const std::lock_guard lock(lock_);
  if (!has_untold_.load(std::memory_order_relaxed)) return Signature(whole_.capacity());
  join_news();
  return whole_;
}

void Knowledge::rely_on(const Signature& told, std::uint64_t barriers) {
  const std::lock_guard lock(lock_);
  join_news();
  whole_is_shown_ = false;
  whole_.forget(told, barriers);
  whole_.raise_min(told.min_write_ts());
  learnt_min_ = std::max(learnt_min_, told.min_write_ts());
  has_untold_.store(!whole_.notices().empty() || whole_.min_write_ts() > told.min_write_ts(),
                    std::memory_order_relaxed);
  all_is_shown_ = false;
  unposted_.forget(told, barriers);
  show_unshown();
}

void Knowledge::add(std::span<const WriteNotice> notices, Timestamp min_write_ts) {
  const bool raises = min_write_ts > learnt_min_;
  if (notices.empty() && !raises) return;
  learnt_min_ = std::max(learnt_min_, min_write_ts);
  whole_.raise_min(min_write_ts);
  news_.insert(news_.end(), notices.begin(), notices.end());
  if (news_.size() > whole_.capacity()) join_news();  // of a rank that acquires and shows nothing
  all_is_shown_ = false;
  has_untold_.store(true, std::memory_order_release);
}

void Knowledge::join_news() {
  if (news_.empty()) return;
  whole_is_shown_ = false;
  whole_.add(news_);
  news_.clear();
  news_shown_ = 0;
}

void Knowledge::show_unshown() {
  if (all_is_shown_) return;
  if (!show_news()) {
    join_news();
    if (whole_.notices().size() > shown_at_most_)
      whole_.limit(shown_at_most_ - shown_at_most_ / part_for_news);
    exchange_.show(whole_);
    whole_is_shown_ = true;
  }
  all_is_shown_ = true;
  shown_.fetch_add(1, std::memory_order_release);
}

/// Who has acquired what was shown before needs no more than the news; nor the minimum that stands for what
/// has found no room since.
bool Knowledge::show_news() {
  const std::size_t known = whole_.notices().size();
  const bool is_little =
      news_.size() <= least_news + known / known_a_news && known + news_.size() <= shown_at_most_;
  if (!whole_is_shown_ || !is_little ||
      !exchange_.show_more(learnt_min_, whole_.barriers(), std::span(news_).subspan(news_shown_)))
    return false;
  news_shown_ = news_.size();
  return true;
}

}  // namespace craton::coherence
