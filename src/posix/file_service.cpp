// Calls that other ranks have forwarded, made in this process.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "posix/descriptors.hpp"
#include "posix/fortran_units.hpp"
#include "posix/forwarding.hpp"
#include "posix/lent_streams.hpp"
#include "posix/real.hpp"
#include "posix/remote_files.hpp"
#include "posix/streams.hpp"

namespace craton::posix {

namespace {

constexpr Returned refused{.value = -1, .is_refused = true};

/// A loan comes along where no more is asked for: who reads much does not need it.
constexpr std::int64_t small_read_most = 4096;

/// A stream's next bytes up to one that is `end`, and at most so many. \returns how many; -1 if it has failed
/// meanwhile
std::int64_t read_line(FILE* stream, std::size_t most, int end, ForwardedBytes& bytes) {
  ::flockfile(stream);
  int next = 0;
  while (bytes.size() < most && next != end) {
    next = ::getc_unlocked(stream);
    if (next == EOF) break;
    bytes.push_back(static_cast<std::byte>(next));
  }
  const bool has_failed = next == EOF && ::feof_unlocked(stream) == 0;
  ::funlockfile(stream);
  return has_failed ? -1 : static_cast<std::int64_t>(bytes.size());
}

/// Likewise, but keeps the stream locked where that is not the line's end. \returns whether it has, as the
/// call does
std::int64_t read_long_line(FILE* stream, std::size_t most, int end, ForwardedBytes& bytes) {
  ::flockfile(stream);
  const std::int64_t got = read_line(stream, most, end, bytes);
  const bool has_more = bytes.size() == most && static_cast<int>(bytes.back()) != end;
  if (!has_more) ::funlockfile(stream);
  return got < 0 ? got : (has_more ? 1 : 0);
}

std::int64_t call_on_stream(const Forwarded& call, FILE* stream, ForwardedBytes& bytes) {
  using Call = ForwardedCall;
  switch (call.call) {
    case Call::write: {
      const std::size_t written = ::fwrite(bytes.data(), 1, bytes.size(), stream);
      bytes.clear();
      return static_cast<std::int64_t>(written);
    }
    case Call::read:
      bytes.resize(static_cast<std::size_t>(call.first));
      bytes.resize(::fread(bytes.data(), 1, bytes.size(), stream));
      return static_cast<std::int64_t>(bytes.size());
    case Call::get:
      return ::getc(stream);
    case Call::unget:
      return ::ungetc(static_cast<int>(call.first), stream);
    case Call::line:
      return read_line(stream, static_cast<std::size_t>(call.first), static_cast<int>(call.second), bytes);
    case Call::long_line:
      return read_long_line(stream, static_cast<std::size_t>(call.first), static_cast<int>(call.second),
                            bytes);
    case Call::seek:
      return ::fseeko64(stream, call.first, static_cast<int>(call.second));
    case Call::tell:
      return ::ftello64(stream);
    case Call::rewind:
      ::rewind(stream);
      return 0;
    case Call::flush:
      return ::fflush(stream);
    case Call::lock:
      stream_memory().note_locked(stream);
      ::flockfile(stream);
      return 0;
    case Call::try_lock:
      stream_memory().note_locked(stream);
      return ::ftrylockfile(stream);
    case Call::unlock:
      ::funlockfile(stream);
      return 0;
    case Call::number:
      return ::fileno(stream);
    case Call::buffer:
      return ::setvbuf(stream, nullptr, static_cast<int>(call.first), static_cast<std::size_t>(call.second));
    case Call::at_end:
      return ::feof(stream);
    case Call::failed:
      return ::ferror(stream);
    case Call::clear:
      ::clearerr(stream);
      return 0;
    default:
      return -1;
  }
}

std::int64_t close_stream(ForwardedCall call, FILE* stream) {
  const ClosingDescriptor closing(stream->_fileno);
  return call == ForwardedCall::close ? ::fclose(stream) : ::pclose(stream);
}

/// A file that is written a buffer at a time.
bool is_written_late(FILE* stream) {
  constexpr int at_once = 0x2;  // _IO_UNBUFFERED and _IO_LINE_BUF of the headers, which undefine them
  constexpr int by_lines = 0x200;
  struct stat status {};
  return !stream_memory().was_locked(stream) && (stream->_flags & (at_once | by_lines)) == 0 &&
         ::fstat(stream->_fileno, &status) == 0 && S_ISREG(status.st_mode);
}

/// Whoever makes such a call may soon need more of what the stream has read ahead.
bool may_lend_after(const Forwarded& call) {
  using Call = ForwardedCall;
  return call.call == Call::get || call.call == Call::line || call.call == Call::long_line ||
         call.call == Call::lock || (call.call == Call::read && call.first <= small_read_most);
}

Returned call_and_lend(fabric::Rank by, const Forwarded& call, FILE* stream, ForwardedBytes& bytes) {
  Returned returned;
  const auto make_call = [&] {
    errno = 0;
    returned.value = call_on_stream(call, stream, bytes);
    returned.error = errno;
    returned.is_at_end = ::feof(stream) != 0;
    returned.has_failed = ::ferror(stream) != 0;
  };
  if (!needs_buffer(call.call)) {
    make_call();
    if (call.call == ForwardedCall::try_lock && returned.value == 0)
      const StreamUse use(stream, by, call.back);
    return returned;
  }
  StreamUse use(stream, by, call.back);
  make_call();
  if (may_lend_after(call)) use.lend(by, returned, bytes);
  return returned;
}

/// \param object as the call has it
FILE* stream_of(std::uint64_t object) {
  return object == 0 ? stdin : reinterpret_cast<FILE*>(object);
}

Returned serve_stream(fabric::Rank by, const Forwarded& call, ForwardedBytes& bytes) {
  auto* const stream = stream_of(call.object);
  // Those without a descriptor are in the program's memory, which is for threads of the program.
  if (call.object != 0 && (!stream_memory().owns(stream) || stream->_fileno < 0)) return refused;
  if (stream == nullptr || stream->_fileno < 0) return {.value = -1, .error = EBADF};
  if (call.call == ForwardedCall::close || call.call == ForwardedCall::close_command) {
    { const StreamUse use(stream, by, call.back); }
    errno = 0;
    const std::int64_t value = close_stream(call.call, stream);
    return {.value = value, .error = errno};
  }
  Returned returned = call_and_lend(by, call, stream, bytes);
  returned.may_wait = call.call == ForwardedCall::write && is_written_late(stream);
  return returned;
}

std::int64_t call_on_file(const Forwarded& call, int number, ForwardedBytes& bytes) {
  using Call = ForwardedCall;
  switch (call.call) {
    case Call::read_file: {
      bytes.resize(static_cast<std::size_t>(call.first));
      const ssize_t got = call.second == own_offset
                              ? ::read(number, bytes.data(), bytes.size())
                              : ::pread64(number, bytes.data(), bytes.size(), call.second);
      bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
      return got;
    }
    case Call::write_file: {
      const ssize_t put = call.second == own_offset
                              ? ::write(number, bytes.data(), bytes.size())
                              : ::pwrite64(number, bytes.data(), bytes.size(), call.second);
      bytes.clear();
      return put;
    }
    case Call::seek_file:
      return ::lseek64(number, call.first, static_cast<int>(call.second));
    case Call::status_file: {
      struct stat status {};
      const int result = ::fstat(number, &status);
      bytes.resize(sizeof status);
      std::memcpy(bytes.data(), &status, sizeof status);
      return result;
    }
    case Call::control_file:
      return ::fcntl(number, static_cast<int>(call.first), call.second);
    case Call::truncate_file:
      return ::ftruncate64(number, call.first);
    case Call::sync_file:
      return ::fsync(number);
    case Call::sync_data:
      return ::fdatasync(number);
    case Call::close_file: {
      const ClosingDescriptor closing(number);
      return ::close(number);
    }
    case Call::flush_all:
      return ::fflush(nullptr);
    default:
      return -1;
  }
}

template <typename T>
void put(ForwardedBytes& bytes, const T& value) {
  bytes.resize(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
}

/// Of this process.
std::int64_t wait_for_child(const Forwarded& call, ForwardedBytes& bytes) {
  if (call.call == ForwardedCall::wait_child) {
    ChildEnd end;
    const auto process = static_cast<pid_t>(call.object);
    const pid_t ended = ::wait4(process, &end.status, static_cast<int>(call.first), &end.usage);
    put(bytes, end);
    return ended;
  }
  siginfo_t information{};
  const int result = ::waitid(static_cast<idtype_t>(call.first), static_cast<id_t>(call.object), &information,
                              static_cast<int>(call.second));
  put(bytes, information);
  return result;
}

}  // namespace

Returned serve_call(fabric::Rank by, const Forwarded& call, ForwardedBytes& bytes) {
  if (call.first > static_cast<std::int64_t>(forwarded_bytes_most) &&
      (call.call == ForwardedCall::read || call.call == ForwardedCall::line ||
       call.call == ForwardedCall::long_line || call.call == ForwardedCall::read_file))
    return refused;
  if (call.call == ForwardedCall::write_unit) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::optional<int> code = write_to_unit(static_cast<int>(call.first), text);
    bytes.clear();
    return {.value = code.value_or(0), .is_refused = !code.has_value()};
  }
  if (call.call == ForwardedCall::recall)
    return {.value = static_cast<std::int64_t>(
                borrowed(stream_of(call.object)).recall(static_cast<LoanNumber>(call.first)))};
  if (call.call == ForwardedCall::wait_child || call.call == ForwardedCall::inform_of_child) {
    errno = 0;
    const std::int64_t value = wait_for_child(call, bytes);
    return {.value = value, .error = errno};
  }
  if (call.call < ForwardedCall::read_file) return serve_stream(by, call, bytes);
  errno = 0;
  const std::int64_t value = call_on_file(call, static_cast<int>(call.object), bytes);
  return {.value = value, .error = errno};
}

}  // namespace craton::posix
