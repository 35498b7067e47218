#include "vm/fault_dispatcher.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "fiber/suspended.hpp"
#include "vm/fault_state.hpp"
#include "vm/process_mark.hpp"
#include "vm/signal_context.hpp"

namespace craton::vm {
namespace {

// ---- Addresses and whose they are

struct Addresses {
  std::atomic<std::uintptr_t> begin{0};  // 0: the slot is free
  std::atomic<std::uintptr_t> end{0};

  bool hold(std::uintptr_t address) const noexcept {
    const std::uintptr_t from = begin.load(std::memory_order_acquire);
    return from != 0 && from <= address && address < end.load(std::memory_order_acquire);
  }
  void publish(const std::byte* from, std::size_t bytes) noexcept {
    end.store(reinterpret_cast<std::uintptr_t>(from) + bytes, std::memory_order_release);
    begin.store(reinterpret_cast<std::uintptr_t>(from), std::memory_order_seq_cst);
  }
};

/// A reader counts itself in `readers`, then looks again whether the addresses are still there. Who removes
/// takes the addresses away, then waits until there are no readers. Either sees the other.
struct SegmentSlot {
  Addresses addresses;
  std::atomic<std::uint32_t> readers{0};
  ViewPageTable* table = nullptr;
  FaultHandler* handler = nullptr;
  int rank = -1;
};

/// One of ours in the chain of handlers of a signal. It needs a function of its own: who put a handler over
/// ours calls that one for ever, and it has to know what was below it.
struct Level {
  bool used = false;
  struct sigaction before {};
  std::atomic<std::uint32_t> version{0};  // of `before`; odd while it changes
  std::atomic<bool> spent{false};         // `before` wanted to be called once only

  void set_before(const struct sigaction& action) noexcept {
    version.fetch_add(1, std::memory_order_acq_rel);
    before = action;
    spent.store(false);
    version.fetch_add(1, std::memory_order_release);
  }
  struct sigaction get_before() const noexcept {
    for (;;) {
      const std::uint32_t seen = version.load(std::memory_order_acquire);
      const struct sigaction action = before;
      std::atomic_thread_fence(std::memory_order_acquire);
      if (seen % 2 == 0 && version.load(std::memory_order_relaxed) == seen) return action;
    }
  }
};

/// Never freed, nor changed.
struct LoadsToStore {
  std::vector<std::uintptr_t> sorted;
  const LoadsToStore* next;
};

constexpr std::array signals = {SIGSEGV, SIGBUS};
constexpr std::size_t levels_most = 8;
/// So often in a row, with no more than this between them, is no race with another thread any more.
constexpr int allowed_faults_most = 200;
constexpr TimeNs allowed_faults_apart_ns = 1'000'000;

struct Dispatcher {
  std::array<SegmentSlot, caught_segments_most> segments;
  std::atomic<std::size_t> segments_used{0};  // slots from here on were never used
  std::array<Addresses, reserved_addresses_most> reserved;
  std::array<std::array<Level, levels_most>, signals.size()> levels;
  std::atomic<const LoadsToStore*> loads_to_store{nullptr};

  std::mutex mutex;  // of all that follows, and of whoever changes the above
  std::size_t segment_count = 0;
};

Dispatcher& dispatcher() noexcept {
  // Never destroyed: faults happen until the process is gone.
  alignas(Dispatcher) static std::byte memory[sizeof(Dispatcher)];
  static Dispatcher* const made = new (memory) Dispatcher;
  return *made;
}

/// The segment of an address, kept from being removed while this exists.
class FoundSegment {
 public:
  explicit FoundSegment(std::uintptr_t address) noexcept {
    Dispatcher& all = dispatcher();
    const std::size_t used = all.segments_used.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < used; ++i) {
      SegmentSlot& slot = all.segments[i];
      if (!slot.addresses.hold(address)) continue;
      slot.readers.fetch_add(1, std::memory_order_seq_cst);
      if (slot.addresses.begin.load(std::memory_order_seq_cst) != 0 && slot.addresses.hold(address)) {
        slot_ = &slot;
        return;
      }
      slot.readers.fetch_sub(1, std::memory_order_release);
    }
  }
  FoundSegment(const FoundSegment&) = delete;
  FoundSegment& operator=(const FoundSegment&) = delete;
  ~FoundSegment() {
    if (slot_ != nullptr) slot_->readers.fetch_sub(1, std::memory_order_release);
  }

  explicit operator bool() const noexcept { return slot_ != nullptr; }
  SegmentSlot& operator*() const noexcept { return *slot_; }

