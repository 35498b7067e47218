/// \file
/// From the output streams of ranks to the launcher's standard output and error: whole lines, with or without
/// a prefix, as they come or ordered by rank. What has no end of a line is shown when nothing follows.
///
///   rank's bytes ─▶ LineAssembler ─▶ (ordered, and not its turn: Spool) ─▶ Sink ─▶ file descriptor
///
/// Invariant: of each rank, at most output_window_bytes are held in memory: its node gets credit for more
/// only when bytes have left the sink or lie in a spool, and a spool keeps what is over its limit in an
/// unlinked file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "job/event_loop.hpp"
#include "job/messages.hpp"

namespace craton::job {

enum class OutputMode : std::uint8_t {
  raw,      ///< lines as they come, unchanged
  prefix,   ///< "[2] " before each line of rank 2
  ordered,  ///< with prefix, all lines of rank 0 first, then of rank 1...
};

/// Cuts a stream into lines.
class LineAssembler {
 public:
  /// A line longer than this is passed on in pieces: as it is without a prefix, as several lines with one.
  static constexpr std::size_t max_line_bytes = 64U << 10U;
  static_assert(stream_count * max_line_bytes < output_window_bytes,
                "unfinished lines of a rank must leave room in its window, or nothing would move any more");

  /// \param prefix put before each line; may be empty
  explicit LineAssembler(std::string prefix) : prefix_(std::move(prefix)) {}
  /// Appends to `lines` the lines that `bytes` complete.
  void add(std::string_view bytes, std::string& lines);
  /// Appends what is left, the last line without an end. With a prefix it gets one, so that the next prefix
  /// stands at the start of a line.
  void finish(std::string& lines);
  /// Appends what has come of an unfinished line; what comes next goes on with it.
  void show(std::string& lines);
  /// Another text has come between: what comes next begins a line.
  void begin_anew() noexcept { is_shown_ = false; }
  bool holds_back() const noexcept { return !partial_.empty(); }

 private:
  void begin_line(std::string& lines);

  std::string prefix_;
  std::string partial_;
  bool is_shown_ = false;  ///< the beginning of the line that partial_ goes on with
};

/// A queue of bytes that keeps little in memory and the rest in a file without a name.
class Spool {
 public:
  static constexpr std::size_t max_memory_bytes = 64U << 10U;

  /// \throws Error out_of_resources and others if the file cannot be made or written
  void append(std::string_view bytes);
  /// Takes up to `max_bytes` from the front. \throws Error
  std::string take(std::size_t max_bytes);
  bool empty() const noexcept { return memory_.empty() && file_begin_ == file_end_; }

 private:
  std::string memory_;  ///< the front of the queue
  UniqueFd file_;       ///< what comes after it: bytes file_begin_ to file_end_
  std::uint64_t file_begin_ = 0;
  std::uint64_t file_end_ = 0;
};

/// Writes to one of the launcher's own descriptors without ever blocking on it. The descriptor is shared with
/// other programs, so it is not made non-blocking: what is written at a time fits what poll promises.
class Sink {
 public:
  /// \param written called with the owner and the credit of each piece that has been written
  Sink(EventLoop& loop, int fd, std::function<void(Rank owner, std::size_t credit_bytes)> written);
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /// An unfinished line is ended before another owner's text, so that a rank alone gets its bytes as they are
  /// and several do not write into each other's lines. \param credit_bytes what to give back to the owner for
  /// it
  void write(Rank owner, std::string text, std::size_t credit_bytes);
  std::size_t queued_bytes() const noexcept { return queued_bytes_; }
  bool empty() const noexcept { return pieces_.empty(); }
  /// errno of a write that failed, but for that nobody reads.
  std::optional<int> failure() const noexcept { return failed_; }
  /// Whether the last text is an owner's and has no end of a line.
  bool is_in_line_of(Rank owner) const noexcept { return line_unfinished_ && last_owner_ == owner; }
  /// Since when nothing waits to be written that could not be written at once; 0: ever.
  TimeNs free_since_ns() const noexcept { return free_since_ns_; }
  /// A pipe or socket that its reader has closed.
  bool is_unread() const noexcept { return unread_; }

 private:
  struct Piece {
    Rank owner;
    std::string text;
    std::size_t credit_bytes;
  };
  void write_pieces();
  std::size_t write_some(std::string_view text);

