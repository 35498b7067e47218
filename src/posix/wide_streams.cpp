// Wide characters of streams, which are not forwarded.
#include <stdio.h>
#include <wchar.h>

#include <cstdarg>

#include "posix/lent_streams.hpp"
#include "posix/remote_files.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __isoc99_vfwscanf(FILE* stream, const wchar_t* format, va_list arguments);
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
[[gnu::visibility("default")]] int __isoc99_vfwscanf(FILE* stream, const wchar_t* format, va_list arguments) {
  check_own(stream, "fwscanf");
  const StreamUse use(stream);
  return CRATON_REAL(__isoc99_vfwscanf)(stream, format, arguments);
}

#undef CRATON_OWN_STREAM

}  // extern "C"