 private:
  SegmentSlot* slot_ = nullptr;
};

bool is_reserved(std::uintptr_t address) noexcept {
  for (const Addresses& each : dispatcher().reserved)
    if (each.hold(address)) return true;
  return false;
}

// ---- A fault in a segment

bool loads_to_store(const void* instruction) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(instruction);
  const LoadsToStore* each = dispatcher().loads_to_store.load(std::memory_order_acquire);
  for (; each != nullptr; each = each->next)
    if (std::binary_search(each->sorted.begin(), each->sorted.end(), address)) return true;
  return false;
}

/// The kernel's own call and mask: the C library's takes 128 bytes of mask, and sanitizers watch it.
void change_mask(int how, std::uint64_t mask, std::uint64_t* before = nullptr) noexcept {
  ::syscall(SYS_rt_sigprocmask, how, &mask, before, sizeof mask);
}
constexpr std::uint64_t bit_of(int signal) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(signal - 1);
}

/// While one exists, the thread is inside a handler of faults.
class Depth {
 public:
  Depth(ThreadFaults& thread, const FaultRecord& record) noexcept
      : thread_(thread), outer_(std::exchange(thread.current, &record)) {
    if (thread.depth == fault_depth_most) {
      refuse_fault("faults of one thread are nested too deep: handling a fault touches what faults again");
    }
    ++thread.depth;
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() {
    --thread_.depth;
    thread_.current = outer_;
  }

 private:
  ThreadFaults& thread_;
  const FaultRecord* outer_;
};

/// The block allows what was refused: usually another thread has made it so since, and trying again is all.
/// Else the kernel has dropped the entry.
void handle_allowed(SegmentSlot& segment, BlockIndex block, ThreadFaults& thread) noexcept {
  const void* const place = segment.table->system_view(block);
  const TimeNs now_ns = fiber::NativeSystem::now_ns();
  const bool is_later = now_ns - std::exchange(thread.allowed_ns, now_ns) > allowed_faults_apart_ns;
  if (std::exchange(thread.allowed_block, place) != place || is_later) thread.allowed_times = 0;
  if (++thread.allowed_times < 2) return;
  if (thread.allowed_times > allowed_faults_most)
    refuse_fault("the block allows it, but the kernel goes on refusing it");
  segment.table->reinstate(block);
}

void handle_in_segment(SegmentSlot& segment, int signal, const void* address, const void* context) noexcept {
  ViewPageTable& table = *segment.table;
  const FaultingAccess access = faulting_access(context);
  const FaultRecord record{.signal = signal,
                           .address = address,
                           .instruction = access.instruction,
                           .write = access.write,
                           .executes = access.executes,
                           .segment = table.name().c_str(),
                           .segment_begin = table.application_view(),
                           .block_bytes = table.block_bytes(),
                           .rank = segment.rank};
  if (process_mark() == 0)
    die_of_fault(record, "this is a forked child, which has none of its parent's segments");
  if (access.executes && !table.holds_code()) die_of_fault(record, "a segment holds data, no code");
  if (signal == SIGBUS && !table.faults_by_sigbus())
    die_of_fault(record, "the machine has no memory for the page (free -b; the limit of the control group)");

  ThreadFaults& thread = thread_faults();
  const Depth depth(thread, record);
  const BlockIndex block =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - table.application_view()) /
      table.block_bytes();
  const std::optional<Access> allowed = table.settled_access(block);
  if (allowed && *allowed >= (access.write ? Access::write : Access::read)) {
    handle_allowed(segment, block, thread);
    return;
  }
  thread.allowed_block = nullptr;
  // Blocked they can be if the handler above ours in the chain, or a sanitizer's, was installed so.
  change_mask(SIG_UNBLOCK, bit_of(SIGSEGV) | bit_of(SIGBUS));
  const fiber::BasicKernelThreadScope<fiber::NativeSystem> scope;
  segment.handler->fault(block, access.write || (!access.executes && loads_to_store(access.instruction)));
}

// ---- Faults that are not ours

std::uint64_t mask_of(const sigset_t& set) noexcept {
  std::uint64_t mask = 0;  // the kernel's part of the C library's set, which comes first
  std::memcpy(&mask, &set, sizeof mask);
  return mask;
}

