#include "posix/kernel_memory.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/kept_errno.hpp"
#include "posix/pages.hpp"

namespace craton::posix {

namespace {

std::byte* map_private(std::size_t bytes) noexcept {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) return static_cast<std::byte*>(memory);
  errno = ENOMEM;
  return nullptr;
}

/// A piece that a thread keeps, since mapping one for each call would cost more than the copy.
struct ThreadPiece {
  std::byte* memory = nullptr;
  bool in_use = false;  ///< by a call that a signal has interrupted

  ~ThreadPiece() {
    if (memory != nullptr) ::munmap(memory, piece_bytes);
    memory = nullptr;
    in_use = true;
  }
};
thread_local ThreadPiece thread_piece;

}  // namespace

PrivateBuffer::PrivateBuffer(std::size_t bytes, Life life) noexcept {
  const bool is_once = life == Life::once && bytes != 0;
  if (bytes <= small_bytes && !is_once) return;
  ThreadPiece& of_thread = thread_piece;
  if (bytes <= piece_bytes && !of_thread.in_use && !is_once) {
    of_thread.in_use = is_threads_ = true;
    if (of_thread.memory == nullptr) of_thread.memory = map_private(piece_bytes);
    begin_ = of_thread.memory;
    return;
  }
  begin_ = map_private(bytes);
  if (begin_ != nullptr) mapped_bytes_ = bytes;
}

bool keeps_messages(int fd) noexcept {
  const KeptErrno kept;
  int type = 0;
  socklen_t bytes = sizeof type;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type != SOCK_STREAM;
}

std::size_t received_at_once(int fd, std::size_t bytes, int flags) noexcept {
  constexpr std::size_t part_bytes = std::size_t{1024} * 1024;
  if (bytes <= part_bytes || (flags & MSG_WAITALL) != 0) return bytes;
  return keeps_messages(fd) ? std::min(bytes, at_once_bytes_most) : part_bytes;
}

PrivateBuffer::~PrivateBuffer() {
  if (is_threads_) thread_piece.in_use = false;
  if (mapped_bytes_ != 0) ::munmap(begin_, mapped_bytes_);
}

void Name::copy() noexcept {
  const std::size_t length = ::strnlen(text_, PATH_MAX);
  std::memcpy(copy_, text_, length);
  copy_[length] = '\0';  // one that is too long stays so
  text_ = copy_;
}

Text::Text(const char* text) noexcept
    : copy_(posix::may_fault(text) ? std::strlen(text) + 1 : 0), text_(text) {
  if (!posix::may_fault(text) || copy_.data() == nullptr) return;
  std::memcpy(copy_.data(), text, std::strlen(text) + 1);
  text_ = reinterpret_cast<const char*>(copy_.data());
}

void put_back(void* original, const void* before, const void* now, std::size_t bytes) noexcept {
  const auto* const old_bytes = static_cast<const std::byte*>(before);
  const auto* const new_bytes = static_cast<const std::byte*>(now);
  const std::byte* const end = new_bytes + bytes;
  const std::byte* const first = std::mismatch(new_bytes, end, old_bytes).first;
  const std::byte* last = end;
  while (last != first && last[-1] == old_bytes[last - new_bytes - 1]) --last;
  if (last != first)
    std::memcpy(static_cast<std::byte*>(original) + (first - new_bytes), first,
                static_cast<std::size_t>(last - first));
}

Values::Values(const void* original, std::size_t bytes) noexcept
    : copy_(posix::may_fault(original) ? bytes : 0), used_(original) {
  if (!posix::may_fault(original) || copy_.data() == nullptr) return;
  std::memcpy(copy_.data(), original, bytes);
  used_ = copy_.data();
}

Results::Results(void* original, std::size_t bytes) noexcept
    : original_(original),
      bytes_(bytes),
      copies_(posix::may_fault(original) ? 2 * bytes : 0),
      used_(original) {
  if (!posix::may_fault(original) || copies_.data() == nullptr) return;
  std::memcpy(copies_.data(), original, bytes);
  used_ = copies_.data() + bytes;
  std::memcpy(used_, copies_.data(), bytes);
}

Results::~Results() {
  if (used_ != original_) put_back(original_, copies_.data(), used_, bytes_);
}

Pieces::Pieces(const iovec* pieces, int count) noexcept : pieces_(pieces), count_(count) {
  may_fault_ = count > 0 && posix::may_fault(pieces);
  for (int i = 0; i < count; ++i) {
    // One that is too long makes the sum so.
    bytes_ = pieces[i].iov_len > SIZE_MAX - bytes_ ? SIZE_MAX : bytes_ + pieces[i].iov_len;
    may_fault_ = may_fault_ || posix::may_fault(pieces[i].iov_base);
  }
}

template <typename Copy>
void Pieces::for_part(std::size_t offset, std::size_t bytes, Copy copy) const noexcept {
  std::size_t done = 0;
  for (int i = 0; i < count_ && done < bytes; ++i) {
    if (offset >= pieces_[i].iov_len) {
      offset -= pieces_[i].iov_len;
      continue;
    }
    const std::size_t part = std::min(pieces_[i].iov_len - offset, bytes - done);
    copy(static_cast<std::byte*>(pieces_[i].iov_base) + offset, done, part);
    done += part;
    offset = 0;
  }
}

void Pieces::gather(void* to, std::size_t offset, std::size_t bytes) const noexcept {
  for_part(offset, bytes, [to](const std::byte* piece, std::size_t at, std::size_t part) {
    std::memcpy(static_cast<std::byte*>(to) + at, piece, part);
  });
}

void Pieces::scatter(const void* from, std::size_t offset, std::size_t bytes) const noexcept {
  for_part(offset, bytes, [from](std::byte* piece, std::size_t at, std::size_t part) {
    std::memcpy(piece, static_cast<const std::byte*>(from) + at, part);
  });
}

void touch(const void* begin, std::size_t bytes, bool write) noexcept {
  if (bytes == 0) return;
  const auto* const first = static_cast<const std::byte*>(begin);
  for (std::size_t at = 0; at < bytes;) {
    const std::byte* const place = first + at;
    if (!may_fault(place)) return;
    // Adds nothing: what another thread stores there meanwhile stays.
    std::atomic_ref<unsigned char> byte(
        *const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(place)));
    if (write) {
      byte.fetch_or(0, std::memory_order_relaxed);
    } else {
      static_cast<void>(byte.load(std::memory_order_relaxed));
    }
    at += page_bytes - reinterpret_cast<std::uintptr_t>(place) % page_bytes;
  }
}

void touch_texts(const char* const* list) noexcept {
  if (list == nullptr) return;
  std::size_t count = 0;
  for (; list[count] != nullptr; ++count) {
    if (may_fault(list[count])) touch(list[count], std::strlen(list[count]) + 1, false);
  }
  touch(list, (count + 1) * sizeof *list, false);
}

}  // namespace craton::posix
