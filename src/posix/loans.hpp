/// \file
/// Loans: what the owner of a stream has read ahead, in the hands of a rank whose threads read the stream.
///
/// A call on a stream of another rank's costs a message there and one back (forwarding.hpp), and a program
/// that reads characters makes one for each. So with an answer the owner lends the rest of its buffer. The
/// rank that has it serves its threads from it, until it needs the owner for something else, and says with
/// that call how much is left; or until the owner recalls it, before anybody else uses the stream. The
/// owner's stream looks as if its buffer were empty meanwhile, and nobody touches the bytes: to take a loan
/// back is to move two pointers.
///
///     rank 1: get ──▶ rank 0: "a", and lends "bcdef", loan 7
///             get, get: "b", "c"
///                     rank 0: getc() ── recall 7 ──▶ rank 1 ── 3 are left ──▶ "d"
///
/// File servers that hand files to their clients do so (delegations: RFC 7530, section 10.4).
///
/// A call is served from a loan as a whole, or by the owner as a whole: a line of which a part only is here
/// is read there, so that no other thread's comes in between.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fabric/types.hpp"

namespace craton::posix {

/// Of an owner's; never used again, and each higher than those before. 0: none.
using LoanNumber = std::uint64_t;

/// What goes back along with a call.
struct LoanBack {
  LoanNumber number = 0;
  std::uint64_t unread = 0;  ///< bytes
};

/// In place of a number of bytes: as many as were lent.
inline constexpr std::uint64_t all_of_it = UINT64_MAX;

/// Of a stream, at its owner. All with the stream's lock, or what stands for it where the program uses the
/// functions that take none.
class Lent {
 public:
  bool is_out() const noexcept { return number_ != 0; }
  /// settle() has nothing to do.
  bool is_settled(fabric::Rank user) const noexcept { return number_ == 0 && user_ == user; }

  /// Before a use that needs the buffer. \param back what came along \param recall (rank, number) asks for
  /// what is out, and returns how much of it is unread \param restore (bytes) gives the stream its buffer
  /// back, of which so many have been read
  template <typename Recall, typename Restore>
  void settle(fabric::Rank user, LoanBack back, const Recall& recall, const Restore& restore) {
    is_again_ = std::exchange(user_, user) == user;
    if (!is_out()) return;
    const bool is_back = back.number == number_ && user == to_;
    const std::uint64_t unread = is_back ? back.unread : recall(to_, number_);
    restore(bytes_ - std::min<std::uint64_t>(unread, bytes_));
    number_ = 0;
  }

  /// The use before that of the last settle() was of the same rank's, so more of them may follow: ranks that
  /// take turns would only send loans to and fro.
  bool is_worth_it() const noexcept { return is_again_; }
  void lend(LoanNumber number, fabric::Rank to, std::uint64_t bytes) noexcept {
    number_ = number;
    to_ = to;
    bytes_ = bytes;
  }

 private:
  LoanNumber number_ = 0;
  fabric::Rank to_ = 0;
  fabric::Rank user_ = 0;  ///< of the last use
  bool is_again_ = false;
  std::uint64_t bytes_ = 0;
};

/// Of a stream, at a rank that reads it. A thread that has locked the stream has the loan for itself.
/// Threads: any.
class Borrowed {
 public:
  /// What a loan still holds, for calls whose need is not known before.
  struct Copy {
    LoanNumber number;
    std::size_t at;
    std::vector<std::byte> bytes;
  };

  /// A loan that `thread` may use is here: nobody else has used the stream since.
  bool is_here(pthread_t thread) noexcept {
    const std::lock_guard lock(lock_);
    return is_usable(thread);
  }
  /// \param take gets what is unread, and returns how many bytes it has taken. With a lock of the loan's, so
  /// it must not touch the program's memory. \returns whether it has taken any
  template <typename Take>
  bool use(pthread_t thread, const Take& take) {
    const std::lock_guard lock(lock_);
    if (!is_usable(thread)) return false;
    const std::size_t taken = take(std::span<const std::byte>(bytes_).subspan(at_));
    at_ += taken;
    return taken != 0;
  }
  /// \returns false where the byte is not the one that was read last
  bool unget(pthread_t thread, std::byte byte) noexcept {
    const std::lock_guard lock(lock_);
    if (!is_usable(thread) || at_ == 0 || bytes_[at_ - 1] != byte) return false;
    --at_;
    return true;
  }
  std::optional<Copy> copy(pthread_t thread) {
    const std::lock_guard lock(lock_);
    if (!is_usable(thread) || at_ == bytes_.size()) return std::nullopt;
    return Copy{.number = number_,
                .at = at_,
                .bytes = {bytes_.begin() + static_cast<std::ptrdiff_t>(at_), bytes_.end()}};
  }
  /// \returns false where the loan has been used or recalled since it was copied
  bool take(pthread_t thread, const Copy& copy, std::size_t bytes) noexcept {
    const std::lock_guard lock(lock_);
    if (!is_usable(thread) || number_ != copy.number || at_ != copy.at) return false;
    at_ += bytes;
    return true;
  }

  /// Before a call to the owner.
  LoanBack give_back(pthread_t thread) noexcept {
    const std::lock_guard lock(lock_);
    if (!is_usable(thread)) return {};
    is_here_ = false;
    return {.number = number_, .unread = bytes_.size() - at_};
  }
  /// It came with an answer.
  void store(LoanNumber number, std::span<const std::byte> bytes) {
    const std::lock_guard lock(lock_);
    if (number <= recalled_ || number <= number_) return;
    number_ = number;
    bytes_.assign(bytes.begin(), bytes.end());
    at_ = 0;
    is_here_ = true;
  }
  /// The owner wants it. \returns how much is unread, also where that is on its way to the owner, or where
  /// the loan is on its way here
  std::uint64_t recall(LoanNumber number) noexcept {
    const std::lock_guard lock(lock_);
    if (number != number_) {
      recalled_ = std::max(recalled_, number);
      return all_of_it;
    }
    is_here_ = false;
    return bytes_.size() - at_;
  }

  /// The thread has locked the stream.
  void locked(pthread_t thread) noexcept {
    const std::lock_guard lock(lock_);
    holder_ = thread;
    ++locks_;
  }
  /// It is about to unlock it.
  void unlocking(pthread_t thread) noexcept {
    const std::lock_guard lock(lock_);
    if (holder_ == thread && locks_ != 0 && --locks_ == 0) holder_ = 0;
  }

 private:
  bool is_usable(pthread_t thread) const noexcept { return is_here_ && (holder_ == 0 || holder_ == thread); }

  std::mutex lock_;
  LoanNumber number_ = 0;    ///< of the last that was stored
  LoanNumber recalled_ = 0;  ///< before it was stored
  bool is_here_ = false;
  pthread_t holder_ = 0;  ///< 0: no thread of this rank
  std::uint32_t locks_ = 0;
  std::size_t at_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace craton::posix
