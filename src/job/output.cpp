#include "job/output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::job {

void LineAssembler::add(std::string_view bytes, std::string& lines) {
  if (prefix_.empty()) {
    // No need to look at each line: everything up to the last end of a line goes through in one piece.
    const std::size_t last_end = bytes.rfind('\n');
    if (last_end != std::string_view::npos) {
      lines += std::exchange(partial_, {});
      lines += bytes.substr(0, last_end + 1);
      is_shown_ = false;
      bytes.remove_prefix(last_end + 1);
    }
    partial_ += bytes;
    if (partial_.size() > max_line_bytes) lines += std::exchange(partial_, {});
    return;
  }
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const bool whole = end != std::string_view::npos;
    const std::size_t room = max_line_bytes - partial_.size();
    const std::size_t length = std::min(whole ? end : bytes.size(), room);
    partial_ += bytes.substr(0, length);
    bytes.remove_prefix(length);
    if (whole && length == end) bytes.remove_prefix(1);
    if ((whole && length == end) || partial_.size() == max_line_bytes) {
      begin_line(lines);
      lines += std::exchange(partial_, {});
      lines += '\n';
      is_shown_ = false;
    }
  }
}

void LineAssembler::begin_line(std::string& lines) {
  if (!is_shown_) lines += prefix_;
}

void LineAssembler::finish(std::string& lines) {
  if (partial_.empty() && !is_shown_) return;
  begin_line(lines);
  lines += std::exchange(partial_, {});
  if (!prefix_.empty()) lines += '\n';
  is_shown_ = false;
}

void LineAssembler::show(std::string& lines) {
  begin_line(lines);
  lines += std::exchange(partial_, {});
  is_shown_ = true;
}

namespace {

UniqueFd unnamed_file() {
  const char* chosen = std::getenv("TMPDIR");
  const std::string directory = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
  UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) {  // a file system that has no O_TMPFILE
    std::string path = directory + "/craton-output-XXXXXX";
    file.reset(::mkostemp(path.data(), O_CLOEXEC));
    if (file) ::unlink(path.c_str());
  }
  if (!file) {
    throw Error::from_errno("cannot keep the output of ranks whose turn has not come in " + directory, errno,
                            {}, "set TMPDIR to a directory with room, or use --output prefix");
  }
  return file;
}

}  // namespace

void Spool::append(std::string_view bytes) {
  if (file_begin_ == file_end_ && memory_.size() + bytes.size() <= max_memory_bytes) {
    memory_ += bytes;
    return;
  }
  if (!file_) file_ = unnamed_file();
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(file_end_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Error::from_errno("cannot keep the output of ranks whose turn has not come", errno, {},
                              "set TMPDIR to a directory with room, or use --output prefix");
    }
    file_end_ += static_cast<std::uint64_t>(count);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string Spool::take(std::size_t max_bytes) {
  if (!memory_.empty()) {
    std::string taken = memory_.substr(0, max_bytes);
    memory_.erase(0, taken.size());
    return taken;
  }
  std::string taken(std::min<std::uint64_t>(max_bytes, file_end_ - file_begin_), '\0');
  ssize_t count = 0;
  do {
    count = ::pread(file_.get(), taken.data(), taken.size(), static_cast<off_t>(file_begin_));
  } while (count < 0 && errno == EINTR);
  if (count <= 0) throw Error::from_errno("cannot read back the output of a rank", count < 0 ? errno : EIO);
  taken.resize(static_cast<std::size_t>(count));
  file_begin_ += static_cast<std::uint64_t>(count);
  if (file_begin_ == file_end_) {
    file_begin_ = file_end_ = 0;
    file_.reset();
  }
  return taken;
}

Sink::Sink(EventLoop& loop, int fd, std::function<void(Rank, std::size_t)> written)
    : loop_(loop), fd_(fd), written_(std::move(written)) {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    broken_ = true;  // closed by whoever started us: there is nowhere to write to
  } else {
    regular_ = S_ISREG(status.st_mode);
    socket_ = S_ISSOCK(status.st_mode);
  }
}

Sink::~Sink() {
  if (waits_) loop_.unwatch(fd_);
}

