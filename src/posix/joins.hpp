/// \file
/// Joining and detaching threads of other ranks. The C library waits in the thread's own process, and changes
/// what it knows of the thread there: so a thread of that rank does it, for as long as it takes.
///
///     pthread_join on rank r, of a thread of rank q ──▶ message to q: a thread there calls the real one
///                                                   ◀── answer, with what the thread has returned
///
/// A thread's address tells its rank, since it lies on top of its stack. What the thread wrote is seen by who
/// has joined it, as ever. Unlike the C library's, a join of another rank's thread is no cancellation point.
///
/// Threads: any of the program, not in signal handlers. Blocks.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "posix/shared_program.hpp"

namespace craton::posix {

class Joins {
 public:
  /// Before the program starts. \param handler the same on all ranks
  Joins(SharedProgram& program, fabric::HandlerId handler);
  Joins(const Joins&) = delete;
  Joins& operator=(const Joins&) = delete;

  enum class Kind : std::uint32_t { join, detach, answer };

  /// The rank whose thread it is, if that is another one.
  std::optional<fabric::Rank> other_owner(pthread_t thread) const noexcept;
  /// Joins or detaches a thread of another rank. \param patience_ns of a join; no_deadline: for ever
  /// \returns 0 or an error number: ETIMEDOUT where it has not ended by then
  int ask(fabric::Rank owner, Kind kind, pthread_t thread, TimeNs patience_ns, void** result) noexcept;

 private:
  struct Message {
    Kind kind;
    std::int32_t error;        ///< of an answer
    std::uint64_t waiter;      ///< who asks, at its address there
    std::uint64_t thread;      ///< to be joined
    std::int64_t patience_ns;  ///< likewise
    std::uint64_t result;      ///< what it has returned
  };
  /// Who waits for an answer.
  struct Waiter {
    std::atomic<bool> is_answered{false};
    int error = 0;
    void* result = nullptr;
  };
  /// What another rank has asked for.
  struct Asked {
    Joins& self;
    fabric::Rank by;
    Message message;
  };

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void* serve(void* asked) noexcept;
  void begin_to_serve(fabric::Rank by, const Message& message) noexcept;
  void answer(fabric::Rank to, Message message, int error) noexcept;

  SharedProgram& program_;
  const fabric::HandlerId handler_;
};

/// Collective in so far as all ranks must have done so before any joins.
void start_joins(SharedProgram& program);

}  // namespace craton::posix
