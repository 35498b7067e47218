// Wide characters of streams, which are not forwarded.
#include <stdio.h>
#include <wchar.h>

#include <cstdarg>
#include <cstddef>

#include "posix/lent_streams.hpp"
#include "posix/remote_files.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __isoc99_vfwscanf(FILE* stream, const wchar_t* format, va_list arguments);
int __isoc99_vwscanf(const wchar_t* format, va_list arguments);
int __isoc99_fwscanf(FILE* stream, const wchar_t* format, ...);
int __isoc99_wscanf(const wchar_t* format, ...);
int __fwprintf_chk(FILE* stream, int flag, const wchar_t* format, ...);
int __vfwprintf_chk(FILE* stream, int flag, const wchar_t* format, va_list arguments);
wchar_t* __fgetws_chk(wchar_t* line, std::size_t room, int most, FILE* stream);
wchar_t* __fgetws_unlocked_chk(wchar_t* line, std::size_t room, int most, FILE* stream);
}
// NOLINTEND(readability-identifier-naming)

using craton::posix::check_own;
using craton::posix::StreamUse;

// NOLINTBEGIN(bugprone-macro-parentheses): a type and two lists
// A function of a stream that must be this rank's.
#define CRATON_OWN_STREAM(type, name, parameters, arguments) \
  [[gnu::visibility("default")]] type name parameters {      \
    check_own(stream, #name);                                \
    const StreamUse use(stream);                             \
    return CRATON_REAL(name) arguments;                      \
  }
// One with a format and what it needs, by the one that takes a list.
#define CRATON_WIDE_FORMAT(name, parameters, of, call) \
  [[gnu::visibility("default")]] int name parameters { \
    check_own(of, #name);                              \
    va_list arguments;                                 \
    va_start(arguments, format);                       \
    const int result = call;                           \
    va_end(arguments);                                 \
    return result;                                     \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

CRATON_OWN_STREAM(int, fwide, (FILE * stream, int mode), (stream, mode))
CRATON_OWN_STREAM(wint_t, fgetwc, (FILE * stream), (stream))
CRATON_OWN_STREAM(wint_t, getwc, (FILE * stream), (stream))
CRATON_OWN_STREAM(wint_t, fgetwc_unlocked, (FILE * stream), (stream))
CRATON_OWN_STREAM(wint_t, getwc_unlocked, (FILE * stream), (stream))
CRATON_OWN_STREAM(wint_t, ungetwc, (wint_t character, FILE* stream), (character, stream))
CRATON_OWN_STREAM(wint_t, fputwc, (wchar_t character, FILE* stream), (character, stream))
CRATON_OWN_STREAM(wint_t, putwc, (wchar_t character, FILE* stream), (character, stream))
CRATON_OWN_STREAM(wint_t, fputwc_unlocked, (wchar_t character, FILE* stream), (character, stream))
CRATON_OWN_STREAM(wint_t, putwc_unlocked, (wchar_t character, FILE* stream), (character, stream))
CRATON_OWN_STREAM(wchar_t*, fgetws, (wchar_t * line, int most, FILE* stream), (line, most, stream))
CRATON_OWN_STREAM(wchar_t*, fgetws_unlocked, (wchar_t * line, int most, FILE* stream), (line, most, stream))
CRATON_OWN_STREAM(int, fputws, (const wchar_t* text, FILE* stream), (text, stream))
CRATON_OWN_STREAM(int, fputws_unlocked, (const wchar_t* text, FILE* stream), (text, stream))
CRATON_OWN_STREAM(int, vfwprintf, (FILE * stream, const wchar_t* format, va_list arguments),
                  (stream, format, arguments))
CRATON_OWN_STREAM(int, __vfwprintf_chk, (FILE * stream, int flag, const wchar_t* format, va_list arguments),
                  (stream, flag, format, arguments))
CRATON_OWN_STREAM(wchar_t*, __fgetws_chk, (wchar_t * line, std::size_t room, int most, FILE* stream),
                  (line, room, most, stream))
CRATON_OWN_STREAM(wchar_t*, __fgetws_unlocked_chk, (wchar_t * line, std::size_t room, int most, FILE* stream),
                  (line, room, most, stream))
CRATON_WIDE_FORMAT(fwprintf, (FILE * stream, const wchar_t* format, ...), stream,
                   vfwprintf(stream, format, arguments))
CRATON_WIDE_FORMAT(__fwprintf_chk, (FILE * stream, int flag, const wchar_t* format, ...), stream,
                   __vfwprintf_chk(stream, flag, format, arguments))

[[gnu::visibility("default")]] wint_t getwchar() {
  check_own(stdin, "getwchar");
  return getwc(stdin);
}
[[gnu::visibility("default")]] wint_t getwchar_unlocked() {
  check_own(stdin, "getwchar_unlocked");
  return getwc_unlocked(stdin);
}

[[gnu::visibility("default")]] int __isoc99_vfwscanf(FILE* stream, const wchar_t* format, va_list arguments) {
  check_own(stream, "vfwscanf");
  const StreamUse use(stream);
  return CRATON_REAL(__isoc99_vfwscanf)(stream, format, arguments);
}
[[gnu::visibility("default")]] int __isoc99_vwscanf(const wchar_t* format, va_list arguments) {
  check_own(stdin, "vwscanf");
  return __isoc99_vfwscanf(stdin, format, arguments);
}
CRATON_WIDE_FORMAT(__isoc99_fwscanf, (FILE * stream, const wchar_t* format, ...), stream,
                   __isoc99_vfwscanf(stream, format, arguments))
CRATON_WIDE_FORMAT(__isoc99_wscanf, (const wchar_t* format, ...), stdin,
                   __isoc99_vfwscanf(stdin, format, arguments))

#undef CRATON_WIDE_FORMAT
#undef CRATON_OWN_STREAM

}  // extern "C"
