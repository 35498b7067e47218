// The scanf family. What a conversion allocates ("%ms") is the program's; the buffer of a stream is not, for
// the kernel reads into it.
//
// Each is there twice: as in C99, which the header calls by the plain names, and as it was, with %a for what
// is %m now, as C++98 has it.
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include <cstdarg>

#include "posix/allocation.hpp"
#include "posix/lent_streams.hpp"
#include "posix/remote_files.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __isoc99_vfscanf(FILE* stream, const char* format, va_list arguments);
int __isoc99_vscanf(const char* format, va_list arguments);
int __isoc99_fscanf(FILE* stream, const char* format, ...);
int __isoc99_scanf(const char* format, ...);
int __isoc99_vsscanf(const char* text, const char* format, va_list arguments);
int __isoc99_sscanf(const char* text, const char* format, ...);
int __isoc99_vswscanf(const wchar_t* text, const wchar_t* format, va_list arguments);
int __isoc99_swscanf(const wchar_t* text, const wchar_t* format, ...);
int older_vfscanf(FILE* stream, const char* format, va_list arguments) asm("vfscanf");
int older_vscanf(const char* format, va_list arguments) asm("vscanf");
int older_fscanf(FILE* stream, const char* format, ...) asm("fscanf");
int older_scanf(const char* format, ...) asm("scanf");
int older_vsscanf(const char* text, const char* format, va_list arguments) asm("vsscanf");
int older_sscanf(const char* text, const char* format, ...) asm("sscanf");

void _IO_doallocbuf(FILE* stream);
}
// NOLINTEND(readability-identifier-naming)

namespace craton::posix {

int Scan::operator()(FILE* stream, va_list arguments) const {
  if (!allocates) return real(stream, format, arguments);
  const StreamLock lock(stream);
  if (stream->_IO_buf_base == nullptr) ::_IO_doallocbuf(stream);
  const ProgramAllocations ours;
  return real(stream, format, arguments);
}

}  // namespace craton::posix

namespace {

using craton::posix::is_elsewhere;
using craton::posix::ProgramAllocations;
using craton::posix::RemoteStream;
using craton::posix::Scan;
using craton::posix::StreamUse;

Scan scan_of_c99(const char* format) {
  return {.real = CRATON_REAL(__isoc99_vfscanf),
          .format = format,
          .allocates = std::strchr(format, 'm') != nullptr};
}
Scan older_scan(const char* format) {
  return {.real = CRATON_REAL(vfscanf), .format = format, .allocates = std::strpbrk(format, "ma") != nullptr};
}

int scan_stream(FILE* stream, const Scan& scan, va_list arguments) {
  if (is_elsewhere(stream)) [[unlikely]]
    return RemoteStream(stream, "fscanf").scan(scan, arguments);
  const StreamUse use(stream);
  return scan(stream, arguments);
}

/// \param real of the vsscanf kind
template <typename Text>
int scan_text(int (*real)(const Text*, const Text*, va_list), bool allocates, const Text* text,
              const Text* format, va_list arguments) {
  if (!allocates) return real(text, format, arguments);
  const ProgramAllocations ours;
  return real(text, format, arguments);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): parameters and a call
// A function with a format and what it needs, by the one that takes a list.
#define CRATON_SCAN(name, parameters, call)            \
  [[gnu::visibility("default")]] int name parameters { \
    va_list arguments;                                 \
    va_start(arguments, format);                       \
    const int count = call;                            \
    va_end(arguments);                                 \
    return count;                                      \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

// ---- As in C99

[[gnu::visibility("default")]] int __isoc99_vfscanf(FILE* stream, const char* format, va_list arguments) {
  return scan_stream(stream, scan_of_c99(format), arguments);
}
[[gnu::visibility("default")]] int __isoc99_vscanf(const char* format, va_list arguments) {
  return scan_stream(stdin, scan_of_c99(format), arguments);
}
[[gnu::visibility("default")]] int __isoc99_vsscanf(const char* text, const char* format, va_list arguments) {
  return scan_text(CRATON_REAL(__isoc99_vsscanf), std::strchr(format, 'm') != nullptr, text, format,
                   arguments);
}
[[gnu::visibility("default")]] int __isoc99_vswscanf(const wchar_t* text, const wchar_t* format,
                                                     va_list arguments) {
  return scan_text(CRATON_REAL(__isoc99_vswscanf), std::wcschr(format, L'm') != nullptr, text, format,
                   arguments);
}
CRATON_SCAN(__isoc99_fscanf, (FILE * stream, const char* format, ...),
            __isoc99_vfscanf(stream, format, arguments))
CRATON_SCAN(__isoc99_scanf, (const char* format, ...), __isoc99_vscanf(format, arguments))
CRATON_SCAN(__isoc99_sscanf, (const char* text, const char* format, ...),
            __isoc99_vsscanf(text, format, arguments))
CRATON_SCAN(__isoc99_swscanf, (const wchar_t* text, const wchar_t* format, ...),
            __isoc99_vswscanf(text, format, arguments))

// ---- As it was

[[gnu::visibility("default")]] int older_vfscanf(FILE* stream, const char* format, va_list arguments) {
  return scan_stream(stream, older_scan(format), arguments);
}
[[gnu::visibility("default")]] int older_vscanf(const char* format, va_list arguments) {
  return scan_stream(stdin, older_scan(format), arguments);
}
[[gnu::visibility("default")]] int older_vsscanf(const char* text, const char* format, va_list arguments) {
  return scan_text(CRATON_REAL(vsscanf), std::strpbrk(format, "ma") != nullptr, text, format, arguments);
}
CRATON_SCAN(older_fscanf, (FILE * stream, const char* format, ...), older_vfscanf(stream, format, arguments))
CRATON_SCAN(older_scanf, (const char* format, ...), older_vscanf(format, arguments))
CRATON_SCAN(older_sscanf, (const char* text, const char* format, ...), older_vsscanf(text, format, arguments))

#undef CRATON_SCAN

}  // extern "C"
