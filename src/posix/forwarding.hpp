/// \file
/// I/O forwarding: calls on what another rank's process has (its streams, standard input, descriptors) are
/// made there, on a thread of the runtime's.
///
///     fputs(text, stream) on rank r ──▶ messages to the stream's rank: a thread there calls the real one
///                                   ◀── answer, with what it has returned, errno, and what was read
///
/// Compute nodes without a file system of their own leave their calls to I/O nodes so (Iskra et al., "ZOID:
/// I/O-forwarding infrastructure for petascale architectures", PPoPP 2008).
///
/// Each call has a *line* to that rank, and each line a thread there, which may wait as long as the call
/// does: for a terminal, or for a stream's lock. A line is free for others again when its call has returned,
/// unless that has taken a stream's lock: then it is this thread's until it has given all of them back, for
/// the lock is that of the thread there. So there are as many threads as calls were ever made at once.
///
/// Threads: any of the program, not in signal handlers. Blocks.
#pragma once

#include <pthread.h>
#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "posix/loans.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

/// In place of an offset: where the file's own is.
inline constexpr std::int64_t own_offset = INT64_MIN;

/// What is asked of another rank.
enum class ForwardedCall : std::uint32_t {
  // of a stream
  write,  ///< the bytes
  read,   ///< first: how many bytes
  get,
  unget,      ///< first: the character
  line,       ///< first: how many bytes at most; second: what it ends with
  long_line,  ///< as line; where it goes on behind that many, the stream is locked, and 1 is returned
  seek,       ///< first: offset; second: from where
  tell,
  rewind,
  flush,
  close,
  close_command,
  lock,
  try_lock,
  unlock,
  number,
  buffer,  ///< first: mode; second: bytes
  at_end,
  failed,
  clear,
  recall,  ///< of a rank that may have a loan of it. first: the loan; returned: how much is unread
  // of a descriptor
  read_file,      ///< first: how many bytes; second: from which offset, or own_offset
  write_file,     ///< the bytes; second: to which offset, or own_offset
  seek_file,      ///< first: offset; second: from where
  status_file,    ///< comes back as bytes
  control_file,   ///< fcntl(). first: the command; second: its argument, a number
  truncate_file,  ///< first: bytes
  sync_file,
  sync_data,
  close_file,
  // of the C library
  flush_all,  ///< fflush() of all its streams
  // of Fortran's library
  write_unit,  ///< first: the unit; the bytes
  // of a child
  wait_child,       ///< wait4(). object: the process; first: flags; a ChildEnd comes back
  inform_of_child,  ///< waitid(). object: the number; first: of what; second: flags; a siginfo_t comes back
};

struct ChildEnd {
  int status = 0;
  rusage usage{};
};

struct Forwarded {
  ForwardedCall call;
  std::uint64_t object;  ///< the stream's address; 0: standard input. Or the number of a descriptor
  std::int64_t first = 0;
  std::int64_t second = 0;
  LoanBack back{};  ///< of a stream: of the rank that asks
};

struct Returned {
  std::int64_t value = 0;
  std::int32_t error = 0;   ///< errno; 0: it was left as it is
  bool is_refused = false;  ///< there is no such thing that can be forwarded
  bool is_at_end = false;   ///< of a stream: what feof() says after the call
  bool has_failed = false;  ///< and ferror()
  bool may_wait = false;    ///< of a stream: nobody misses what it has not been given yet
  LoanNumber loan = 0;      ///< of a stream: the rank that asks has it now
  std::uint64_t lent = 0;   ///< of the bytes, at their end
};

/// The call needs what the stream has read ahead, so that no loan of it may be out. Not that of a lock that
/// must not wait, for with the lock alone a loan ends.
inline bool needs_buffer(ForwardedCall call) noexcept {
  using Call = ForwardedCall;
  return call != Call::unlock && call != Call::try_lock && call != Call::number && call != Call::at_end &&
         call != Call::failed && call != Call::clear;
}

/// The call has taken the stream's lock, and the thread that has made it has it now.
inline bool has_locked(ForwardedCall call, const Returned& returned) noexcept {
  if (call == ForwardedCall::long_line) return returned.value == 1;
  return (call == ForwardedCall::lock || call == ForwardedCall::try_lock) && returned.value == 0 &&
         !returned.is_refused;
}

/// What goes along with a call or comes back, in private memory.
using ForwardedBytes = std::vector<std::byte>;
/// More than this is moved by several calls.
inline constexpr std::size_t forwarded_bytes_most = std::size_t{1024} * 1024;

class Forwarding {
 public:
  /// Before the program starts. \param handler the same on all ranks
  Forwarding(SharedProgram& program, fabric::HandlerId handler);
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

  /// \param bytes what the call needs, up to forwarded_bytes_most; then what it has read
  Returned ask(fabric::Rank owner, const Forwarded& call, ForwardedBytes& bytes) noexcept;

 private:
  enum class Kind : std::uint32_t { call, answer };
  /// Of each message; as much of the bytes as there is room for follows.
  struct Head {
    Kind kind;
    std::uint32_t line;
    std::uint64_t bytes;  ///< of all messages of this call or answer
    Forwarded call;       ///< of a call
    Returned returned;    ///< of an answer
  };
  /// At the rank that asks.
  struct Line {
    fabric::Rank owner;
    std::uint32_t number;
    pthread_t user = 0;  ///< 0: nobody
    unsigned locks = 0;  ///< of streams there, that its user has
    std::atomic<bool> is_answered{false};
    Returned returned{};
    ForwardedBytes bytes;
  };
  /// At the rank that is asked.
  struct Served {
    Served(Forwarding& asked, fabric::Rank asker, std::uint32_t number) noexcept
        : self(asked), by(asker), line(number) {}

    Forwarding& self;
    fabric::Rank by;
    std::uint32_t line;
    Forwarded call{};
    ForwardedBytes bytes;
    std::atomic<std::uint32_t> is_asked{0};
  };

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void* serve(void* served) noexcept;
  void asked(fabric::Rank by, const Head& head, const std::byte* bytes, std::size_t count) noexcept;
  void answered(const Head& head, const std::byte* bytes, std::size_t count) noexcept;
  void send(fabric::Rank to, Head head, const ForwardedBytes& bytes) noexcept;
  Line& take_line(fabric::Rank owner);
  void put_back(Line& line, ForwardedCall call, const Returned& returned) noexcept;

  SharedProgram& program_;
  const fabric::HandlerId handler_;
  std::mutex lock_;  ///< of the lines
  std::vector<std::unique_ptr<Line>> lines_;
  std::map<std::pair<fabric::Rank, std::uint32_t>, std::unique_ptr<Served>> served_;  ///< of the handler
};

/// Of this process; null before the program has started, in handlers of signals, in children that share its
/// memory, and where it has one rank only.
Forwarding* forwarding_now() noexcept;
/// Collective in so far as all ranks must have done so before any forwards.
void start_forwarding(SharedProgram& program);

/// Makes a call that another rank has forwarded. Blocks as that does. \param bytes what came along; then what
/// was read, and what is lent (file_service.cpp) \param by the rank that asks
Returned serve_call(fabric::Rank by, const Forwarded& call, ForwardedBytes& bytes);

}  // namespace craton::posix
