/// \file
/// Streams and descriptors that another rank's process has, as stdio.cpp and transfers.cpp use them
/// (forwarding.hpp).
///
/// Standard input is rank 0's for all: what one thread has read is gone for the others. A descriptor of rank
/// 0's is used so where it cannot be borrowed (descriptors.hpp), on another node.
///
/// A call costs a message there and one back, and what it takes to wake a thread: 20 us on a host, 150 where
/// others compute on all processors. So what is written to a file that is fully buffered waits here, as it
/// would in the stream's own buffer, until this rank releases to others (send_what_waits()), uses the stream
/// otherwise, or has much: the file then has what all have written in the order that synchronisation gives
/// it.
///
/// Where no answer can be had (directories; streams in the program's memory, fmemopen() say; handlers of
/// signals) the job ends with a message.
///
/// Threads: any of the program. Blocks as long as the call would.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "posix/forwarding.hpp"
#include "posix/loans.hpp"
#include "posix/streams.hpp"

namespace craton::posix {

/// This rank's standard input is rank 0's.
bool input_is_elsewhere() noexcept;

/// The stream is another rank's.
inline bool is_elsewhere(FILE* stream) noexcept {
  return stream_memory().is_foreign(stream) || (stream == stdin && input_is_elsewhere());
}

/// Ends the job where it is, for a function that is not forwarded.
inline void check_own(FILE* stream, const char* function) noexcept {
  if (is_elsewhere(stream)) [[unlikely]]
    refuse_foreign_stream(stream, function);
}

/// Of this rank's: for how many something waits, or is being sent.
extern std::atomic<std::uint32_t> streams_that_wait;
void send_all_that_waits() noexcept;
/// Before a release: what this rank has written to streams of others goes there. Returns when it is there,
/// whichever thread sends it. Any thread of the program.
inline void send_what_waits() noexcept {
  if (streams_that_wait.load(std::memory_order_relaxed) != 0) [[unlikely]]
    send_all_that_waits();
}

/// fflush(NULL) on all other ranks, in handlers of signals on none. \returns whether all could be written;
/// errno says why not
bool flush_other_ranks() noexcept;

/// What this rank has of another's stream. It stays where it is. Any thread.
Borrowed& borrowed(FILE* stream) noexcept;

/// vfscanf() as the program has called it.
struct Scan {
  int (*real)(FILE* stream, const char* format, va_list arguments);
  const char* format;
  bool allocates;  ///< perhaps: the format has the letter

  int operator()(FILE* stream, va_list arguments) const;
};

/// A stream for which is_elsewhere() holds, for the length of a call.
class RemoteStream {
 public:
  /// \param function for messages
  RemoteStream(FILE* stream, const char* function) noexcept : stream_(stream), function_(function) {}

  /// One that needs no bytes, when what waits for the stream is there. \returns what it has returned there
  std::int64_t call(ForwardedCall what, std::int64_t first = 0, std::int64_t second = 0) noexcept;

  // As the C library's, with memory of the program's. From a loan where there is one that has enough.
  std::size_t write(const void* from, std::size_t bytes) noexcept;
  std::size_t read(void* to, std::size_t bytes) noexcept;
  int put(int character) noexcept;
  int get() noexcept;
  int unget(int character) noexcept;
  /// feof() and ferror()
  bool is_at_end() noexcept;
  bool has_failed() noexcept;
  char* line(char* to, int most) noexcept;
  /// \param flag of what was built with _FORTIFY_SOURCE
  int print(const char* format, va_list arguments, int flag = 0) noexcept;
  int scan(const Scan& scan, va_list arguments) noexcept;
  /// fgetpos()
  template <typename Position>
  int position(Position* position) noexcept {
    const std::int64_t offset = call(ForwardedCall::tell);
    if (offset < 0) return -1;
    *position = {};
    position->__pos = offset;
    return 0;
  }
  /// fileno(). Ends the job where the number means nothing here: of other ranks than 0.
  int number() noexcept;

  /// A line of any length, its end included. \returns false at the end, or after an error, with nothing read
  bool line(std::string& text, int end) noexcept;

 private:
  Returned ask(ForwardedCall what, std::int64_t first, std::int64_t second, ForwardedBytes& bytes) noexcept;
  Returned ask_now(ForwardedCall what, std::int64_t first, std::int64_t second,
                   ForwardedBytes& bytes) noexcept;
  friend class WriteBehind;
  void mirror(const Returned& returned) noexcept;
  bool flag(int flag, ForwardedCall what) noexcept;
  template <typename Take>
  bool use_loan(const Take& take) noexcept;
  std::optional<int> scan_loan(const Scan& scan, va_list arguments) noexcept;
  static ssize_t read_one(void* self, char* to, std::size_t bytes);

  FILE* const stream_;
  const char* const function_;
};

/// A descriptor of rank 0's, which is on another node.
class RemoteFile {
 public:
  /// \returns whether it is one
  static bool is_one(int number) noexcept;
  explicit RemoteFile(int number) noexcept : number_(number) {}

  /// \returns what it has returned there, with errno
  std::int64_t call(ForwardedCall what, std::int64_t first = 0, std::int64_t second = 0) noexcept;
  /// \param status as fstat() and fstat64() have it, which are the same on this machine
  int status(void* status) noexcept;

  /// \param offset where in the file; own_offset: where its own is \param put (from, bytes, done) gets what
  /// was read. A read of more than forwarded_bytes_most may be in parts, between which others may read
  template <typename Put>
  ssize_t read(std::size_t bytes, std::int64_t offset, Put put) noexcept {
    ForwardedBytes piece;
    std::size_t done = 0;
    for (;;) {
      const std::size_t wanted = std::min(bytes - done, forwarded_bytes_most);
      piece.clear();
      const std::int64_t got =
          ask(ForwardedCall::read_file, static_cast<std::int64_t>(wanted), next(offset, done), piece).value;
      if (got < 0) return done != 0 ? static_cast<ssize_t>(done) : -1;
      put(piece.data(), piece.size(), done);
      done += piece.size();
      if (done == bytes || piece.size() < wanted || !is_regular()) return static_cast<ssize_t>(done);
    }
  }
  /// \param take (to, bytes, done) gives what is to be written
  template <typename Take>
  ssize_t write(std::size_t bytes, std::int64_t offset, Take take) noexcept {
    ForwardedBytes piece;
    std::size_t done = 0;
    do {
      const std::size_t wanted = std::min(bytes - done, forwarded_bytes_most);
      piece.resize(wanted);
      take(piece.data(), wanted, done);
      const std::int64_t put = ask(ForwardedCall::write_file, 0, next(offset, done), piece).value;
      if (put < 0) return done != 0 ? static_cast<ssize_t>(done) : -1;
      done += static_cast<std::size_t>(put);
      if (static_cast<std::size_t>(put) < wanted) break;
    } while (done < bytes);
    return static_cast<ssize_t>(done);
  }

 private:
  static std::int64_t next(std::int64_t offset, std::size_t done) noexcept {
    return offset == own_offset ? own_offset : offset + static_cast<std::int64_t>(done);
  }
  Returned ask(ForwardedCall what, std::int64_t first, std::int64_t second, ForwardedBytes& bytes) noexcept;
  bool is_regular() noexcept;

  const int number_;
};

}  // namespace craton::posix
