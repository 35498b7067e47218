#include "posix/remote_files.hpp"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "base/signal_section.hpp"
#include "posix/descriptors.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __vasprintf_chk(char** text, int flag, const char* format, va_list arguments);
}
// NOLINTEND(readability-identifier-naming)

namespace craton::posix {

namespace {

// Of the headers, which undefine them: _IO_EOF_SEEN and _IO_ERR_SEEN.
constexpr int end_seen = 0x10;
constexpr int error_seen = 0x20;

/// This thread may use a loan.
bool borrowed_here(FILE* stream) noexcept {
  const SignalSection section;
  return borrowed(stream).is_here(::pthread_self());
}

/// \returns how much of a loan is a line, up to `end` or `room` bytes; 0 where it goes on behind
std::size_t take_line(std::span<const std::byte> unread, std::size_t room, int end, ForwardedBytes& bytes) {
  const std::span<const std::byte> look = unread.first(std::min(room, unread.size()));
  const auto* const found = std::find_if(look.data(), look.data() + look.size(),
                                         [end](std::byte byte) { return static_cast<int>(byte) == end; });
  auto length = static_cast<std::size_t>(found - look.data());
  if (length != look.size())
    ++length;
  else if (length != room)
    return 0;
  bytes.assign(look.begin(), look.begin() + static_cast<std::ptrdiff_t>(length));
  return length;
}

/// What this rank has borrowed goes back with the call, where that needs it.
void before_asking(FILE* stream, Forwarded& call) noexcept {
  const SignalSection section;
  if (call.call == ForwardedCall::unlock) borrowed(stream).unlocking(::pthread_self());
  if (needs_buffer(call.call)) call.back = borrowed(stream).give_back(::pthread_self());
}

/// What has come with the answer, of which the call's own bytes stay.
void take_loan(FILE* stream, ForwardedCall call, const Returned& returned, ForwardedBytes& bytes) noexcept {
  const bool locked = has_locked(call, returned);
  if (!locked && returned.loan == 0) return;
  const SignalSection section;
  Borrowed& mine = borrowed(stream);
  if (locked) mine.locked(::pthread_self());
  if (returned.loan == 0) return;
  const std::size_t lent = std::min<std::size_t>(returned.lent, bytes.size());
  mine.store(returned.loan, std::span<const std::byte>(bytes).last(lent));
  bytes.resize(bytes.size() - lent);
}

/// The peer of a pipe or socket has gone: as the kernel does where a thread of its own writes.
void signal_if_broken(const Returned& returned) noexcept {
  if (returned.error == EPIPE) static_cast<void>(::raise(SIGPIPE));
}

}  // namespace

/// What waits for streams of other ranks. One for the process. A thread that sends it keeps the others of its
/// rank from the stream meanwhile, so that nothing overtakes.
class WriteBehind {
 public:
  /// \returns whether the bytes wait now
  bool keep(FILE* stream, const void* from, std::size_t bytes) noexcept {
    const SignalSection section;
    const std::shared_ptr<Stream> state = find(stream);
    if (state == nullptr || bytes == 0 || bytes > most) return false;
    const std::lock_guard lock(state->lock);
    if (!state->may_wait || state->locks != 0) return false;
    if (state->bytes.size() + bytes > most) send(stream, *state);
    const auto* const begin = static_cast<const std::byte*>(from);
    if (state->bytes.empty()) streams_that_wait.fetch_add(1, std::memory_order_relaxed);
    state->bytes.insert(state->bytes.end(), begin, begin + bytes);
    return true;
  }
  /// Before another call on the stream. Who locks it waits for each write from then on, as do the others of
  /// its rank: theirs must not be in between, nor wait here for its end.
  void before(FILE* stream, ForwardedCall call) noexcept {
    const SignalSection section;
    const bool locks = call == ForwardedCall::lock || call == ForwardedCall::try_lock;
    const std::shared_ptr<Stream> state = locks ? find_or_make(stream) : find(stream);
    if (state == nullptr) return;
    const std::lock_guard lock(state->lock);
    if (locks) ++state->locks;
    send(stream, *state);
  }
  void after(FILE* stream, ForwardedCall call, const Returned& returned) noexcept {
    using Call = ForwardedCall;
    const SignalSection section;
    if (call == Call::close || call == Call::close_command) {  // nothing of it waits any more
      const std::lock_guard lock(lock_);
      streams_.erase(stream);
      return;
    }
    const bool has_unlocked = call == Call::unlock || (call == Call::try_lock && returned.value != 0);
    const bool says = call == Call::write || call == Call::buffer;
    const bool has_more = call == Call::long_line && has_locked(call, returned);
    if (!says && !has_unlocked && !has_more) return;
    const std::shared_ptr<Stream> state = find_or_make(stream);
    const std::lock_guard lock(state->lock);
    if (has_unlocked && state->locks != 0) --state->locks;
    if (has_more) ++state->locks;
    if (says) state->may_wait = returned.may_wait;
  }
  void send_all() noexcept {
    const SignalSection section;
    for (const auto& [stream, state] : all()) {
      const std::lock_guard lock(state->lock);
      send(stream, *state);
    }
  }