  EventLoop& loop_;
  int fd_;
  bool regular_ = false;  ///< a file: never blocks
  bool socket_ = false;
  bool broken_ = false;  ///< nobody reads it any more, or it takes no more: what comes is dropped
  bool unread_ = false;
  std::optional<int> failed_;
  bool waits_ = false;
  std::function<void(Rank, std::size_t)> written_;
  std::deque<Piece> pieces_;
  std::size_t written_of_front_ = 0;
  Rank last_owner_ = 0;
  bool line_unfinished_ = false;
  TimeNs free_since_ns_ = 0;
  std::size_t queued_bytes_ = 0;
};

/// All output of a job.
class Output {
 public:
  using Credit = std::function<void(Rank rank, std::size_t bytes)>;

  /// \param out_fd, error_fd where the two streams go
  /// \param credit called when bytes of a rank are off its window
  Output(EventLoop& loop, OutputMode mode, Rank size, int out_fd, int error_fd, Credit credit);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Bytes of a rank have come. \throws Error if they cannot be kept
  void add(Rank rank, Stream stream, std::string_view bytes);
  /// A stream has ended. Idempotent. \throws Error
  void close(Rank rank, Stream stream);
  /// Ends all streams, also of ranks that were lost with their node. \throws Error
  void close_all();
  /// A line of the launcher itself, for standard error.
  void say(const std::string& line);
  /// errno of the first write that failed, although somebody may want what was lost.
  std::optional<int> failure() const noexcept;
  /// Nobody reads a stream any more, which was seen when something was to be written.
  bool is_unread(Stream stream) const noexcept {
    return sinks_[static_cast<std::size_t>(stream)].is_unread();
  }
  /// True when everything is written.
  bool drained() const noexcept;
  /// Called whenever something was written.
  void on_progress(std::function<void()> progress) { progress_ = std::move(progress); }

 private:
  /// A prompt, or the part of a line that tells of progress, is shown if nothing follows for this long.
  static constexpr TimeNs quiet_ns = 50'000'000;
  /// The same where other ranks write to the stream, whose text would cut the line in two.
  static constexpr TimeNs long_quiet_ns = 1'000'000'000;
  /// Of what comes in multiples of it, a stream's buffer was full: most likely it goes on.
  static constexpr std::size_t full_buffer_bytes = 4096;
  static constexpr std::size_t pump_bytes = 256U << 10U;  ///< how much spooled output is in a sink at a time

  struct RankStream {
    explicit RankStream(std::string prefix) : lines(std::move(prefix)) {}
    LineAssembler lines;
    Spool spool;
    std::size_t held_bytes = 0;  ///< came, not yet credited nor in a sink: an unfinished line
    TimeNs came_ns = 0;
    bool goes_on = false;  ///< what came last was full buffers
    bool closed = false;
  };
  /// Who wrote to a stream last, and when others did; 0: never.
  struct Writers {
    Rank last = 0;
    TimeNs last_ns = 0;
    TimeNs others_ns = 0;
  };
  static std::string prefix_of(OutputMode mode, Rank rank);
  RankStream& stream_of(Rank rank, Stream stream);
  void emit(Rank rank, Stream stream, std::string lines);
  bool is_live(Rank rank, Stream stream);
  void note_writer(Rank rank, Stream stream, std::string_view bytes);
  TimeNs shown_at_ns(Rank rank, Stream stream);
  void await_quiet();
  void show_unfinished();
  void pump();
  void piece_written(Rank owner, std::size_t credit_bytes);
  Sink& sink_of(Stream stream) { return sinks_[static_cast<std::size_t>(stream)]; }

  EventLoop& loop_;
  OutputMode mode_;
  Rank size_;
  Credit credit_;
  std::function<void()> progress_;
  std::array<Sink, stream_count> sinks_;
  std::vector<RankStream> streams_;  ///< by rank and stream
  std::array<Writers, stream_count> writers_{};
  bool awaits_quiet_ = false;  ///< a timer for show_unfinished runs
  EventLoop::TimerId quiet_timer_ = 0;
  Rank turn_ = 0;  ///< ordered: whose output is live
  bool pumping_ = false;
};

}  // namespace craton::job