void pass_on(Level& level, int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction before = level.get_before();
  const bool takes_info = (before.sa_flags & SA_SIGINFO) != 0;
  const bool is_function = takes_info || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN);
  const bool spent = (before.sa_flags & static_cast<int>(SA_RESETHAND)) != 0 && level.spent.exchange(true);
  if (is_function && !spent) {
    // With the mask with which the kernel would have called it.
    std::uint64_t blocked =
        mask_of(before.sa_mask) | mask_of(static_cast<const ucontext_t*>(context)->uc_sigmask);
    if ((before.sa_flags & SA_NODEFER) == 0) blocked |= bit_of(signal);
    std::uint64_t mask = 0;
    change_mask(SIG_SETMASK, blocked, &mask);
    if (takes_info) {
      before.sa_sigaction(signal, info, context);
    } else {
      before.sa_handler(signal);
    }
    change_mask(SIG_SETMASK, mask);
    return;
  }
  const bool sent = info->si_code <= 0;  // by somebody: no instruction will fault again
  if (sent && !is_function && before.sa_handler == SIG_IGN) return;
  // Where the instruction is done again it faults again, and a core dump is that of the fault.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
  if (sent) ::raise(signal);
}

std::size_t index_of(int signal) noexcept {
  return signal == SIGSEGV ? 0 : 1;
}

void on_fault(std::size_t level, int signal, siginfo_t* info, void* context) noexcept {
  const int error = errno;
  const bool of_hardware =
      signal == SIGBUS && (info->si_code == BUS_MCEERR_AR || info->si_code == BUS_MCEERR_AO);
  if (info->si_code > 0 && !of_hardware) {
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    if (const FoundSegment segment(address); segment) {
      handle_in_segment(*segment, signal, info->si_addr, context);
      errno = error;
      return;
    }
    if (is_reserved(address)) {
      const FaultingAccess access = faulting_access(context);
      die_of_fault({.signal = signal,
                    .address = info->si_addr,
                    .instruction = access.instruction,
                    .write = access.write,
                    .executes = access.executes},
                   {});
    }
  }
  pass_on(dispatcher().levels[index_of(signal)][level], signal, info, context);
  errno = error;
}

using Handler = void (*)(int, siginfo_t*, void*);

template <std::size_t level>
void entry(int signal, siginfo_t* info, void* context) {
  on_fault(level, signal, info, context);
}
template <std::size_t... level>
constexpr std::array<Handler, sizeof...(level)> make_entries(std::index_sequence<level...> /*levels*/) {
  return {&entry<level>...};
}
constexpr auto handlers_by_level = make_entries(std::make_index_sequence<levels_most>());

// ---- Installing

struct sigaction action_of(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0)
    throw Error::from_errno(fmt::format("cannot look at the handler of signal {}", signal), errno);
  return action;
}

/// The level of ours that is on top; levels_most if it is none.
std::size_t level_on_top(const struct sigaction& action) noexcept {
  std::size_t level = 0;
  while (level < levels_most &&
         ((action.sa_flags & SA_SIGINFO) == 0 || action.sa_sigaction != handlers_by_level[level]))
    ++level;
  return level;
}

void install(int signal) {
  const struct sigaction now = action_of(signal);
  if (level_on_top(now) != levels_most) return;
  auto& levels = dispatcher().levels[index_of(signal)];
  std::size_t level = 0;
  while (level < levels_most && levels[level].used) ++level;
  if (level == levels_most) {
    throw Error(
        ErrorCode::system,
        {.asked = fmt::format("cannot install a handler of signal {}", signal),
         .happened = fmt::format(
             "others put theirs over ours {} times, and ours cannot be taken out below them", levels_most),
         .limit = {},
         .remedy = "install handlers of SIGSEGV and SIGBUS before the first segment, or keep a segment"});
  }
  // Before the handler can run.
  levels[level].set_before(now);
  struct sigaction action {};
  action.sa_sigaction = handlers_by_level[level];
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  // Other signals wait until the fault is handled: their handlers might touch the very block that is being
  // changed. Those that an instruction causes cannot wait.
  ::sigfillset(&action.sa_mask);
  for (const int other : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS})
    ::sigdelset(&action.sa_mask, other);
  if (::sigaction(signal, &action, nullptr) != 0)
    throw Error::from_errno(fmt::format("cannot install a handler of signal {}", signal), errno);
  levels[level].used = true;
}

/// Below a handler of somebody else ours stays: that one calls it.
void uninstall(int signal) noexcept {
  struct sigaction now {};
  if (::sigaction(signal, nullptr, &now) != 0) return;
  const std::size_t on_top = level_on_top(now);
  if (on_top == levels_most) return;
  Level& level = dispatcher().levels[index_of(signal)][on_top];
  if (::sigaction(signal, &level.before, nullptr) == 0) level.used = false;
}

