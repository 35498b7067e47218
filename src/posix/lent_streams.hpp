/// \file
/// What this rank has lent of its streams' buffers (loans.hpp), as stdio.cpp and file_service.cpp use it.
///
/// Each use of a stream that can be read and whose owner this rank is comes through here: with the stream's
/// lock, which the C library's function would take anyway, or without it where the program calls one that
/// takes none. What the headers have inline (getc_unlocked() say) finds an empty buffer while a loan is out,
/// and calls a function. What uses the stream inside of the C library (getwchar() say) finds one as well, and
/// reads on: the job ends with a message then, at the next use.
///
/// Threads: any of the program, and those that serve other ranks. Blocks until a loan is back.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>

#include "posix/forwarding.hpp"
#include "posix/loans.hpp"
#include "posix/real.hpp"
#include "posix/streams.hpp"

namespace craton::posix {

/// Of this rank. One for the process.
struct LentStreams {
  /// Of a stream.
  struct State {
    Lent lent;
    char* from = nullptr;  ///< what was unread when it was lent
    char* end = nullptr;
  };

  State& of(FILE* stream) noexcept {
    return stream == stdin ? input : files[stream_memory().index_of(stream)];
  }

  bool can_lend = false;  ///< other ranks can ask for streams of this one
  fabric::Rank rank = 0;
  State input;
  std::array<State, StreamMemory::files_most> files{};
};
extern LentStreams lent_streams;

/// Of this rank's, and of a kind that can be lent.
inline bool may_be_lent(FILE* stream) noexcept {
  constexpr int no_reads = 0x4;  // _IO_NO_READS of the headers, which undefine it
  return lent_streams.can_lend && (stream_memory().owns(stream) || stream == stdin) &&
         (stream->_flags & no_reads) == 0;
}

/// Nothing of the stream is lent after this, until its lock is free. With its lock, or what stands for it.
/// \param user the rank for which it is used \param back what came along
void end_loan(FILE* stream, fabric::Rank user, LoanBack back) noexcept;
/// The same for a use by this rank.
inline void end_loan(FILE* stream) noexcept {
  const fabric::Rank here = lent_streams.rank;
  if (!lent_streams.of(stream).lent.is_settled(here)) [[unlikely]]
    end_loan(stream, here, {});
}

/// While one exists, the thread has the stream's lock, and nothing of the stream is lent. Does nothing with
/// streams that are never lent.
class StreamUse {
 public:
  explicit StreamUse(FILE* stream) noexcept : stream_(may_be_lent(stream) ? stream : nullptr) {
    if (stream_ == nullptr) return;
    CRATON_REAL(flockfile)(stream_);
    end_loan(stream_);
  }
  StreamUse(FILE* stream, fabric::Rank user, LoanBack back) noexcept
      : stream_(may_be_lent(stream) ? stream : nullptr) {
    if (stream_ == nullptr) return;
    CRATON_REAL(flockfile)(stream_);
    end_loan(stream_, user, back);
  }
  StreamUse(const StreamUse&) = delete;
  StreamUse& operator=(const StreamUse&) = delete;
  ~StreamUse() {
    if (stream_ != nullptr) CRATON_REAL(funlockfile)(stream_);
  }

  /// The last use was of the same rank's: lends it what the stream has read ahead, if anything, and puts that
  /// behind the bytes.
  void lend(fabric::Rank to, Returned& returned, ForwardedBytes& bytes) noexcept;

 private:
  FILE* const stream_;
};

/// A stream's lock, held over several calls that look like one.
class StreamLock {
 public:
  explicit StreamLock(FILE* stream) noexcept : stream_(stream) { CRATON_REAL(flockfile)(stream_); }
  StreamLock(const StreamLock&) = delete;
  StreamLock& operator=(const StreamLock&) = delete;
  ~StreamLock() { CRATON_REAL(funlockfile)(stream_); }

 private:
  FILE* const stream_;
};

/// With the stream's lock, which the program has, or nobody needs.
class UnlockedStreamUse {
 public:
  explicit UnlockedStreamUse(FILE* stream) noexcept {
    if (may_be_lent(stream)) end_loan(stream);
  }
};

/// At the program's end: the files' positions are where the program has read to.
void end_all_loans() noexcept;

}  // namespace craton::posix