 private:
  static constexpr std::size_t most = 32 * kibi;
  struct Stream {
    std::mutex lock;
    ForwardedBytes bytes;
    bool may_wait = false;
    unsigned locks = 0;  ///< that threads of this rank have, or wait for
  };
  using Streams = std::map<FILE*, std::shared_ptr<Stream>>;

  std::shared_ptr<Stream> find(FILE* stream) noexcept {
    const std::lock_guard lock(lock_);
    const auto found = streams_.find(stream);
    return found == streams_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Stream> find_or_make(FILE* stream) noexcept {
    const std::lock_guard lock(lock_);
    std::shared_ptr<Stream>& state = streams_[stream];
    if (state == nullptr) state = std::make_shared<Stream>();
    return state;
  }
  Streams all() noexcept {
    const std::lock_guard lock(lock_);
    return streams_;
  }
  /// With its lock.
  static void send(FILE* stream, Stream& state) noexcept {
    if (state.bytes.empty()) return;
    // Counted until the answer is here: others of this rank, whose bytes these may be, must wait for it too.
    const Returned returned = RemoteStream(stream, "fwrite").ask_now(ForwardedCall::write, 0, 0, state.bytes);
    state.may_wait = returned.may_wait;
    state.bytes.clear();
    streams_that_wait.fetch_sub(1, std::memory_order_relaxed);
  }

  std::mutex lock_;  ///< of the list
  Streams streams_;
};

WriteBehind& write_behind() noexcept {
  // Never destroyed: what waits at the end is sent when the program's destructors have run.
  alignas(WriteBehind) static std::byte memory[sizeof(WriteBehind)];
  static auto* const made = new (memory) WriteBehind;
  return *made;
}

std::atomic<std::uint32_t> streams_that_wait{0};

void send_all_that_waits() noexcept {
  if (forwarding_now() != nullptr) write_behind().send_all();
}

bool flush_other_ranks() noexcept {
  Forwarding* const running = forwarding_now();
  if (running == nullptr) return true;
  SharedProgram& program = *shared_program();
  bool all_could = true;
  for (fabric::Rank rank = 0; rank < program.fabric().size(); ++rank) {
    ForwardedBytes none;
    if (rank != program.rank() &&
        running->ask(rank, {.call = ForwardedCall::flush_all, .object = 0}, none).value != 0)
      all_could = false;
  }
  return all_could;
}

bool input_is_elsewhere() noexcept {
  SharedProgram* const program = shared_program();
  if (program == nullptr || program->rank() == 0) return false;
  // Whose answer takes two system calls.
  return borrowed_here(stdin) || forwarding_now() != nullptr;
}

// ---- Streams

Borrowed& borrowed(FILE* stream) noexcept {
  // Never destroyed, as what waits.
  struct All {
    std::mutex lock;
    std::map<FILE*, Borrowed> streams;
  };
  alignas(All) static std::byte memory[sizeof(All)];
  static auto* const all = new (memory) All;
  struct Last {
    FILE* stream;
    Borrowed* borrowed;
  };
  static thread_local constinit Last last{};
  const SignalSection section;
  if (last.stream != stream || last.borrowed == nullptr) {
    const std::lock_guard lock(all->lock);
    last = {.stream = stream, .borrowed = &all->streams[stream]};
  }
  return *last.borrowed;
}

template <typename Take>
bool RemoteStream::use_loan(const Take& take) noexcept {
  const SignalSection section;
  return borrowed(stream_).use(::pthread_self(), take);
}

Returned RemoteStream::ask(ForwardedCall what, std::int64_t first, std::int64_t second,
                           ForwardedBytes& bytes) noexcept {
  write_behind().before(stream_, what);
  const Returned returned = ask_now(what, first, second, bytes);
  write_behind().after(stream_, what, returned);
  return returned;
}

Returned RemoteStream::ask_now(ForwardedCall what, std::int64_t first, std::int64_t second,
                               ForwardedBytes& bytes) noexcept {
  Forwarding* const running = forwarding_now();
  if (running == nullptr) refuse_foreign_stream(stream_, function_);
  const bool is_input = stream_ == stdin;
  Forwarded call{.call = what,
                 .object = is_input ? 0 : reinterpret_cast<std::uintptr_t>(stream_),
                 .first = first,
                 .second = second,
                 .back = {}};
  before_asking(stream_, call);
  const Returned returned = running->ask(is_input ? 0 : stream_memory().owner(stream_), call, bytes);
  if (returned.is_refused) refuse_foreign_stream(stream_, function_);
  take_loan(stream_, what, returned, bytes);
  mirror(returned);
  signal_if_broken(returned);
  return returned;
}

/// What stands for the stream in this process says what its owner's does, to feof_unlocked() and others that
/// the program has inline.
void RemoteStream::mirror(const Returned& returned) noexcept {
  const int flags = (returned.is_at_end ? end_seen : 0) | (returned.has_failed ? error_seen : 0);
  if ((stream_->_flags & (end_seen | error_seen)) == flags) return;
  if (stream_ != stdin) {
    const auto begin = page_down(reinterpret_cast<std::uintptr_t>(stream_));
    if (::mprotect(reinterpret_cast<void*>(begin), page_bytes, PROT_READ | PROT_WRITE) != 0) return;
  }
  stream_->_flags = (stream_->_flags & ~(end_seen | error_seen)) | flags;
}

/// As the owner's, whose own cannot change while a loan is out.
bool RemoteStream::flag(int flag, ForwardedCall what) noexcept {
  return borrowed_here(stream_) ? (stream_->_flags & flag) != 0 : call(what) != 0;
}

bool RemoteStream::is_at_end() noexcept {
  return flag(end_seen, ForwardedCall::at_end);
}

bool RemoteStream::has_failed() noexcept {
  return flag(error_seen, ForwardedCall::failed);
}

std::int64_t RemoteStream::call(ForwardedCall what, std::int64_t first, std::int64_t second) noexcept {
  ForwardedBytes none;
  return ask(what, first, second, none).value;
}

std::size_t RemoteStream::write(const void* from, std::size_t bytes) noexcept {
  if (!borrowed_here(stream_) && write_behind().keep(stream_, from, bytes)) return bytes;
  const bool is_long = bytes > forwarded_bytes_most;
  if (is_long) call(ForwardedCall::lock);
  const auto* const begin = static_cast<const std::byte*>(from);
  std::size_t done = 0;
  do {
    const std::size_t wanted = std::min(bytes - done, forwarded_bytes_most);
    ForwardedBytes piece(begin + done, begin + done + wanted);
    const auto written = static_cast<std::size_t>(ask(ForwardedCall::write, 0, 0, piece).value);
    done += written;
    if (written < wanted) break;
  } while (done < bytes);
  if (is_long) call(ForwardedCall::unlock);
  return done;
}

std::size_t RemoteStream::read(void* to, std::size_t bytes) noexcept {
  ForwardedBytes taken;
  const bool is_here = use_loan([&taken, bytes](std::span<const std::byte> unread) -> std::size_t {
    if (unread.size() < bytes) return 0;
    taken.assign(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(bytes));
    return bytes;
  });
  if (is_here) {
    std::memcpy(to, taken.data(), bytes);
    return bytes;
  }
  const bool is_long = bytes > forwarded_bytes_most;
  if (is_long) call(ForwardedCall::lock);
  std::size_t done = 0;
  do {
    const std::size_t wanted = std::min(bytes - done, forwarded_bytes_most);
    ForwardedBytes piece;
    ask(ForwardedCall::read, static_cast<std::int64_t>(wanted), 0, piece);
    if (!piece.empty()) std::memcpy(static_cast<std::byte*>(to) + done, piece.data(), piece.size());
    done += piece.size();
    if (piece.size() < wanted) break;
  } while (done < bytes);
  if (is_long) call(ForwardedCall::unlock);
  return done;
}

int RemoteStream::put(int character) noexcept {
  const auto byte = static_cast<unsigned char>(character);
  return write(&byte, 1) == 1 ? byte : EOF;
}

int RemoteStream::get() noexcept {
  int character = EOF;
  const auto take = [&character](std::span<const std::byte> unread) -> std::size_t {
    if (unread.empty()) return 0;
    character = static_cast<int>(unread.front());
    return 1;
  };
  return use_loan(take) ? character : static_cast<int>(call(ForwardedCall::get));
}

int RemoteStream::unget(int character) noexcept {
  if (character != EOF) {
    const SignalSection section;
    const auto byte = static_cast<unsigned char>(character);
    if (borrowed(stream_).unget(::pthread_self(), std::byte{byte})) return byte;
  }
  return static_cast<int>(call(ForwardedCall::unget, character));
}

char* RemoteStream::line(char* to, int most) noexcept {
  if (most <= 0) return nullptr;
  const auto room = static_cast<std::size_t>(most) - 1;
  ForwardedBytes piece;
  if (room == 0 || use_loan([&](auto unread) { return take_line(unread, room, '\n', piece); })) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to[piece.size()] = '\0';
    return to;
  }
  std::size_t done = 0;
  bool has_failed = false;
  const auto append = [&](ForwardedCall what) {
    piece.clear();
    const auto wanted = static_cast<std::int64_t>(std::min(room - done, forwarded_bytes_most));
    const Returned returned = ask(what, wanted, '\n', piece);
    has_failed = returned.value < 0 && returned.error != EAGAIN;
    if (!piece.empty()) std::memcpy(to + done, piece.data(), piece.size());
    done += piece.size();
    return has_locked(what, returned);
  };
  if (room <= forwarded_bytes_most) {
    append(ForwardedCall::line);
  } else if (append(ForwardedCall::long_line)) {
    do {
      append(ForwardedCall::line);
    } while (done < room && piece.size() == forwarded_bytes_most && piece.back() != std::byte{'\n'});
    call(ForwardedCall::unlock);
  }
  if (done == 0 || has_failed) return nullptr;
  to[done] = '\0';
  return to;
}

bool RemoteStream::line(std::string& text, int end) noexcept {
  ForwardedBytes piece;
  if (use_loan([&](auto unread) { return take_line(unread, SIZE_MAX, end, piece); })) {
    text.assign(reinterpret_cast<const char*>(piece.data()), piece.size());
    return true;
  }
  const auto append = [&](ForwardedCall what) {
    piece.clear();
    const Returned returned = ask(what, static_cast<std::int64_t>(forwarded_bytes_most), end, piece);
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return has_locked(what, returned);
  };
  if (append(ForwardedCall::long_line)) {
    do {
      append(ForwardedCall::line);
    } while (piece.size() == forwarded_bytes_most && piece.back() != static_cast<std::byte>(end));
    call(ForwardedCall::unlock);
  }
  return !text.empty();
}

int RemoteStream::print(const char* format, va_list arguments, int flag) noexcept {
  char* text = nullptr;
  const int length =
      flag > 0 ? ::__vasprintf_chk(&text, flag, format, arguments) : ::vasprintf(&text, format, arguments);
  if (length < 0) return length;
  const auto bytes = static_cast<std::size_t>(length);
  const bool is_written = write(text, bytes) == bytes;
  std::free(text);
  return is_written ? length : -1;
}

/// One byte at a time: how many a number has is known when the next one has been seen, and that goes back.
ssize_t RemoteStream::read_one(void* self, char* to, std::size_t /*bytes*/) {
  auto& stream = *static_cast<RemoteStream*>(self);
  const int next = stream.get();
  if (next != EOF) {
    *to = static_cast<char>(next);
    return 1;
  }
  return stream.has_failed() ? -1 : 0;
}

/// \returns nothing where the loan does not hold as much as the format takes, or others have used it
/// meanwhile: what has been assigned then will be again. Formats that allocate are not tried so.
std::optional<int> RemoteStream::scan_loan(const Scan& scan, va_list arguments) noexcept {
  if (scan.allocates) return std::nullopt;
  std::optional<Borrowed::Copy> copy;
  {
    const SignalSection section;
    copy = borrowed(stream_).copy(::pthread_self());
  }
  if (!copy.has_value()) return std::nullopt;
  FILE* const local = ::fmemopen(copy->bytes.data(), copy->bytes.size(), "r");
  if (local == nullptr) return std::nullopt;
  const int count = scan(local, arguments);
  const long used = ::ftell(local);
  const bool is_whole = ::getc(local) != EOF;
  ::fclose(local);
  if (!is_whole || used < 0) return std::nullopt;
  const SignalSection section;
  if (!borrowed(stream_).take(::pthread_self(), *copy, static_cast<std::size_t>(used))) return std::nullopt;
  return count;
}

int RemoteStream::scan(const Scan& scan, va_list arguments) noexcept {
  va_list again;
  va_copy(again, arguments);
  const std::optional<int> scanned = scan_loan(scan, again);
  va_end(again);
  if (scanned.has_value()) return *scanned;
  const cookie_io_functions_t functions{
      .read = &RemoteStream::read_one, .write = nullptr, .seek = nullptr, .close = nullptr};
  FILE* const local = ::fopencookie(this, "r", functions);
  if (local == nullptr) return EOF;
  ::setvbuf(local, nullptr, _IONBF, 0);
  call(ForwardedCall::lock);
  const int count = scan(local, arguments);
  if (local->_IO_read_ptr < local->_IO_read_end) unget(static_cast<unsigned char>(*local->_IO_read_ptr));
  call(ForwardedCall::unlock);
  ::fclose(local);
  return count;
}

int RemoteStream::number() noexcept {
  if (stream_ == stdin) return STDIN_FILENO;
  if (stream_memory().owner(stream_) != 0) refuse_foreign_stream(stream_, function_);
  // Asked for before each of the kernel's calls by file streams of C++.
  int number = 0;
  if (read_first_process(&stream_->_fileno, &number, sizeof number)) return number;
  return static_cast<int>(call(ForwardedCall::number));
}

// ---- Descriptors

bool RemoteFile::is_one(int number) noexcept {
  return descriptor_is_far(number) && forwarding_now() != nullptr;
}

Returned RemoteFile::ask(ForwardedCall what, std::int64_t first, std::int64_t second,
                         ForwardedBytes& bytes) noexcept {
  const Forwarded call{
      .call = what, .object = static_cast<std::uint64_t>(number_), .first = first, .second = second};
  const Returned returned = forwarding_now()->ask(0, call, bytes);
  signal_if_broken(returned);
  return returned;
}

std::int64_t RemoteFile::call(ForwardedCall what, std::int64_t first, std::int64_t second) noexcept {
  ForwardedBytes none;
  return ask(what, first, second, none).value;
}

int RemoteFile::status(void* status) noexcept {
  ForwardedBytes bytes;
  const Returned returned = ask(ForwardedCall::status_file, 0, 0, bytes);
  static_assert(sizeof(struct stat) == sizeof(struct stat64));
  if (returned.value == 0) std::memcpy(status, bytes.data(), sizeof(struct stat));
  return static_cast<int>(returned.value);
}

bool RemoteFile::is_regular() noexcept {
  struct stat status {};
  return this->status(&status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace craton::posix
