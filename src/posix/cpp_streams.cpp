// std::ios_base::sync_with_stdio(false): the C++ library would make buffers of its own for cout, cin and the
// others, in its own memory, which each rank has for itself; the streams lie in memory of the program, and
// would lead threads of other ranks to buffers that nobody has made there. So they stay on the C library's
// streams, whose buffers are right on every rank, and what is allowed to come in another order comes in its
// own.
#include <dlfcn.h>

#include <atomic>

#include "posix/shared_program.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): the C++ library's name
extern "C" [[gnu::visibility("default")]] bool _ZNSt8ios_base15sync_with_stdioEb(bool sync) {
  using Function = bool(bool);
  static std::atomic<bool> is_synchronised{true};
  if (craton::posix::shared_program() != nullptr) return is_synchronised.exchange(sync);
  auto* const real = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, "_ZNSt8ios_base15sync_with_stdioEb"));
  return real(sync);
}
