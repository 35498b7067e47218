// The C library's streams: their system calls are made inside of it, so the program's memory is kept away
// from there. A long text that printf copies from shared memory by itself ("%s" of more than a stream's
// buffer) may still end in EFAULT, if another thread of the rank acquires between its two looks at it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <string>

#include "posix/allocation.hpp"
#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/lent_streams.hpp"
#include "posix/remote_files.hpp"
#include "posix/streams.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
// What programs call that were built with _FORTIFY_SOURCE, or to the letter of C99.
std::size_t __fread_chk(void* buffer, std::size_t room, std::size_t size, std::size_t count, FILE* stream);
std::size_t __fread_unlocked_chk(void* buffer, std::size_t room, std::size_t size, std::size_t count,
                                 FILE* stream);
char* __fgets_chk(char* line, std::size_t room, int most, FILE* stream);
char* __fgets_unlocked_chk(char* line, std::size_t room, int most, FILE* stream);
int __fprintf_chk(FILE* stream, int flag, const char* format, ...);
int __vfprintf_chk(FILE* stream, int flag, const char* format, va_list arguments);
int _IO_getc(FILE* stream);
// Not in the headers any more, but in programs.
char* gets(char* line);
char* __gets_chk(char* line, std::size_t room);
int __uflow(FILE* stream);
int __overflow(FILE* stream, int character);
ssize_t __getdelim(char** line, std::size_t* room, int delimiter, FILE* stream);
[[noreturn]] void __chk_fail();
}
// NOLINTEND(readability-identifier-naming)

namespace craton::posix {

namespace {
std::atomic<bool> is_output_chosen{false};
}  // namespace

bool buffer_of_output_is_chosen() noexcept {
  return is_output_chosen.load(std::memory_order_relaxed);
}

}  // namespace craton::posix

namespace {

using craton::posix::adopt_stream;
using craton::posix::check_own;
using Call = craton::posix::ForwardedCall;
using craton::posix::ClosingDescriptor;
using craton::posix::is_elsewhere;
using craton::posix::may_fault;
using craton::posix::Name;
using craton::posix::open_number;
using craton::posix::OpeningStream;
using craton::posix::piece_bytes;
using craton::posix::PrivateBuffer;
using craton::posix::RemoteStream;
using craton::posix::shared_program;
using craton::posix::StreamLock;
using craton::posix::StreamUse;
using craton::posix::UnlockedStreamUse;

/// With the stream's lock. \returns how many bytes were written
std::size_t write_unlocked(const char* from, std::size_t bytes, FILE* stream) {
  PrivateBuffer piece(std::min(bytes, piece_bytes));
  if (piece.data() == nullptr) return 0;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t wanted = std::min(bytes - done, piece_bytes);
    std::memcpy(piece.data(), from + done, wanted);
    const std::size_t written = CRATON_REAL(fwrite_unlocked)(piece.data(), 1, wanted, stream);
    done += written;
    if (written < wanted) return done;
  }
  return bytes;
}

/// Likewise.
std::size_t read_unlocked(char* to, std::size_t bytes, FILE* stream) {
  PrivateBuffer piece(std::min(bytes, piece_bytes));
  if (piece.data() == nullptr) return 0;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t wanted = std::min(bytes - done, piece_bytes);
    const std::size_t got = CRATON_REAL(fread_unlocked)(piece.data(), 1, wanted, stream);
    std::memcpy(to + done, piece.data(), got);
    done += got;
    if (got < wanted) return done;
  }
  return bytes;
}

/// How often `size` goes into the bytes that were moved; -1 if there are none to move, or too many.
bool items(std::size_t size, std::size_t count, std::size_t& bytes) noexcept {
  return size != 0 && count != 0 && !__builtin_mul_overflow(size, count, &bytes);
}

