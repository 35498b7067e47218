#include "posix/stacks.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <span>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/futex.hpp"
#include "base/kept_errno.hpp"
#include "base/line_writer.hpp"
#include "base/unique_fd.hpp"
#include "omp/thread.hpp"
#include "posix/async_cancellation.hpp"
#include "posix/monitor.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"
#include "posix/signals.hpp"
#include "posix/waits/mutexes.hpp"
#include "vm/fault_state.hpp"
#include "vm/thread_scope.hpp"

namespace craton::posix {

namespace {

bool has_ended(pid_t kernel_thread) {
  return ::tgkill(::getpid(), kernel_thread, 0) != 0 && errno == ESRCH;
}

/// pthread_exit unwinds frames of ours with the process's unwinder, and runs their destructors with the one
/// that is linked into this library. That one aborts unless it has made its tables, which it does at its
/// first exception.
void make_unwinder_ready() {
  try {
    throw 0;
  } catch (int) {
  }
}

int find_code_on_stack(dl_phdr_info* info, std::size_t /*size*/, void* /*context*/) {
  for (const ElfW(Phdr) & header : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (header.p_type == PT_GNU_STACK && (header.p_flags & PF_X) != 0) return 1;
  }
  return 0;
}

}  // namespace

vm::Contents contents_of_stacks() noexcept {
  return ::dl_iterate_phdr(&find_code_on_stack, nullptr) != 0 ? vm::Contents::data_and_code
                                                              : vm::Contents::data;
}

Stacks::Stacks(space::OwnedSegment& segment, fabric::Rank rank, const StackSizes& sizes)
    : part_(segment.part(rank)), sizes_(sizes) {
  make_unwinder_ready();
  segment.set_closed_page_handler(&Stacks::overflowed, this);
}

Stacks::~Stacks() = default;

void Stacks::overflowed(void* self, const std::byte* page) noexcept {
  const Stacks& stacks = *static_cast<const Stacks*>(self);
  // Its thread-local variables lie on top of it. The page says less: a large frame jumps over a guard.
  const auto* const top = reinterpret_cast<const std::byte*>(::pthread_self());
  const bool is_on_ours = top >= stacks.part_ && top < stacks.part_ + stacks.sizes_.part_bytes();
  const bool is_first = (is_on_ours ? top : page) < stacks.slot_stack(0);
  std::array<char, 256> buffer;
  LineWriter line(buffer.data(), buffer.size());
  line.append("the stack of ");
  const omp::Thread* const thread = omp::self_if_known();
  if (thread != nullptr && thread->state.team != nullptr) {
    line.append("OpenMP thread ");
    line.append_unsigned(thread->state.number);
  } else {
    line.append(is_first ? "the program's first thread" : "a thread that the program has started");
  }
  line.append(" is full: it has ");
  line.append_unsigned(((is_first ? stacks.sizes_.first_bytes : stacks.sizes_.thread_bytes) - guard_bytes) /
                       kibi);
  line.append(is_first ? " KiB; raise ulimit -s" : " KiB; raise OMP_STACKSIZE");
  vm::refuse_fault(line.text());
}

namespace {

/// \param begin of what the stack may have, of which the lowest is to be its guard
void set_stack(pthread_attr_t& attributes, std::byte* begin, std::size_t bytes) {
  ::pthread_attr_setstack(&attributes, begin + guard_bytes, bytes - guard_bytes);
  static_cast<void>(::mprotect(begin, guard_bytes, PROT_NONE));
}

/// Says where the stack of the program's first thread ends in the variable by which the C library does. R and
/// collectors of garbage measure by it how much of the stack is used. The loader has made it read-only, or
/// the program has its copy in its own data.
void tell_end_of_stack(std::byte* end) {
  void* const variable = ::dlsym(RTLD_DEFAULT, "__libc_stack_end");
  if (variable == nullptr) return;
  if (shared_program()->is_shared(variable)) {
    *static_cast<std::byte**>(variable) = end;
    return;
  }
  const UniqueFd memory(::open("/proc/self/mem", O_WRONLY | O_CLOEXEC));  // takes no notice of protections
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(variable));
  static_cast<void>(::pwrite(memory.get(), &end, sizeof end, at));
}

/// Threads of the program, from before they are made: the maker may end at once.
std::atomic<std::size_t> running{0};
/// The same, with those that have ended.
std::atomic<std::uint64_t> begun{0};

void count_thread() noexcept {
  begun.fetch_add(1);
  running.fetch_add(1);
}

/// One of them; its end is seen also where pthread_exit or a cancellation ends it.
class RunningThread {
 public:
  RunningThread() = default;
  RunningThread(const RunningThread&) = delete;
  RunningThread& operator=(const RunningThread&) = delete;
  ~RunningThread() {
    if (Monitor* const shared = monitor(); shared != nullptr) leave_mutexes(*shared);
    end_async_cancellation();
    Stacks::thread_ended();
  }
};

}  // namespace

void Stacks::thread_ended() noexcept {
  events::detach();
  if (running.fetch_sub(1) == 1) shared_program()->last_thread_ended();
}

void Stacks::forget_thread() noexcept {
  running.fetch_sub(1);
}

