// Formatted text to descriptors. The C library would write to this process's descriptor of the number, so the
// text is made in private memory and written here.
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstddef>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
// What programs call that were built with _FORTIFY_SOURCE.
int __dprintf_chk(int number, int flag, const char* format, ...);
int __vdprintf_chk(int number, int flag, const char* format, va_list arguments);
int __vsnprintf_chk(char* to, std::size_t most, int flag, std::size_t room, const char* format,
                    va_list arguments);
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::descriptor_here;
using craton::posix::PrivateBuffer;

bool write_whole(int fd, const std::byte* text, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t put = CRATON_REAL(write)(fd, text + done, bytes - done);
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

/// \param flag of what was built with _FORTIFY_SOURCE; 0: it was not
int print_to(int number, int flag, const char* format, va_list arguments) {
  const int fd = descriptor_here(number, "dprintf");
  const auto print = [&](std::byte* to, std::size_t room) {
    va_list again;
    va_copy(again, arguments);
    auto* const text = reinterpret_cast<char*>(to);
    const int length = flag > 0 ? __vsnprintf_chk(text, room, flag, room, format, again)
                                : std::vsnprintf(text, room, format, again);
    va_end(again);
    return length;
  };
  constexpr std::size_t usual_room = 4096;
  PrivateBuffer usual(usual_room);
  int length = print(usual.data(), usual_room);
  if (length < 0) return -1;
  if (static_cast<std::size_t>(length) < usual_room)
    return write_whole(fd, usual.data(), static_cast<std::size_t>(length)) ? length : -1;
  const std::size_t room = static_cast<std::size_t>(length) + 1;
  PrivateBuffer larger(room);
  if (larger.data() == nullptr) return -1;
  length = print(larger.data(), room);
  if (length < 0) return -1;
  // Another thread may have changed what the text is made of.
  const std::size_t bytes = std::min(static_cast<std::size_t>(length), room - 1);
  return write_whole(fd, larger.data(), bytes) ? static_cast<int>(bytes) : -1;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int vdprintf(int number, const char* format, va_list arguments) {
  return print_to(number, 0, format, arguments);
}

[[gnu::visibility("default")]] int __vdprintf_chk(int number, int flag, const char* format,
                                                  va_list arguments) {
  return print_to(number, flag, format, arguments);
}

[[gnu::visibility("default")]] int dprintf(int number, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = print_to(number, 0, format, arguments);
  va_end(arguments);
  return length;
}

[[gnu::visibility("default")]] int __dprintf_chk(int number, int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = print_to(number, flag, format, arguments);
  va_end(arguments);
  return length;
}

}  // extern "C"