/// As getdelim() leaves it. \param text with a zero behind \returns its length, or -1
ssize_t give_line(char** line, std::size_t* room, const char* text, std::size_t length) {
  constexpr std::size_t least = 120;
  const std::size_t needed = length + 1;
  if (*line == nullptr || *room < needed) {
    const std::size_t bytes = std::max({needed, least, *line == nullptr ? 0 : 2 * *room});
    void* const larger = craton_program_realloc(*line, bytes);
    if (larger == nullptr) return -1;
    *line = static_cast<char*>(larger);
    *room = bytes;
  }
  std::memcpy(*line, text, needed);
  return static_cast<ssize_t>(length);
}

ssize_t read_line(char** line, std::size_t* room, int delimiter, FILE* stream) {
  if (shared_program() == nullptr || line == nullptr || room == nullptr)
    return CRATON_REAL(getdelim)(line, room, delimiter, stream);
  if (is_elsewhere(stream)) [[unlikely]] {
    std::string text;
    return RemoteStream(stream, "getdelim").line(text, delimiter)
               ? give_line(line, room, text.c_str(), text.size())
               : -1;
  }
  const StreamUse use(stream);
  char* own = nullptr;
  std::size_t own_room = 0;
  ssize_t length = CRATON_REAL(getdelim)(&own, &own_room, delimiter, stream);
  if (length >= 0) length = give_line(line, room, own, static_cast<std::size_t>(length));
  const int error = errno;
  ::free(own);
  errno = error;
  return length;
}

int get_character(FILE* stream, const char* function) {
  if (is_elsewhere(stream)) [[unlikely]]
    return RemoteStream(stream, function).get();
  if (!craton::posix::may_be_lent(stream)) return CRATON_REAL(fgetc)(stream);
  const StreamUse use(stream);  // which takes the lock: once is enough
  return CRATON_REAL(fgetc_unlocked)(stream);
}

int put_text(const char* text, FILE* stream, const char* function) {
  const std::size_t bytes = std::strlen(text);
  return RemoteStream(stream, function).write(text, bytes) == bytes ? 1 : EOF;
}

/// fflush() of all streams, of all ranks.
int flush_all() {
  craton::posix::send_what_waits();
  const int result = CRATON_REAL(fflush)(nullptr);
  return craton::posix::flush_other_ranks() ? result : EOF;
}

/// What was built with _FORTIFY_SOURCE says how much room there is.
int checked(std::size_t room, int most) {
  if (most > 0 && static_cast<std::size_t>(most) > room) __chk_fail();
  return most;
}

/// gets() of another rank's standard input.
char* take_input_line(char* to, std::size_t room) {
  std::string text;
  if (!RemoteStream(stdin, "gets").line(text, '\n')) return nullptr;
  if (text.back() == '\n') text.pop_back();
  if (text.size() >= room) __chk_fail();
  return std::strcpy(to, text.c_str());
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): a type and two lists
// A function that opens a stream.
#define CRATON_OPENER(name, parameters, arguments)       \
  [[gnu::visibility("default")]] FILE* name parameters { \
    const OpeningStream opening;                         \
    return adopt_stream(CRATON_REAL(name) arguments);    \
  }