void Sink::write(Rank owner, std::string text, std::size_t credit_bytes) {
  if (text.empty()) return;
  if (line_unfinished_ && owner != last_owner_) text.insert(text.begin(), '\n');
  line_unfinished_ = text.back() != '\n';
  last_owner_ = owner;
  queued_bytes_ += text.size();
  pieces_.push_back({owner, std::move(text), credit_bytes});
  if (!waits_) write_pieces();
}

std::size_t Sink::write_some(std::string_view text) {
  if (broken_) return text.size();
  std::size_t length = text.size();
  if (!regular_ && !socket_) {
    pollfd ready{fd_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return 0;
    length = std::min<std::size_t>(length, PIPE_BUF);  // what a pipe that is ready takes without blocking
  }
  const ssize_t count = socket_ ? ::send(fd_, text.data(), length, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : ::write(fd_, text.data(), length);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return 0;
  broken_ = true;
  unread_ = errno == EPIPE;  // whoever closes a pipe wants no more of it
  if (!unread_) failed_ = errno;
  return text.size();
}

void Sink::write_pieces() {
  // Bounded, so that endless output does not keep signals and deaths waiting.
  for (std::size_t left = 1U << 20U; !pieces_.empty() && left > 0;) {
    Piece& piece = pieces_.front();
    const std::size_t count = write_some(std::string_view(piece.text).substr(written_of_front_));
    if (count == 0 && written_of_front_ < piece.text.size()) break;
    written_of_front_ += count;
    queued_bytes_ -= count;
    left -= std::min(left, count);
    if (written_of_front_ < piece.text.size()) continue;
    const Rank owner = piece.owner;
    const std::size_t credit_bytes = piece.credit_bytes;
    pieces_.pop_front();
    written_of_front_ = 0;
    written_(owner, credit_bytes);
  }
  const bool wait = !pieces_.empty();
  if (wait == waits_) return;
  waits_ = wait;
  if (!wait) {
    loop_.unwatch(fd_);
    free_since_ns_ = loop_.clock().now_ns();
  } else if (!loop_.watch(fd_, EPOLLOUT, [this](std::uint32_t) { write_pieces(); })) {
    waits_ = false;  // a file that epoll does not know never blocks
    write_pieces();
  }
}

std::string Output::prefix_of(OutputMode mode, Rank rank) {
  return mode == OutputMode::raw ? std::string() : "[" + std::to_string(rank) + "] ";
}

Output::Output(EventLoop& loop, OutputMode mode, Rank size, int out_fd, int error_fd, Credit credit)
    : loop_(loop),
      mode_(mode),
      size_(size),
      credit_(std::move(credit)),
      sinks_{Sink(loop, out_fd, [this](Rank owner, std::size_t bytes) { piece_written(owner, bytes); }),
             Sink(loop, error_fd, [this](Rank owner, std::size_t bytes) { piece_written(owner, bytes); })} {
  streams_.reserve(std::size_t{size} * stream_count);
  for (Rank rank = 0; rank < size; ++rank) {
    for (std::size_t stream = 0; stream < stream_count; ++stream)
      streams_.emplace_back(prefix_of(mode, rank));
  }
}

Output::~Output() {
  if (awaits_quiet_) loop_.cancel_timer(quiet_timer_);
}

void Output::piece_written(Rank owner, std::size_t credit_bytes) {
  if (credit_bytes != 0) credit_(owner, credit_bytes);
  pump();
  await_quiet();  // of what has to wait until all before it is written
}

Output::RankStream& Output::stream_of(Rank rank, Stream stream) {
  CRATON_ASSERT(rank < size_);
  return streams_[rank * stream_count + static_cast<std::size_t>(stream)];
}

void Output::add(Rank rank, Stream stream, std::string_view bytes) {
  RankStream& from = stream_of(rank, stream);
  if (from.closed) return;
  note_writer(rank, stream, bytes);
  from.held_bytes += bytes.size();
  std::string lines;
  if (!sink_of(stream).is_in_line_of(rank)) from.lines.begin_anew();
  from.lines.add(bytes, lines);
  emit(rank, stream, std::move(lines));
  if (from.lines.holds_back()) await_quiet();
}

bool Output::is_live(Rank rank, Stream stream) {
  return mode_ != OutputMode::ordered || (rank == turn_ && stream_of(rank, stream).spool.empty());
}

void Output::note_writer(Rank rank, Stream stream, std::string_view bytes) {
  RankStream& from = stream_of(rank, stream);
  from.came_ns = loop_.clock().now_ns();
  from.goes_on = bytes.size() % full_buffer_bytes == 0;
  Writers& writers = writers_[static_cast<std::size_t>(stream)];
  if (writers.last != rank) writers.others_ns = writers.last_ns;
  writers.last = rank;
  writers.last_ns = from.came_ns;
}

/// When what a live stream holds back of a line is shown, if nothing more comes.
TimeNs Output::shown_at_ns(Rank rank, Stream stream) {
  const RankStream& from = stream_of(rank, stream);
  const Writers& writers = writers_[static_cast<std::size_t>(stream)];
  const TimeNs others_ns = writers.last == rank ? writers.others_ns : writers.last_ns;
  TimeNs at_ns = from.came_ns + (from.goes_on ? long_quiet_ns : quiet_ns);
  if (mode_ != OutputMode::ordered && others_ns != 0)
    at_ns = std::max(at_ns, std::min(others_ns, from.came_ns) + long_quiet_ns);
  // As long as the sink was not free, the rank may have had no room for the rest.
  return std::max(at_ns, sink_of(stream).free_since_ns() + quiet_ns);
}

void Output::await_quiet() {
  if (std::exchange(awaits_quiet_, true)) return;
  quiet_timer_ = loop_.start_timer(quiet_ns, [this] { show_unfinished(); });
}

void Output::show_unfinished() {
  awaits_quiet_ = false;
  bool some_wait = false;
  for (Rank rank = 0; rank < size_; ++rank) {
    for (const Stream stream : {Stream::out, Stream::error}) {
      RankStream& from = stream_of(rank, stream);
      if (!from.lines.holds_back() || !is_live(rank, stream) || !sink_of(stream).empty()) continue;
      if (shown_at_ns(rank, stream) > loop_.clock().now_ns()) {
        some_wait = true;
        continue;
      }
      std::string line;
      from.lines.show(line);
      emit(rank, stream, std::move(line));
    }
  }
  if (some_wait) await_quiet();
}

void Output::emit(Rank rank, Stream stream, std::string lines) {
  if (lines.empty()) return;
  RankStream& from = stream_of(rank, stream);
  const std::size_t credit_bytes = std::exchange(from.held_bytes, 0);
  if (is_live(rank, stream)) return sink_of(stream).write(rank, std::move(lines), credit_bytes);
  from.spool.append(lines);
  credit_(rank, credit_bytes);
}

void Output::close(Rank rank, Stream stream) {
  RankStream& from = stream_of(rank, stream);
  if (from.closed) return;
  std::string lines;
  if (!sink_of(stream).is_in_line_of(rank)) from.lines.begin_anew();
  from.lines.finish(lines);
  emit(rank, stream, std::move(lines));
  from.closed = true;
  pump();
}

void Output::close_all() {
  for (Rank rank = 0; rank < size_; ++rank) {
    close(rank, Stream::out);
    close(rank, Stream::error);
  }
}

void Output::pump() {
  if (progress_) progress_();
  // Writing to a sink calls pump again when it succeeds at once; the outer call goes on then.
  if (mode_ != OutputMode::ordered || pumping_) return;
  pumping_ = true;
  while (turn_ < size_) {
    bool all_taken = true;
    for (const Stream stream : {Stream::out, Stream::error}) {
      Spool& spool = stream_of(turn_, stream).spool;
      while (!spool.empty() && sink_of(stream).queued_bytes() < pump_bytes) {
        sink_of(stream).write(turn_, spool.take(pump_bytes), 0);
      }
      all_taken = all_taken && spool.empty() && stream_of(turn_, stream).closed;
    }
    if (!all_taken) break;
    ++turn_;
    await_quiet();  // of what the next rank holds back
  }
  pumping_ = false;
}

std::optional<int> Output::failure() const noexcept {
  for (const Sink& sink : sinks_) {
    if (sink.failure()) return sink.failure();
  }
  return std::nullopt;
}

// The launcher is an owner of its own, one above all ranks.
void Output::say(const std::string& line) {
  sink_of(Stream::error).write(size_, line + "\n", 0);
}

bool Output::drained() const noexcept {
  if (mode_ == OutputMode::ordered && turn_ < size_) return false;
  return sinks_[0].empty() && sinks_[1].empty();
}

}  // namespace craton::job
