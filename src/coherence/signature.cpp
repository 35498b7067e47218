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

bool by_block_newest_first(const WriteNotice& left, const WriteNotice& right) noexcept {
  if (left.segment != right.segment) return left.segment < right.segment;
  if (left.block != right.block) return left.block < right.block;
  if (left.write_ts != right.write_ts) return left.write_ts > right.write_ts;
  return left.source < right.source;  // rather one that says where the bytes are
}

}  // namespace

void Signature::add(std::span<const WriteNotice> notices) {
  if (notices.empty()) return;
  notices_.insert(notices_.end(), notices.begin(), notices.end());
  std::sort(notices_.begin(), notices_.end(), by_block_newest_first);
  const auto same_block = [](const WriteNotice& left, const WriteNotice& right) {
    return left.segment == right.segment && left.block == right.block;
  };
  notices_.erase(std::unique(notices_.begin(), notices_.end(), same_block), notices_.end());
  std::sort(notices_.begin(), notices_.end(), older);
  if (notices_.size() > capacity_) {
    const auto kept = notices_.end() - static_cast<std::ptrdiff_t>(capacity_);
    raise_min((kept - 1)->write_ts);
    notices_.erase(notices_.begin(), kept);
  }
}

void Signature::encode(std::byte* to) const noexcept {
  const std::uint64_t head[2] = {min_write_ts_, notices_.size()};
  std::memcpy(to, head, sizeof head);
  if (!notices_.empty())
    std::memcpy(to + sizeof head, notices_.data(), notices_.size() * sizeof(WriteNotice));
}

bool Signature::merge_encoded(std::span<const std::byte> bytes) {
  std::uint64_t head[2];
  if (bytes.size() < sizeof head) return false;
  std::memcpy(head, bytes.data(), sizeof head);
  const std::size_t rest = bytes.size() - sizeof head;
  if (head[0] >= timestamp_limit || rest % sizeof(WriteNotice) != 0 || head[1] != rest / sizeof(WriteNotice))
    return false;
  std::vector<WriteNotice> notices(head[1]);
  if (!notices.empty()) std::memcpy(notices.data(), bytes.data() + sizeof head, rest);
  for (const WriteNotice& notice : notices) {
    if (notice.write_ts >= timestamp_limit || notice.read_ts >= timestamp_limit) return false;
  }
  raise_min(head[0]);
  add(notices);
  return true;
}

}  // namespace craton::coherence
