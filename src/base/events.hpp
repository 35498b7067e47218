/// \file
/// What the threads of this process spend their time on. Each thread has a buffer of its own, which only it
/// writes: spans of time that nest, summed up by region, and, where asked for, one event a span. Off, a span
/// costs one load, one branch, and a shift of the word that tells what the thread is doing.
///
///     region, a part of it   ├──── compute ────┤fault┤── compute ──┤ barrier ┤
///                                               └ transfer
///
/// The time of a kind is without that of the spans inside it, so that the kinds add up to the whole.
///
/// Async-signal-safe but for start(). The buffer of a thread is bounded: what comes later is counted as lost.
/// So are the events of threads beyond 1,024 at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.hpp"

namespace craton::events {

enum class Kind : std::uint8_t {
  compute,  ///< a part of a region, or the program outside of all
  read_fault,
  write_fault,
  release,
  acquire,
  barrier,
  transfer,    ///< a fetch of bytes, inside of a fault
  idle,        ///< a thread without a region
  merge,       ///< no span: a block's writes were merged with those of others
  allocation,  ///< no span: memory that the program allocated
};
inline constexpr std::size_t kind_count = 10;
inline constexpr std::array<std::string_view, kind_count> kind_names = {
    "compute", "read fault", "write fault", "release", "acquire",
    "barrier", "transfer",   "idle",        "merge",   "allocation"};

inline constexpr bool is_fault(Kind kind) noexcept {
  return kind == Kind::read_fault || kind == Kind::write_fault;
}

/// What is kept; they are added up.
inline constexpr unsigned totals = 1;   ///< by region
inline constexpr unsigned list = 2;     ///< every event
inline constexpr unsigned sharing = 4;  ///< in the list: merges and allocations as well
inline constexpr unsigned kept = totals | list | sharing;
inline constexpr unsigned watched = 8;  ///< kept in no buffer: faults, bytes and messages, for look()

/// As the buffer of a thread has it, and files.
struct Event {
  std::uint64_t start_ns;
  std::uint64_t duration_ns;  ///< of an allocation: its bytes, which 32 bits cannot hold
  std::uint64_t address;      ///< of a fault, a merge, an allocation
  std::uint64_t code;         ///< the instruction, or the one behind a call
  std::uint64_t region;       ///< the function of the region; 0: outside of all
  std::uint32_t bytes;        ///< moved meanwhile; of a merge: how long it is
  std::uint16_t messages;
  Kind kind;
  std::uint8_t mark;  ///< of a merge: others had written to the block meanwhile
};
static_assert(sizeof(Event) == 48);

/// Stands for all regions of a thread beyond those for which there is room.
inline constexpr std::uint64_t other_regions = ~std::uint64_t{0};

/// The sums of a region on a thread.
struct Totals {
  std::uint64_t region;
  std::array<std::uint64_t, kind_count> ns;
  std::array<std::uint64_t, kind_count> count;
  std::uint64_t bytes;
  std::uint64_t messages;
};

/// \cond
namespace detail {
extern std::atomic<unsigned> wanted;
void begin(Kind kind, std::uint64_t address, std::uint64_t code) noexcept;
void end() noexcept;
void count_message(std::size_t bytes, bool incoming) noexcept;
/// The spans of this thread that have not ended: four bits each, the kind and one, the innermost lowest;
/// beyond sixteen the outer ones are forgotten. Only this thread writes it. Null unless attached.
extern constinit thread_local std::atomic<std::uint64_t>* open_spans [[gnu::tls_model("initial-exec")]];
}  // namespace detail
/// \endcond

/// Whether any of these is kept.
inline bool wants(unsigned what) noexcept {
  return (detail::wanted.load(std::memory_order_relaxed) & what) != 0;
}

/// By one thread, before others are to be seen. \param events_a_thread how many each has room for
void start(unsigned what, std::size_t events_a_thread) noexcept;

/// The clock of events.
std::uint64_t now_ns() noexcept;

/// The calling thread runs the program's code: all of its time counts from now on.
void attach() noexcept;
/// The calling thread has done so, or ends: its spans end, and look() does not see it any more.
void detach() noexcept;

/// A span of the calling thread. For what must not throw between begin and end there is Span.
inline void begin(Kind kind, const void* address = nullptr, const void* code = nullptr) noexcept {
  if (std::atomic<std::uint64_t>* const open = detail::open_spans; open != nullptr)
    open->store(open->load(std::memory_order_relaxed) << 4U | (static_cast<std::uint64_t>(kind) + 1),
                std::memory_order_relaxed);
  if (wants(~0U)) [[unlikely]]
    detail::begin(kind, reinterpret_cast<std::uintptr_t>(address), reinterpret_cast<std::uintptr_t>(code));
}
inline void end() noexcept {
  if (std::atomic<std::uint64_t>* const open = detail::open_spans; open != nullptr)
    open->store(open->load(std::memory_order_relaxed) >> 4U, std::memory_order_relaxed);
  if (wants(~0U)) [[unlikely]]
    detail::end();
}
/// A part of a region; `function` names it.
inline void enter_region(void (*function)(void*)) noexcept {
  begin(Kind::compute, nullptr, reinterpret_cast<const void*>(function));
}
inline void leave_region() noexcept {
  end();
}
class Span {
 public:
  explicit Span(Kind kind, const void* address = nullptr, const void* code = nullptr) noexcept {
    begin(kind, address, code);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() { end(); }
};

/// An operation on another rank's memory, or a message, was begun. \param incoming the bytes come to this
/// rank
inline void count_message(std::size_t bytes, bool incoming = false) noexcept {
  if (wants(~0U)) [[unlikely]]
    detail::count_message(bytes, incoming);
}
/// With `sharing`, adds what is no span. Region and time are filled in.
void note(Kind kind, const void* address, std::size_t bytes, const void* code = nullptr,
          std::uint8_t mark = 0) noexcept;
/// The region that the calling thread is in, or was in last; 0: none.
std::uint64_t current_region() noexcept;

/// What this process is doing at the moment, and what it has done while it was watched.
struct Look {
  // Threads of the program, by what they are in.
  std::uint32_t computing = 0;
  std::uint32_t in_faults = 0;
  std::uint32_t in_fences = 0;
  std::uint32_t waiting = 0;  ///< in barriers, or without a region
  std::uint64_t faults = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t messages = 0;
};
/// Whether faults, bytes and messages are counted for look() from now on. Any thread.
void watch(bool wanted) noexcept;
Look look() noexcept;

/// What the threads have so far; those that go on are seen as they are at the moment.
struct ThreadRecord {
  std::uint32_t number;  ///< in the order in which they were first seen; threads may follow each other in one
  bool is_of_program;
  std::uint64_t lost;  ///< events without room
  const Event* events;
  std::size_t event_count;
  std::array<Totals, 256> totals;
  std::size_t total_count;
};
void for_threads(FunctionRef<void(const ThreadRecord&)> action);

}  // namespace craton::events
