#include "base/events.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <new>
#include <utility>

#include "base/clock.hpp"

namespace craton::events {

namespace detail {
constinit std::atomic<unsigned> wanted{0};
constinit thread_local std::atomic<std::uint64_t>* open_spans [[gnu::tls_model("initial-exec")]] = nullptr;
}  // namespace detail

namespace {

constexpr std::size_t threads_most = 1024;
constexpr std::size_t depth_most = 32;
constexpr std::size_t regions_most = std::tuple_size_v<decltype(ThreadRecord::totals)>;

/// Written by its thread alone, and read by whoever tells: plain additions, but never torn.
class Sum {
 public:
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(std::uint64_t more) noexcept { set(get() + more); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct RegionSums {
  Sum region;
  std::array<Sum, kind_count> ns;
  std::array<Sum, kind_count> count;
  Sum bytes;
  Sum messages;
};

/// A span that has not ended.
struct Open {
  Sum start_ns;
  Sum inside_ns;  ///< of spans inside that have ended
  Sum region;     ///< number among the thread's regions
  std::atomic<Kind> kind{Kind::compute};
  std::uint64_t address = 0;
  std::uint64_t code = 0;
  std::uint64_t bytes = 0;     ///< that the thread had moved when it began
  std::uint64_t messages = 0;  ///< likewise
};

/// Of a thread, and when it has ended of the next one.
struct Thread {
  std::uint32_t number = 0;
  std::atomic<std::uint64_t> owner{0};  ///< the kernel's number of the thread; above it how many came before
  std::atomic<bool> is_of_program{false};
  bool is_attached = false;
  std::array<RegionSums, regions_most>
      regions;  ///< the first: outside; the last: all for which there is no room
  std::atomic<std::size_t> region_count{1};
  std::array<Open, depth_most> open;
  std::atomic<std::size_t> depth{0};
  Sum bytes;
  Sum messages;
  Sum last_region;
  Event* events = nullptr;
  std::size_t room = 0;
  std::atomic<std::size_t> event_count{0};
  Sum lost;

  RegionSums& current() noexcept {
    const std::size_t deep = std::min(depth.load(std::memory_order_relaxed), depth_most);
    return regions[deep == 0 ? 0 : open[deep - 1].region.get()];
  }
  std::size_t find_region(std::uint64_t function) noexcept {
    const std::size_t used = region_count.load(std::memory_order_relaxed);
    // The same ones come again and again, the last one most of all.
    for (std::size_t i = used; i-- > 0;)
      if (regions[i].region.get() == function) return i;
    if (used == regions_most) return regions_most - 1;
    regions[used].region.set(used == regions_most - 1 ? other_regions : function);
    region_count.store(used + 1, std::memory_order_release);
    return used;
  }
  void add(const Event& event) noexcept {
    const std::size_t used = event_count.load(std::memory_order_relaxed);
    if (used == room) return lost.add(1);
    events[used] = event;
    event_count.store(used + 1, std::memory_order_release);
  }
};

/// The open spans of a thread of the program, on a line of its own.
struct alignas(64) Doing {
  std::atomic<std::uint64_t> open_spans{0};
  std::atomic<bool> is_used{false};
};
/// One for each that is attached.
constinit std::array<Doing, threads_most> doing{};
constinit std::atomic<std::size_t> doing_end{0};  ///< none from here on has ever been used

/// Of all threads, while the process is watched.
struct Watched {
  std::atomic<std::uint64_t> faults{0};
  std::atomic<std::uint64_t> bytes_in{0};
  std::atomic<std::uint64_t> bytes_out{0};
  std::atomic<std::uint64_t> messages{0};
};
constinit Watched watched_counts;

std::array<std::atomic<Thread*>, threads_most> threads;
std::atomic<std::uint32_t> thread_count{0};
std::size_t events_a_thread = 0;
constinit std::atomic<std::uint64_t> lost_without_record{0};
constinit thread_local Thread* own_thread = nullptr;
constinit thread_local bool has_none = false;  ///< there was no room for it

void* pages(std::size_t bytes) noexcept {
  void* const got =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

/// The record of a thread that has ended: its sums and events stay, and this thread adds to them.
Thread* take_over(bool is_of_program) noexcept {
  constexpr unsigned pid_bits = 32;
  const pid_t process = ::getpid();
  const auto own = static_cast<std::uint32_t>(::gettid());
  const std::size_t count = std::min<std::size_t>(thread_count.load(), threads_most);
  for (std::size_t i = 0; i < count; ++i) {
    Thread* const thread = threads[i].load(std::memory_order_acquire);
    if (thread == nullptr || thread->is_of_program.load() != is_of_program) continue;
    std::uint64_t owner = thread->owner.load();
    const auto last = static_cast<pid_t>(static_cast<std::uint32_t>(owner));
    if (::tgkill(process, last, 0) == 0 || errno != ESRCH) continue;
    const std::uint64_t next = ((owner >> pid_bits) + 1) << pid_bits | own;
    if (!thread->owner.compare_exchange_strong(owner, next)) continue;
    // What the one before has written lies before these.
    static_cast<void>(thread->event_count.load(std::memory_order_acquire));
    static_cast<void>(thread->depth.load(std::memory_order_acquire));
    thread->depth.store(0);
    thread->last_region.set(0);
    thread->is_attached = false;
    return thread;
  }
  return nullptr;
}

Thread* make_thread() noexcept {
  const std::uint32_t number = thread_count.load() < threads_most ? thread_count.fetch_add(1) : threads_most;
  if (number >= threads_most) return nullptr;
  void* const memory = pages(sizeof(Thread));
  if (memory == nullptr) return nullptr;
  auto* const made = new (memory) Thread;
  made->number = number;
  made->owner.store(static_cast<std::uint32_t>(::gettid()));
  if (events_a_thread != 0) {
    made->events = static_cast<Event*>(pages(events_a_thread * sizeof(Event)));
    made->room = made->events == nullptr ? 0 : events_a_thread;
  }
  threads[number].store(made, std::memory_order_release);
  return made;
}

void lose_event() noexcept {
  if (wants(list)) lost_without_record.fetch_add(1, std::memory_order_relaxed);
}

/// No malloc: it may be in a handler of faults. Never freed: it is told of at the end.
/// \param is_of_program which records of ended threads it may take over
Thread* self(bool is_of_program = false) noexcept {
  if (own_thread != nullptr || has_none) [[likely]]
    return own_thread;
  has_none = true;
  const int error = errno;
  own_thread = take_over(is_of_program);
  if (own_thread == nullptr) own_thread = make_thread();
  if (own_thread == nullptr) lose_event();  // the thread itself
  errno = error;
  return own_thread;
}

/// A word for what this thread does. Beyond threads_most at a time there is none.
void take_doing() noexcept {
  for (std::size_t i = 0; i < threads_most; ++i) {
    if (doing[i].is_used.load(std::memory_order_relaxed) || doing[i].is_used.exchange(true)) continue;
    detail::open_spans = &doing[i].open_spans;
    std::size_t end = doing_end.load();
    while (end <= i && !doing_end.compare_exchange_weak(end, i + 1)) {
    }
    return;
  }
}

void give_doing_back() noexcept {
  std::atomic<std::uint64_t>* const open = std::exchange(detail::open_spans, nullptr);
  if (open == nullptr) return;
  open->store(0, std::memory_order_relaxed);
  for (Doing& each : doing) {
    if (&each.open_spans != open) continue;
    each.is_used.store(false);
    return;
  }
}

}  // namespace

void start(unsigned what, std::size_t room) noexcept {
  events_a_thread = (what & list) != 0 ? room : 0;
  detail::wanted.fetch_or(what);
}

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(SteadyClock().now_ns());
}

void attach() noexcept {
  if (detail::open_spans == nullptr) take_doing();
  if (!wants(kept)) return;
  Thread* const thread = self(true);
  if (thread == nullptr || thread->is_attached) return;
  thread->is_attached = true;
  thread->is_of_program.store(true);
  detail::begin(Kind::compute, 0, 0);
}

void detach() noexcept {
  give_doing_back();
  Thread* const thread = own_thread;
  if (thread == nullptr || !thread->is_attached) return;
  thread->is_attached = false;
  while (thread->depth.load(std::memory_order_relaxed) != 0) detail::end();
}

void watch(bool wanted) noexcept {
  if (wanted) {
    detail::wanted.fetch_or(watched);
  } else {
    detail::wanted.fetch_and(~watched);
  }
}

Look look() noexcept {
  Look seen{.faults = watched_counts.faults.load(std::memory_order_relaxed),
            .bytes_in = watched_counts.bytes_in.load(std::memory_order_relaxed),
            .bytes_out = watched_counts.bytes_out.load(std::memory_order_relaxed),
            .messages = watched_counts.messages.load(std::memory_order_relaxed)};
  const std::size_t end = doing_end.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < end; ++i) {
    if (!doing[i].is_used.load(std::memory_order_relaxed)) continue;
    const std::uint64_t innermost = doing[i].open_spans.load(std::memory_order_relaxed) & 0xfU;
    switch (innermost == 0 ? Kind::compute : static_cast<Kind>(innermost - 1)) {
      case Kind::read_fault:
      case Kind::write_fault:
      case Kind::transfer:
        ++seen.in_faults;
        break;
      case Kind::release:
      case Kind::acquire:
        ++seen.in_fences;
        break;
      case Kind::barrier:
      case Kind::idle:
        ++seen.waiting;
        break;
      default:
        ++seen.computing;
    }
  }
  return seen;
}

void detail::begin(Kind kind, std::uint64_t address, std::uint64_t code) noexcept {
  if (wants(watched) && is_fault(kind)) watched_counts.faults.fetch_add(1, std::memory_order_relaxed);
  if (!wants(kept)) return;
  Thread* const thread = self();
  if (thread == nullptr) return lose_event();
  const std::size_t depth = thread->depth.load(std::memory_order_relaxed);
  if (depth < depth_most) {
    Open& open = thread->open[depth];
    open.start_ns.set(now_ns());
    open.inside_ns.set(0);
    const std::uint64_t outer = depth == 0 ? 0 : thread->open[depth - 1].region.get();
    open.region.set(kind == Kind::compute ? thread->find_region(code) : outer);
    open.kind.store(kind, std::memory_order_relaxed);
    open.address = address;
    open.code = code;
    open.bytes = thread->bytes.get();
    open.messages = thread->messages.get();
  }
  thread->depth.store(depth + 1, std::memory_order_release);
}

void detail::end() noexcept {
  Thread* const thread = own_thread;
  if (thread == nullptr) return;
  const std::size_t depth = thread->depth.load(std::memory_order_relaxed);
  if (depth == 0) return;  // it began before anything was kept
  thread->depth.store(depth - 1, std::memory_order_release);
  if (depth > depth_most) return;
  Open& open = thread->open[depth - 1];
  const Kind kind = open.kind.load(std::memory_order_relaxed);
  const std::uint64_t duration_ns = now_ns() - open.start_ns.get();
  RegionSums& sums = thread->regions[open.region.get()];
  if (kind == Kind::compute) thread->last_region.set(sums.region.get());
  const auto index = static_cast<std::size_t>(kind);
  sums.ns[index].add(duration_ns - std::min(duration_ns, open.inside_ns.get()));
  sums.count[index].add(1);
  if (depth > 1) thread->open[depth - 2].inside_ns.add(duration_ns);
  if (thread->room == 0) return;
  thread->add({.start_ns = open.start_ns.get(),
               .duration_ns = duration_ns,
               .address = open.address,
               .code = open.code,
               .region = sums.region.get(),
               .bytes = static_cast<std::uint32_t>(
                   std::min<std::uint64_t>(thread->bytes.get() - open.bytes, 0xffffffffU)),
               .messages = static_cast<std::uint16_t>(
                   std::min<std::uint64_t>(thread->messages.get() - open.messages, 0xffff)),
               .kind = kind,
               .mark = 0});
}

void detail::count_message(std::size_t bytes, bool incoming) noexcept {
  if (wants(watched)) {
    watched_counts.messages.fetch_add(1, std::memory_order_relaxed);
    (incoming ? watched_counts.bytes_in : watched_counts.bytes_out)
        .fetch_add(bytes, std::memory_order_relaxed);
  }
  if (!wants(kept)) return;
  Thread* const thread = self();
  if (thread == nullptr) return;
  thread->messages.add(1);
  thread->bytes.add(bytes);
  RegionSums& sums = thread->current();
  sums.messages.add(1);
  sums.bytes.add(bytes);
}

void note(Kind kind, const void* address, std::size_t bytes, const void* code, std::uint8_t mark) noexcept {
  if (!wants(sharing)) [[likely]]
    return;
  Thread* const thread = self();
  if (thread == nullptr) return lose_event();
  const bool is_allocation = kind == Kind::allocation;
  thread->add(
      {.start_ns = now_ns(),
       .duration_ns = is_allocation ? bytes : 0,
       .address = reinterpret_cast<std::uintptr_t>(address),
       .code = reinterpret_cast<std::uintptr_t>(code),
       .region = thread->current().region.get(),
       .bytes = is_allocation ? 0 : static_cast<std::uint32_t>(std::min<std::size_t>(bytes, 0xffffffffU)),
       .messages = 0,
       .kind = kind,
       .mark = mark});
}

std::uint64_t current_region() noexcept {
  Thread* const thread = wants(kept) ? self() : nullptr;
  if (thread == nullptr) return 0;
  const std::uint64_t region = thread->current().region.get();
  return region != 0 ? region : thread->last_region.get();
}

void for_threads(FunctionRef<void(const ThreadRecord&)> action) {
  const std::size_t count = std::min<std::size_t>(thread_count.load(), threads_most);
  const auto record = std::make_unique<ThreadRecord>();
  for (std::size_t i = 0; i < count; ++i) {
    const Thread* const thread = threads[i].load(std::memory_order_acquire);
    if (thread == nullptr) continue;
    record->number = thread->number;
    record->is_of_program = thread->is_of_program.load();
    record->lost = thread->lost.get();
    record->event_count = thread->event_count.load(std::memory_order_acquire);
    record->events = thread->events;
    record->total_count = thread->region_count.load(std::memory_order_acquire);
    for (std::size_t region = 0; region < record->total_count; ++region) {
      const RegionSums& sums = thread->regions[region];
      Totals& told = record->totals[region];
      told.region = sums.region.get();
      for (std::size_t kind = 0; kind < kind_count; ++kind) {
        told.ns[kind] = sums.ns[kind].get();
        told.count[kind] = sums.count[kind].get();
      }
      told.bytes = sums.bytes.get();
      told.messages = sums.messages.get();
    }
    // What has not ended counts up to now.
    const std::size_t depth = std::min(thread->depth.load(std::memory_order_acquire), depth_most);
    std::uint64_t end_ns = now_ns();
    for (std::size_t level = depth; level-- > 0;) {
      const Open& open = thread->open[level];
      const std::uint64_t whole_ns = end_ns - std::min(end_ns, open.start_ns.get());
      const std::uint64_t self_ns = whole_ns - std::min(whole_ns, open.inside_ns.get());
      const auto kind = static_cast<std::size_t>(open.kind.load(std::memory_order_relaxed));
      record->totals[std::min(open.region.get(), record->total_count - 1)].ns[kind] += self_ns;
      end_ns = open.start_ns.get();
    }
    action(*record);
  }
  const std::uint64_t lost = lost_without_record.load(std::memory_order_relaxed);
  if (lost == 0) return;
  const auto of_others = std::make_unique<ThreadRecord>();
  of_others->number = threads_most;
  of_others->is_of_program = true;
  of_others->lost = lost;
  action(*of_others);
}

}  // namespace craton::events
