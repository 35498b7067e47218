/// \file
/// Threads of other ranks: started, joined, detached, cancelled, signalled and so on by the program as if
/// they were this process's. The C library keeps what it knows of a thread in the thread's own process, and
/// waits there: so a thread of that rank makes the call, for as long as it takes.
///
///     pthread_join on rank r, of a thread of rank q ──▶ message to q: a thread there calls the real one
///                                                   ◀── answer, with what the thread has returned
///
///     pthread_create on rank r ──▶ start, to the rank q that has the fewest threads: one is made there
///        (--spread-threads)    ◀── answer: its address
///                              ──▶ go: r has published what it wrote; the thread acquires that, and begins
///
/// A thread's address tells its rank, since it lies on top of its stack. What its creator wrote the thread
/// sees, and who has joined it sees what the thread wrote, as ever. A thread that is cancelled while it joins
/// another rank's has that rank give up the join.
///
/// Threads: any of the program, not in signal handlers. Blocks.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "posix/shared_program.hpp"

namespace craton::posix {

class Threads {
 public:
  /// Before the program starts. \param handler the same on all ranks \param spread threads that the program
  /// starts run on all ranks
  Threads(SharedProgram& program, fabric::HandlerId handler, bool spread);
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  enum class Kind : std::uint32_t {
    start,    ///< bytes: a Beginning; gives the thread
    go,       ///< begins what was started; no answer
    ended,    ///< a thread that another rank has started, to all; no answer
    join,     ///< number: the patience in ns, no_deadline: for ever; gives what the thread has returned
    give_up,  ///< the join that the same waiter has asked for; no answer of its own
    detach,
    cancel,        ///< this and the next two find there what was written before
    signal,        ///< number
    queue,         ///< number: the signal; bytes: its value
    name,          ///< bytes: a text
    get_name,      ///< gives bytes
    affinity,      ///< bytes: a cpu_set_t
    get_affinity,  ///< gives bytes
    schedule,      ///< number: the policy; bytes: sched_param
    get_schedule,  ///< gives the policy as the result, and bytes
    priority,      ///< number
    count,         ///< gives how many of the program's threads run there, and how many have ever been started
    answer
  };
  /// What goes along with a request or comes back.
  static constexpr std::size_t bytes_most = 384;
  using Bytes = std::array<std::byte, bytes_most>;
  template <typename T>
  static void put(Bytes& bytes, const T& value) noexcept {
    static_assert(sizeof value <= bytes_most && std::is_trivially_copyable_v<T>);
    std::memcpy(bytes.data(), &value, sizeof value);
  }
  template <typename T>
  static T get(const Bytes& bytes) noexcept {
    static_assert(sizeof(T) <= bytes_most && std::is_trivially_copyable_v<T>);
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  struct Request {
    Kind kind;
    pthread_t thread = 0;
    std::int64_t number = 0;
    Bytes bytes{};
  };
  struct Answer {
    int error = 0;  ///< an error number
    std::uint64_t result = 0;
    Bytes bytes{};
  };

  /// As pthread_create; the thread is of any rank.
  int create(pthread_t* thread, const pthread_attr_t* attributes, Stacks::Body body, void* argument);
  /// The rank whose thread it is, if that is another one.
  std::optional<fabric::Rank> other_owner(pthread_t thread) const noexcept;
  /// Has a call made on the rank of a thread.
  Answer ask(fabric::Rank owner, const Request& request) noexcept;
  /// The same for a join, which is a cancellation point.
  Answer ask_to_join(fabric::Rank owner, const Request& request);
  /// This rank has all that threads of the program need. Before that those that others start wait.
  void open() noexcept;
  /// Threads that the program starts run on all ranks.
  bool is_spread() const noexcept { return spread_; }
  /// Rank 0, whose last thread has ended: exit(0) when those of all other ranks have, too.
  void end_after_others() noexcept;

 private:
  struct Message {
    Kind kind;
    std::uint32_t running;     ///< threads of the program on the rank that sends this
    std::uint64_t waiter = 0;  ///< who asks, at its address there; of go: what was started
    std::uint64_t thread = 0;  ///< of a request
    std::int64_t number = 0;   ///< likewise
    std::int64_t error = 0;    ///< of an answer
    std::uint64_t result = 0;  ///< likewise
    Bytes bytes{};
  };
  /// Who waits for an answer.
  struct Waiter {
    std::atomic<bool> is_answered{false};
    Answer answer;
  };
  /// What another rank has asked for.
  struct Asked {
    Asked(Threads& threads, fabric::Rank asker, const Message& asked) noexcept
        : self(threads), by(asker), message(asked) {}

    Threads& self;
    const fabric::Rank by;
    const Message message;
    std::atomic<bool> is_given_up{false};  ///< of a join
  };
  struct Started;
  class AtEnd;

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void* serve(void* asked) noexcept;
  static void* begin(void* started);
  static void* watch(void* self) noexcept;
  std::uint32_t threads_here() const noexcept;
  void send(fabric::Rank to, const Message& message) noexcept;
  void send_request(fabric::Rank owner, const Request& request, const Waiter& waiter) noexcept;
  Answer answer_to(const Waiter& waiter) noexcept;
  void begin_to_serve(fabric::Rank by, const Message& message) noexcept;
  void answer(fabric::Rank to, std::uint64_t waiter, const Answer& answer) noexcept;
  Answer make_call(const Asked& asked) noexcept;
  Answer join_here(const Asked& asked) noexcept;
  void add_join(Asked& asked) noexcept;
  void remove_join(const Asked& asked) noexcept;
  void give_up(fabric::Rank by, std::uint64_t waiter) noexcept;
  Answer start_here(const Bytes& bytes) noexcept;
  int create_here(pthread_t* thread, const pthread_attr_t* attributes, Stacks::Body body, void* argument);
  int create_there(fabric::Rank rank, pthread_t* thread, const pthread_attr_t* attributes, Stacks::Body body,
                   void* argument);
  fabric::Rank choose_rank() noexcept;

  SharedProgram& program_;
  const fabric::HandlerId handler_;
  const bool spread_;
  std::vector<std::atomic<std::uint32_t>> loads_;  ///< by rank: threads of the program, as last heard
  std::atomic<fabric::Rank> last_chosen_;
  std::atomic_flag is_watching_ = ATOMIC_FLAG_INIT;
  std::atomic<std::uint32_t> is_open_{0};  ///< a futex
  std::mutex joins_lock_;
  std::vector<Asked*> joins_;  ///< that are being made here
};

/// Cancels a thread of this rank. Where it waits for an object that ranks share the C library does not know
/// that it waits. One that cancels itself may end here. \returns 0 or an error number
int cancel_here(pthread_t thread);
/// Whether a mask has nothing but numbers that programs find for the processors of other ranks. \param mask
/// of so many bytes
bool are_processors_of_others(std::size_t bytes, const cpu_set_t* mask) noexcept;
/// Of this rank; by those numbers to none. \returns 0 or an error number
int bind_thread(pthread_t thread, std::size_t bytes, const cpu_set_t* mask) noexcept;
/// Of this process; null before the program has started, and where it has one rank only.
Threads* threads() noexcept;
/// Collective in so far as all ranks must have done so before any joins.
void start_threads(SharedProgram& program);

}  // namespace craton::posix