/// A forked child begins with none of its parent's segments. With the mutex held.
void forget_parent(Dispatcher& all) noexcept {
  for (SegmentSlot& slot : all.segments) {
    slot.addresses.begin.store(0);
    slot.readers.store(0);
  }
  all.segment_count = 0;
}

}  // namespace

CaughtSegment::CaughtSegment(ViewPageTable& table, FaultHandler& handler, int rank) : mark_(0) {
  CRATON_ASSERT(!in_fault_handler());
  Dispatcher& all = dispatcher();
  const std::scoped_lock lock(all.mutex);
  mark_ = mark_process();
  static ProcessMark last_mark = mark_;
  if (std::exchange(last_mark, mark_) != mark_) forget_parent(all);
  slot_ = 0;
  while (slot_ < caught_segments_most && all.segments[slot_].addresses.begin.load() != 0) ++slot_;
  if (slot_ == caught_segments_most) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = fmt::format("cannot catch faults in segment \"{}\"", table.name()),
                 .happened = fmt::format("there are {} segments", caught_segments_most),
                 .limit = {},
                 .remedy = "use fewer, larger segments"});
  }
  if (all.segment_count == 0)
    for (const int signal : signals) install(signal);
  ++all.segment_count;
  SegmentSlot& slot = all.segments[slot_];
  slot.table = &table;
  slot.handler = &handler;
  slot.rank = rank;
  slot.addresses.publish(table.application_view(), table.bytes());
  if (slot_ >= all.segments_used.load()) all.segments_used.store(slot_ + 1);
}

CaughtSegment::~CaughtSegment() {
  Dispatcher& all = dispatcher();
  if (process_mark() != mark_) return;  // in a forked child, where there is nothing to remove
  SegmentSlot& slot = all.segments[slot_];
  const std::scoped_lock lock(all.mutex);
  slot.addresses.begin.store(0, std::memory_order_seq_cst);
  while (slot.readers.load(std::memory_order_acquire) != 0) {
    timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
    ::nanosleep(&pause, nullptr);
  }
  if (--all.segment_count == 0)
    for (const int signal : signals) uninstall(signal);
}

bool exchange_next_action(int signal, const struct sigaction* next, struct sigaction* before) noexcept {
  // The handler of a signal may come here as well.
  std::uint64_t mask = 0;
  change_mask(SIG_BLOCK, ~(bit_of(SIGSEGV) | bit_of(SIGBUS)), &mask);
  bool is_ours = false;
  {
    Dispatcher& all = dispatcher();
    const std::scoped_lock lock(all.mutex);
    struct sigaction now {};
    const std::size_t on_top = ::sigaction(signal, nullptr, &now) == 0 ? level_on_top(now) : levels_most;
    if (on_top != levels_most) {
      Level& level = all.levels[index_of(signal)][on_top];
      if (before != nullptr) *before = level.get_before();
      if (next != nullptr) level.set_before(*next);
      is_ours = true;
    }
  }
  change_mask(SIG_SETMASK, mask);
  return is_ours;
}

void add_loads_to_store(std::vector<std::uintptr_t> instructions) {
  if (instructions.empty()) return;
  std::sort(instructions.begin(), instructions.end());
  Dispatcher& all = dispatcher();
  auto made =
      std::make_unique<LoadsToStore>(LoadsToStore{.sorted = std::move(instructions), .next = nullptr});
  const std::scoped_lock lock(all.mutex);
  made->next = all.loads_to_store.load();
  all.loads_to_store.store(made.release(), std::memory_order_release);
}

void add_reserved_addresses(const std::byte* begin, std::size_t bytes) {
  Dispatcher& all = dispatcher();
  const std::scoped_lock lock(all.mutex);
  for (Addresses& each : all.reserved) {
    if (each.begin.load() != 0) continue;
    each.publish(begin, bytes);
    return;
  }
  throw Error(ErrorCode::out_of_resources,
              {.asked = "cannot reserve addresses",
               .happened = fmt::format("this process has {} reservations", reserved_addresses_most),
               .limit = {},
               .remedy = "put more segments into one"});
}

void remove_reserved_addresses(const std::byte* begin) noexcept {
  Dispatcher& all = dispatcher();
  const std::scoped_lock lock(all.mutex);
  for (Addresses& each : all.reserved) {
    if (each.begin.load() == reinterpret_cast<std::uintptr_t>(begin)) each.begin.store(0);
  }
}

}  // namespace craton::vm