// One that ends it.
#define CRATON_CLOSER(name, forwarded)                                      \
  [[gnu::visibility("default")]] int name(FILE* stream) {                   \
    if (is_elsewhere(stream)) [[unlikely]]                                  \
      return static_cast<int>(RemoteStream(stream, #name).call(forwarded)); \
    { const StreamUse use(stream); }                                        \
    const ClosingDescriptor closing(stream->_fileno);                       \
    return CRATON_REAL(name)(stream);                                       \
  }
// One that gives it another file, under the number that it has.
#define CRATON_REOPENER(name)                                                                   \
  [[gnu::visibility("default")]] FILE* name(const char* path, const char* mode, FILE* stream) { \
    check_own(stream, #name);                                                                   \
    { const StreamUse use(stream); }                                                            \
    const int number = stream->_fileno;                                                         \
    FILE* const opened = CRATON_REAL(name)(Name(path), Name(mode), stream);                     \
    craton::posix::descriptor_replaced(number);                                                 \
    return opened;                                                                              \
  }
// One that is forwarded where it is another rank's. Here `use` stands before it.
#define CRATON_FORWARDED(use, type, name, parameters, forwarded, arguments) \
  [[gnu::visibility("default")]] type name parameters {                     \
    if (is_elsewhere(stream)) [[unlikely]]                                  \
      return static_cast<type>(RemoteStream(stream, #name).forwarded);      \
    use;                                                                    \
    return CRATON_REAL(name) arguments;                                     \
  }
#define CRATON_STREAM(...) CRATON_FORWARDED(const StreamUse use(stream), __VA_ARGS__)
// Without the stream's lock.
#define CRATON_UNLOCKED_STREAM(...) CRATON_FORWARDED(const UnlockedStreamUse use(stream), __VA_ARGS__)
// Which neither needs nor changes what the stream has read ahead.
#define CRATON_STREAM_STATE(...) CRATON_FORWARDED(static_cast<void>(0), __VA_ARGS__)
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

// ---- Opening and closing

CRATON_OPENER(fopen, (const char* path, const char* mode), (Name(path), Name(mode)))
CRATON_OPENER(fopen64, (const char* path, const char* mode), (Name(path), Name(mode)))
[[gnu::visibility("default")]] FILE* fdopen(int number, const char* mode) {
  const OpeningStream opening;
  return open_number(number, "fdopen", [mode](int own) { return CRATON_REAL(fdopen)(own, Name(mode)); });
}
CRATON_OPENER(tmpfile, (), ())
CRATON_OPENER(tmpfile64, (), ())
CRATON_OPENER(fmemopen, (void* memory, std::size_t bytes, const char* mode), (memory, bytes, mode))
CRATON_OPENER(fopencookie, (void* cookie, const char* mode, cookie_io_functions_t functions),
              (cookie, mode, functions))
CRATON_REOPENER(freopen)
CRATON_REOPENER(freopen64)
CRATON_CLOSER(fclose, Call::close)
CRATON_CLOSER(pclose, Call::close_command)
[[gnu::visibility("default")]] int fflush(FILE* stream) {
  if (stream == nullptr) return flush_all();
  if (is_elsewhere(stream)) [[unlikely]]
    return static_cast<int>(RemoteStream(stream, "fflush").call(Call::flush));
  const StreamUse use(stream);
  return CRATON_REAL(fflush)(stream);
}
[[gnu::visibility("default")]] int fflush_unlocked(FILE* stream) {
  if (stream == nullptr) return flush_all();
  if (is_elsewhere(stream)) [[unlikely]]
    return static_cast<int>(RemoteStream(stream, "fflush_unlocked").call(Call::flush));
  const UnlockedStreamUse use(stream);
  return CRATON_REAL(fflush_unlocked)(stream);
}
CRATON_STREAM_STATE(int, fileno, (FILE * stream), number(), (stream))
CRATON_STREAM_STATE(int, fileno_unlocked, (FILE * stream), number(), (stream))

/// The C library takes a buffer of its own instead of one that its system calls could fail on.
[[gnu::visibility("default")]] int setvbuf(FILE* stream, char* buffer, int mode, std::size_t bytes) {
  if (is_elsewhere(stream)) [[unlikely]]
    return static_cast<int>(
        RemoteStream(stream, "setvbuf").call(Call::buffer, mode, static_cast<std::int64_t>(bytes)));
  const StreamUse use(stream);
  if (stream == stdout) craton::posix::is_output_chosen.store(true, std::memory_order_relaxed);
  return CRATON_REAL(setvbuf)(stream, may_fault(buffer) ? nullptr : buffer, mode, bytes);
}

[[gnu::visibility("default")]] void setbuffer(FILE* stream, char* buffer, std::size_t bytes) {
  static_cast<void>(setvbuf(stream, buffer, buffer == nullptr ? _IONBF : _IOFBF, bytes));
}

[[gnu::visibility("default")]] void setbuf(FILE* stream, char* buffer) {
  setbuffer(stream, buffer, BUFSIZ);
}

[[gnu::visibility("default")]] void setlinebuf(FILE* stream) {
  static_cast<void>(setvbuf(stream, nullptr, _IOLBF, 0));
}

// ---- Blocks of bytes

[[gnu::visibility("default")]] std::size_t fwrite(const void* from, std::size_t size, std::size_t count,
                                                  FILE* stream) {
  std::size_t bytes = 0;
  if (is_elsewhere(stream)) [[unlikely]]
    return items(size, count, bytes) ? RemoteStream(stream, "fwrite").write(from, bytes) / size : 0;
  const StreamUse use(stream);
  if (!may_fault(from) || !items(size, count, bytes)) return CRATON_REAL(fwrite)(from, size, count, stream);
  const StreamLock lock(stream);
  const std::size_t written = write_unlocked(static_cast<const char*>(from), bytes, stream);
  return written == bytes ? count : written / size;
}

[[gnu::visibility("default")]] std::size_t fwrite_unlocked(const void* from, std::size_t size,
                                                           std::size_t count, FILE* stream) {
  std::size_t bytes = 0;
  if (is_elsewhere(stream)) [[unlikely]]
    return items(size, count, bytes) ? RemoteStream(stream, "fwrite_unlocked").write(from, bytes) / size : 0;
  const UnlockedStreamUse use(stream);
  if (!may_fault(from) || !items(size, count, bytes))
    return CRATON_REAL(fwrite_unlocked)(from, size, count, stream);
  const std::size_t written = write_unlocked(static_cast<const char*>(from), bytes, stream);
  return written == bytes ? count : written / size;
}

[[gnu::visibility("default")]] std::size_t fread(void* to, std::size_t size, std::size_t count,
                                                 FILE* stream) {
  std::size_t bytes = 0;
  if (is_elsewhere(stream)) [[unlikely]]
    return items(size, count, bytes) ? RemoteStream(stream, "fread").read(to, bytes) / size : 0;
  const StreamUse use(stream);
  if (!may_fault(to) || !items(size, count, bytes)) return CRATON_REAL(fread)(to, size, count, stream);
  const StreamLock lock(stream);
  const std::size_t got = read_unlocked(static_cast<char*>(to), bytes, stream);
  return got == bytes ? count : got / size;
}

[[gnu::visibility("default")]] std::size_t fread_unlocked(void* to, std::size_t size, std::size_t count,
                                                          FILE* stream) {
  std::size_t bytes = 0;
  if (is_elsewhere(stream)) [[unlikely]]
    return items(size, count, bytes) ? RemoteStream(stream, "fread_unlocked").read(to, bytes) / size : 0;
  const UnlockedStreamUse use(stream);
  if (!may_fault(to) || !items(size, count, bytes))
    return CRATON_REAL(fread_unlocked)(to, size, count, stream);
  const std::size_t got = read_unlocked(static_cast<char*>(to), bytes, stream);
  return got == bytes ? count : got / size;
}

[[gnu::visibility("default")]] std::size_t __fread_chk(void* to, std::size_t room, std::size_t size,
                                                       std::size_t count, FILE* stream) {
  std::size_t bytes = 0;
  if (items(size, count, bytes) && bytes > room) __chk_fail();
  return fread(to, size, count, stream);
}

[[gnu::visibility("default")]] std::size_t __fread_unlocked_chk(void* to, std::size_t room, std::size_t size,
                                                                std::size_t count, FILE* stream) {
  std::size_t bytes = 0;
  if (items(size, count, bytes) && bytes > room) __chk_fail();
  return fread_unlocked(to, size, count, stream);
}

// ---- Texts

[[gnu::visibility("default")]] int fputs(const char* text, FILE* stream) {
  if (is_elsewhere(stream)) [[unlikely]]
    return put_text(text, stream, "fputs");
  const StreamUse use(stream);
  if (!may_fault(text)) return CRATON_REAL(fputs)(text, stream);
  const std::size_t bytes = std::strlen(text);
  const StreamLock lock(stream);
  return write_unlocked(text, bytes, stream) == bytes ? 1 : EOF;
}

[[gnu::visibility("default")]] int fputs_unlocked(const char* text, FILE* stream) {
  if (is_elsewhere(stream)) [[unlikely]]
    return put_text(text, stream, "fputs_unlocked");
  const UnlockedStreamUse use(stream);
  if (!may_fault(text)) return CRATON_REAL(fputs_unlocked)(text, stream);
  const std::size_t bytes = std::strlen(text);
  return write_unlocked(text, bytes, stream) == bytes ? 1 : EOF;
}

[[gnu::visibility("default")]] int puts(const char* text) {
  if (!may_fault(text)) return CRATON_REAL(puts)(text);
  const std::size_t bytes = std::strlen(text);
  const StreamLock lock(stdout);
  if (write_unlocked(text, bytes, stdout) != bytes) return EOF;
  if (CRATON_REAL(putc_unlocked)('\n', stdout) == EOF) return EOF;
  return static_cast<int>(std::min<std::size_t>(bytes + 1, INT_MAX));
}

CRATON_STREAM(char*, fgets, (char* line, int most, FILE* stream), line(line, most), (line, most, stream))
CRATON_UNLOCKED_STREAM(char*, fgets_unlocked, (char* line, int most, FILE* stream), line(line, most),
                       (line, most, stream))
CRATON_STREAM(char*, __fgets_chk, (char* line, std::size_t room, int most, FILE* stream),
              line(line, checked(room, most)), (line, room, most, stream))
CRATON_UNLOCKED_STREAM(char*, __fgets_unlocked_chk, (char* line, std::size_t room, int most, FILE* stream),
                       line(line, checked(room, most)), (line, room, most, stream))

[[gnu::visibility("default")]] char* gets(char* line) {
  if (is_elsewhere(stdin)) [[unlikely]]
    return take_input_line(line, SIZE_MAX);
  const StreamUse use(stdin);
  return CRATON_REAL(gets)(line);
}
[[gnu::visibility("default")]] char* __gets_chk(char* line, std::size_t room) {
  if (is_elsewhere(stdin)) [[unlikely]]
    return take_input_line(line, room);
  const StreamUse use(stdin);
  return CRATON_REAL(__gets_chk)(line, room);
}

[[gnu::visibility("default")]] ssize_t getdelim(char** line, std::size_t* room, int delimiter, FILE* stream) {
  return read_line(line, room, delimiter, stream);
}
[[gnu::visibility("default")]] ssize_t __getdelim(char** line, std::size_t* room, int delimiter,
                                                  FILE* stream) {
  return read_line(line, room, delimiter, stream);
}
[[gnu::visibility("default")]] ssize_t getline(char** line, std::size_t* room, FILE* stream) {
  return read_line(line, room, '\n', stream);
}

// ---- Single characters

CRATON_STREAM(int, fputc, (int character, FILE* stream), put(character), (character, stream))
CRATON_STREAM(int, putc, (int character, FILE* stream), put(character), (character, stream))
CRATON_UNLOCKED_STREAM(int, putc_unlocked, (int character, FILE* stream), put(character), (character, stream))
CRATON_UNLOCKED_STREAM(int, fputc_unlocked, (int character, FILE* stream), put(character),
                       (character, stream))
CRATON_UNLOCKED_STREAM(int, __overflow, (FILE * stream, int character), put(character), (stream, character))
[[gnu::visibility("default")]] int fgetc(FILE* stream) {
  return get_character(stream, "fgetc");
}
[[gnu::visibility("default")]] int getc(FILE* stream) {
  return get_character(stream, "getc");
}
/// In programs built before glibc 2.28.
[[gnu::visibility("default")]] int _IO_getc(FILE* stream) {
  return get_character(stream, "_IO_getc");
}
CRATON_UNLOCKED_STREAM(int, getc_unlocked, (FILE * stream), get(), (stream))
CRATON_UNLOCKED_STREAM(int, fgetc_unlocked, (FILE * stream), get(), (stream))
CRATON_UNLOCKED_STREAM(int, __uflow, (FILE * stream), get(), (stream))
CRATON_STREAM(int, ungetc, (int character, FILE* stream), unget(character), (character, stream))

[[gnu::visibility("default")]] int getw(FILE* stream) {
  int word = 0;
  return fread(&word, sizeof word, 1, stream) == 1 ? word : EOF;
}
[[gnu::visibility("default")]] int putw(int word, FILE* stream) {
  return fwrite(&word, sizeof word, 1, stream) == 1 ? 0 : EOF;
}
[[gnu::visibility("default")]] int getchar() {
  return getc(stdin);
}
[[gnu::visibility("default")]] int getchar_unlocked() {
  return getc_unlocked(stdin);
}

// ---- Formats

CRATON_STREAM(int, vfprintf, (FILE * stream, const char* format, va_list arguments), print(format, arguments),
              (stream, format, arguments))
CRATON_STREAM(int, __vfprintf_chk, (FILE * stream, int flag, const char* format, va_list arguments),
              print(format, arguments, flag), (stream, flag, format, arguments))
[[gnu::visibility("default")]] int fprintf(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vfprintf(stream, format, arguments);
  va_end(arguments);
  return length;
}

[[gnu::visibility("default")]] int __fprintf_chk(FILE* stream, int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = __vfprintf_chk(stream, flag, format, arguments);
  va_end(arguments);
  return length;
}

// ---- Positions and states

CRATON_STREAM(int, fseek, (FILE * stream, long offset, int from), call(Call::seek, offset, from),
              (stream, offset, from))
CRATON_STREAM(int, fseeko, (FILE * stream, off_t offset, int from), call(Call::seek, offset, from),
              (stream, offset, from))
CRATON_STREAM(int, fseeko64, (FILE * stream, off64_t offset, int from), call(Call::seek, offset, from),
              (stream, offset, from))
CRATON_STREAM(long, ftell, (FILE * stream), call(Call::tell), (stream))
CRATON_STREAM(off_t, ftello, (FILE * stream), call(Call::tell), (stream))
CRATON_STREAM(off64_t, ftello64, (FILE * stream), call(Call::tell), (stream))
CRATON_STREAM(void, rewind, (FILE * stream), call(Call::rewind), (stream))
CRATON_STREAM(int, fgetpos, (FILE * stream, fpos_t* position), position(position), (stream, position))
CRATON_STREAM(int, fsetpos, (FILE * stream, const fpos_t* position),
              call(Call::seek, position->__pos, SEEK_SET), (stream, position))
CRATON_STREAM(int, fgetpos64, (FILE * stream, fpos64_t* position), position(position), (stream, position))
CRATON_STREAM(int, fsetpos64, (FILE * stream, const fpos64_t* position),
              call(Call::seek, position->__pos, SEEK_SET), (stream, position))
CRATON_STREAM_STATE(int, feof, (FILE * stream), is_at_end(), (stream))
CRATON_STREAM_STATE(int, feof_unlocked, (FILE * stream), is_at_end(), (stream))
CRATON_STREAM_STATE(int, ferror, (FILE * stream), has_failed(), (stream))
CRATON_STREAM_STATE(int, ferror_unlocked, (FILE * stream), has_failed(), (stream))
CRATON_STREAM_STATE(void, clearerr, (FILE * stream), call(Call::clear), (stream))
CRATON_STREAM_STATE(void, clearerr_unlocked, (FILE * stream), call(Call::clear), (stream))
[[gnu::visibility("default")]] void flockfile(FILE* stream) {
  if (is_elsewhere(stream)) [[unlikely]] {
    RemoteStream(stream, "flockfile").call(Call::lock);
    return;
  }
  craton::posix::stream_memory().note_locked(stream);
  CRATON_REAL(flockfile)(stream);
  const UnlockedStreamUse use(stream);
}
[[gnu::visibility("default")]] int ftrylockfile(FILE* stream) {
  if (is_elsewhere(stream)) [[unlikely]]
    return static_cast<int>(RemoteStream(stream, "ftrylockfile").call(Call::try_lock));
  craton::posix::stream_memory().note_locked(stream);
  const int got = CRATON_REAL(ftrylockfile)(stream);
  if (got == 0) const UnlockedStreamUse use(stream);
  return got;
}
CRATON_STREAM_STATE(void, funlockfile, (FILE * stream), call(Call::unlock), (stream))

}  // extern "C"
