#include "coherence/signature.hpp"

#include <algorithm>
#include <cstring>

namespace craton::coherence {

namespace {

bool older(const WriteNotice& left, const WriteNotice& right) noexcept {
  if (left.write_ts != right.write_ts) return left.write_ts < right.write_ts;
  if (left.segment != right.segment) return left.segment < right.segment;
  return left.block < right.block;
}

bool same_block(const WriteNotice& left, const WriteNotice& right) noexcept {
  return left.segment == right.segment && left.block == right.block;
}
bool by_block(const WriteNotice& left, const WriteNotice& right) noexcept {
  return left.segment != right.segment ? left.segment < right.segment : left.block < right.block;
}
bool by_block_newest_first(const WriteNotice& left, const WriteNotice& right) noexcept {
  if (!same_block(left, right)) return by_block(left, right);
  if (left.write_ts != right.write_ts) return left.write_ts > right.write_ts;
  return left.source < right.source;  // rather one that says where the bytes are
}

}  // namespace

bool Signature::add(std::span<const WriteNotice> notices) {
  if (notices.empty()) return false;
  std::vector<WriteNotice> added(notices.begin(), notices.end());
  std::sort(added.begin(), added.end(), by_block_newest_first);
  added.erase(std::unique(added.begin(), added.end(), same_block), added.end());
  std::size_t known = 0;
  // Of each block the newer one, of those that are here and those that come.
  std::erase_if(notices_, [&added, &known](const WriteNotice& old) {
    const auto rival = std::lower_bound(added.begin(), added.end(), old, by_block);
    if (rival == added.end() || !same_block(*rival, old)) return false;
    if (!by_block_newest_first(*rival, old)) {
      *rival = old;
      ++known;
    }
    return true;
  });
  const bool is_news = known < added.size();
  std::sort(added.begin(), added.end(), older);
  const auto middle = static_cast<std::ptrdiff_t>(notices_.size());
  notices_.insert(notices_.end(), added.begin(), added.end());
  std::inplace_merge(notices_.begin(), notices_.begin() + middle, notices_.end(), older);
  limit(capacity_);
  return is_news;
}

void Signature::limit(std::size_t notices) noexcept {
  if (notices_.size() <= notices) return;
  const auto kept = notices_.end() - static_cast<std::ptrdiff_t>(notices);
  raise_min((kept - 1)->write_ts);
  notices_.erase(notices_.begin(), kept);
}

void Signature::forget(const Signature& told, std::uint64_t barriers) {
  barriers_ = barriers;
  if (notices_.empty()) return;
  std::vector<WriteNotice> newest = told.notices_;
  std::sort(newest.begin(), newest.end(), by_block);
  std::erase_if(notices_, [&newest](const WriteNotice& notice) {
    const auto other = std::lower_bound(newest.begin(), newest.end(), notice, by_block);
    return other != newest.end() && same_block(*other, notice) && other->write_ts >= notice.write_ts;
  });
}

void Signature::encode(Timestamp min_write_ts, std::uint64_t barriers, std::span<const WriteNotice> notices,
                       std::byte* to) noexcept {
  const std::uint64_t head[] = {min_write_ts, notices.size(), barriers};
  static_assert(sizeof head == head_bytes);
  std::memcpy(to, head, sizeof head);
  if (!notices.empty()) std::memcpy(to + sizeof head, notices.data(), notices.size_bytes());
}

bool Signature::merge_encoded(std::span<const std::byte> bytes) {
  Timestamp min_write_ts = 0;
  std::uint64_t barriers = 0;
  std::vector<WriteNotice> notices;
  bool is_one = false;
  do {
    std::uint64_t head[3];
    static_assert(sizeof head == head_bytes);
    if (bytes.size() < sizeof head) return false;
    std::memcpy(head, bytes.data(), sizeof head);
    bytes = bytes.subspan(sizeof head);
    if (head[0] >= timestamp_limit || head[1] > bytes.size() / sizeof(WriteNotice)) return false;
    min_write_ts = std::max(min_write_ts, head[0]);
    barriers = std::max(barriers, head[2]);
    is_one = notices.empty();
    const std::size_t before = notices.size();
    const std::size_t count = head[1];
    notices.resize(before + count);
    if (count != 0) std::memcpy(&notices[before], bytes.data(), count * sizeof(WriteNotice));
    bytes = bytes.subspan(count * sizeof(WriteNotice));
  } while (!bytes.empty());
  for (const WriteNotice& notice : notices) {
    if (notice.write_ts >= timestamp_limit || notice.read_ts >= timestamp_limit) return false;
  }
  raise_min(min_write_ts);
  barriers_ = std::max(barriers_, barriers);
  if (is_one && notices_.empty() && notices.size() <= capacity_ &&
      std::is_sorted(notices.begin(), notices.end(), older)) {
    notices_ = std::move(notices);  // as it was encoded
  } else {
    add(notices);
  }
  return true;
}

}  // namespace craton::coherence
