// The C library's streams of directories, which other ranks cannot use.
#include <dirent.h>
#include <fcntl.h>

#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/streams.hpp"

namespace {

using craton::posix::close_unused;
using craton::posix::ClosingDescriptor;
using craton::posix::descriptor_made;
using craton::posix::Name;
using craton::posix::open_number;
using craton::posix::OpeningStream;

void check_own(DIR* stream, const char* function) noexcept {
  if (craton::posix::stream_memory().is_foreign(stream)) [[unlikely]]
    craton::posix::refuse_foreign_stream(stream, function);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): a type and two lists
// A function of a directory, which must be this rank's.
#define CRATON_OWN_DIRECTORY(type, name, parameters, arguments) \
  [[gnu::visibility("default")]] type name parameters {         \
    check_own(stream, #name);                                   \
    return CRATON_REAL(name) arguments;                         \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

[[gnu::visibility("default")]] DIR* opendir(const char* path) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC;
  const int own = descriptor_made(CRATON_REAL(open)(Name(path), flags, 0));
  if (own < 0) return nullptr;
  const OpeningStream opening;
  DIR* const directory = CRATON_REAL(fdopendir)(own);
  if (directory == nullptr) close_unused(own);
  return directory;
}
[[gnu::visibility("default")]] DIR* fdopendir(int number) {
  const OpeningStream opening;
  return open_number(number, "fdopendir", [](int own) { return CRATON_REAL(fdopendir)(own); });
}
CRATON_OWN_DIRECTORY(dirent*, readdir, (DIR * stream), (stream))
CRATON_OWN_DIRECTORY(dirent64*, readdir64, (DIR * stream), (stream))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
CRATON_OWN_DIRECTORY(int, readdir_r, (DIR * stream, dirent* entry, dirent** read), (stream, entry, read))
CRATON_OWN_DIRECTORY(int, readdir64_r, (DIR * stream, dirent64* entry, dirent64** read),
                     (stream, entry, read))
#pragma GCC diagnostic pop
[[gnu::visibility("default")]] int closedir(DIR* stream) {
  check_own(stream, "closedir");
  const ClosingDescriptor closing(CRATON_REAL(dirfd)(stream));
  return CRATON_REAL(closedir)(stream);
}
CRATON_OWN_DIRECTORY(void, rewinddir, (DIR * stream), (stream))
CRATON_OWN_DIRECTORY(long, telldir, (DIR * stream), (stream))
CRATON_OWN_DIRECTORY(void, seekdir, (DIR * stream, long position), (stream, position))
CRATON_OWN_DIRECTORY(int, dirfd, (DIR * stream), (stream))

#undef CRATON_OWN_DIRECTORY

}  // extern "C"