/// A thread that has been made; it frees the entry.
void Stacks::let_begin(Entry& entry) noexcept {
  std::atomic<std::uint32_t>& may_begin = entry.may_begin;
  may_begin.store(1);
  futex_wake(may_begin, 1);
}

void* Stacks::enter(void* entry) {
  const std::unique_ptr<Entry> mine(static_cast<Entry*>(entry));
  if (mine->mask) begin_with_mask(*mine->mask);
  const Body body = mine->body;
  void* const argument = mine->argument;
  if (mine->kernel_thread != nullptr) mine->kernel_thread->store(::gettid());
  while (mine->may_begin.load() == 0) futex_wait(mine->may_begin, 0, no_deadline);
  const vm::ThreadScope scope;
  events::attach();
  const RunningThread counted;
  return body(argument);
}

void Stacks::start_first(Body body, void* argument) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  set_stack(attributes, part_, sizes_.first_bytes);
  if (shared_program()->rank() == 0) {
    static_cast<void>(::mprotect(slot_stack(0), guard_bytes, PROT_NONE));  // so the mapping ends there
    tell_end_of_stack(part_ + sizes_.first_bytes - sizeof(void*));
  }
  auto entry =
      std::unique_ptr<Entry>(new Entry{.body = body, .argument = argument, .kernel_thread = nullptr});
  pthread_t thread = 0;
  if (shared_program()->rank() != 0) not_counted_ = 1;
  count_thread();
  const int error = CRATON_REAL(pthread_create)(&thread, &attributes, &Stacks::enter, entry.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0) throw Error::from_errno("cannot start the program's first thread", error, "ulimit -u");
  let_begin(*entry.release());
}

/// With the lock.
Stacks::Slot* Stacks::take_slot(std::size_t& number) {
  for (number = 0; number < slots_.size(); ++number) {
    Slot& slot = *slots_[number];
    const pid_t kernel_thread = slot.kernel_thread.load();
    const bool is_free = !slot.used || (slot.let_go && kernel_thread != 0 && has_ended(kernel_thread));
    if (is_free) return &slot;
  }
  if (number == sizes_.threads) return nullptr;
  slots_.push_back(std::make_unique<Slot>());
  return slots_.back().get();
}

void Stacks::tell_smaller(const pthread_attr_t& asked) noexcept {
  static std::atomic_flag told;
  pthread_attr_t usual;
  std::size_t usual_bytes = 0;
  std::size_t bytes = 0;
  ::pthread_attr_init(&usual);
  ::pthread_attr_getstacksize(&usual, &usual_bytes);
  ::pthread_attr_getstacksize(&asked, &bytes);
  const std::size_t given_bytes = sizes_.thread_bytes - guard_bytes;
  if (bytes <= given_bytes || bytes == usual_bytes || told.test_and_set()) return;
  std::array<char, 256> buffer;
  LineWriter line(buffer.data(), buffer.size());
  line.append("craton: a thread is to have a stack of ");
  line.append_unsigned(bytes / kibi);
  line.append(" KiB, but gets ");
  line.append_unsigned(given_bytes / kibi);
  line.append(" KiB, as all threads: set OMP_STACKSIZE=");
  line.append_unsigned((bytes + kibi - 1) / kibi);
  line.append("K\n");
  static_cast<void>(write_fully(STDERR_FILENO, line.text()));
}

int Stacks::start(pthread_t* thread, const pthread_attr_t* attributes, Body body, void* argument) {
  const KeptErrno kept;
  pthread_attr_t made;
  ::pthread_attr_init(&made);  // has nothing to be freed
  // All but the stack, which is ours. What the copy refers to stays the program's.
  if (attributes != nullptr) made = *attributes;
  int detached = PTHREAD_CREATE_JOINABLE;
  ::pthread_attr_getdetachstate(&made, &detached);
  std::size_t number = 0;
  std::unique_lock lock(lock_);
  Slot* const slot = take_slot(number);
  if (slot == nullptr) return EAGAIN;
  set_stack(made, slot_stack(number), sizes_.thread_bytes);
  slot->kernel_thread.store(0);
  auto entry = std::unique_ptr<Entry>(
      new Entry{.body = body, .argument = argument, .kernel_thread = &slot->kernel_thread});
  if (sigset_t mask; attributes != nullptr && ::pthread_attr_getsigmask_np(attributes, &mask) == 0)
    entry->mask = mask;
  pthread_t started = 0;
  count_thread();
  const int error = CRATON_REAL(pthread_create)(&started, &made, &Stacks::enter, entry.get());
  if (error != 0) {
    running.fetch_sub(1);
    return error;
  }
  slot->thread = started;
  slot->used = true;
  slot->let_go = detached == PTHREAD_CREATE_DETACHED;
  lock.unlock();  // for what comes may be a fault, which waits for other ranks
  // Programs look for themselves among their threads: it is there before the thread begins, as ever.
  if (thread != nullptr) *thread = started;
  let_begin(*entry.release());
  return 0;
}

std::size_t Stacks::running_threads() const noexcept {
  return running.load() - std::min(not_counted_, running.load());
}

std::uint64_t Stacks::ever() const noexcept {
  return begun.load();
}

void Stacks::let_go(pthread_t thread) {
  const std::lock_guard lock(lock_);
  for (const auto& slot : slots_) {
    if (slot->used && slot->thread == thread) slot->let_go = true;
  }
}

}  // namespace craton::posix
