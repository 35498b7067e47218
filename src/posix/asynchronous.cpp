// Asynchronous reads and writes (aio.h) that threads of the C library do later, by the number that lies in
// the program's request. A descriptor of another rank cannot be borrowed for them: they are refused, rather
// than that they use what has this number here.
#include <aio.h>
#include <fmt/format.h>

#include <span>

#include "posix/descriptors.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

namespace {

/// Ends the job if the descriptor is another rank's.
void check_own(int number, const char* function) noexcept {
  if (!craton::posix::descriptor_is_foreign(number)) [[likely]]
    return;
  craton::posix::shared_program()->fail(
      fmt::format("{}(): descriptor {} was opened on another rank, and asynchronous calls can use only those "
                  "of their own; "
                  "use pread or pwrite, or open the file in the threads that use it",
                  function, number));
}

template <typename Request>
void check_list(Request* const* list, int count, const char* function) noexcept {
  if (count <= 0) return;
  for (const Request* const each : std::span(list, static_cast<std::size_t>(count))) {
    if (each != nullptr && each->aio_lio_opcode != LIO_NOP) check_own(each->aio_fildes, function);
  }
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define CRATON_ASYNCHRONOUS(name, Request)                    \
  [[gnu::visibility("default")]] int name(Request* request) { \
    check_own(request->aio_fildes, #name);                    \
    return CRATON_REAL(name)(request);                        \
  }
#define CRATON_ASYNCHRONOUS_SYNC(name, Request)                              \
  [[gnu::visibility("default")]] int name(int operation, Request* request) { \
    check_own(request->aio_fildes, #name);                                   \
    return CRATON_REAL(name)(operation, request);                            \
  }
#define CRATON_ASYNCHRONOUS_LIST(name, Request)                                                             \
  [[gnu::visibility("default")]] int name(int mode, Request* const list[], int count, sigevent* notified) { \
    check_list(list, count, #name);                                                                         \
    return CRATON_REAL(name)(mode, list, count, notified);                                                  \
  }
#define CRATON_ASYNCHRONOUS_CANCEL(name, Request)                         \
  [[gnu::visibility("default")]] int name(int number, Request* request) { \
    check_own(number, #name);                                             \
    return CRATON_REAL(name)(number, request);                            \
  }
// NOLINTEND(bugprone-macro-parentheses)

extern "C" {

CRATON_ASYNCHRONOUS(aio_read, aiocb)
CRATON_ASYNCHRONOUS(aio_read64, aiocb64)
CRATON_ASYNCHRONOUS(aio_write, aiocb)
CRATON_ASYNCHRONOUS(aio_write64, aiocb64)
CRATON_ASYNCHRONOUS_SYNC(aio_fsync, aiocb)
CRATON_ASYNCHRONOUS_SYNC(aio_fsync64, aiocb64)
CRATON_ASYNCHRONOUS_LIST(lio_listio, aiocb)
CRATON_ASYNCHRONOUS_LIST(lio_listio64, aiocb64)
CRATON_ASYNCHRONOUS_CANCEL(aio_cancel, aiocb)
CRATON_ASYNCHRONOUS_CANCEL(aio_cancel64, aiocb64)

}  // extern "C"
