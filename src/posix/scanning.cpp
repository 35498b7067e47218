// The scanf family of streams.
#include <stdio.h>

#include <cstdarg>

#include "posix/lent_streams.hpp"
#include "posix/remote_files.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
// Those of C99, which the header calls by the plain names; programs for the older %a are left alone.
int __isoc99_vfscanf(FILE* stream, const char* format, va_list arguments);
int __isoc99_vscanf(const char* format, va_list arguments);
int __isoc99_fscanf(FILE* stream, const char* format, ...);
int __isoc99_scanf(const char* format, ...);
}
// NOLINTEND(readability-identifier-naming)

using craton::posix::is_elsewhere;
using craton::posix::RemoteStream;
using craton::posix::StreamUse;

extern "C" {

[[gnu::visibility("default")]] int __isoc99_vfscanf(FILE* stream, const char* format, va_list arguments) {
  if (is_elsewhere(stream)) [[unlikely]]
    return RemoteStream(stream, "fscanf").scan(format, arguments);
  const StreamUse use(stream);
  return CRATON_REAL(__isoc99_vfscanf)(stream, format, arguments);
}
[[gnu::visibility("default")]] int __isoc99_vscanf(const char* format, va_list arguments) {
  return __isoc99_vfscanf(stdin, format, arguments);
}

[[gnu::visibility("default")]] int __isoc99_fscanf(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = __isoc99_vfscanf(stream, format, arguments);
  va_end(arguments);
  return count;
}
[[gnu::visibility("default")]] int __isoc99_scanf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = __isoc99_vfscanf(stdin, format, arguments);
  va_end(arguments);
  return count;
}

}  // extern "C"
