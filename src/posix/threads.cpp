#include "posix/threads.hpp"

#include <fenv.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/kept_errno.hpp"
#include "base/scope_exit.hpp"
#include "posix/async_cancellation.hpp"
#include "posix/cpp_settings.hpp"
#include "posix/everywhere.hpp"
#include "posix/monitor.hpp"
#include "posix/own_thread.hpp"
#include "posix/real.hpp"
#include "posix/signals.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId threads_handler = fabric::max_handlers - 5;

std::atomic<Threads*> running_threads{nullptr};

const void* address_of(pthread_t thread) noexcept {
  return reinterpret_cast<const void*>(thread);
}

/// How long the rank of a thread goes on with a join that has been given up, at most.
constexpr TimeNs join_slice_ns = 50'000'000;

/// What a thread is sent has been published, and is found there.
bool orders_memory(Threads::Kind kind) noexcept {
  return kind == Threads::Kind::cancel || kind == Threads::Kind::signal || kind == Threads::Kind::queue;
}

/// Whether a thread is to be bound to processors of other ranks.
bool is_bound_elsewhere(const pthread_attr_t& attributes) noexcept {
  cpu_set_t processors;
  return ::pthread_attr_getaffinity_np(&attributes, sizeof processors, &processors) == 0 &&
         are_processors_of_others(sizeof processors, &processors);
}

/// Of Kind::start: a thread, and what it takes over from its creator.
struct Beginning {
  Stacks::Body body;
  void* argument;
  int detached = PTHREAD_CREATE_JOINABLE;
  int inherits = PTHREAD_INHERIT_SCHED;
  int policy = SCHED_OTHER;
  sched_param parameters{};
  bool is_bound = false;  ///< to `processors`
  cpu_set_t processors{};
  bool is_masked = false;  ///< its attributes name what is `blocked`
  sigset_t blocked;
  fenv_t environment;

  Beginning() = default;
  Beginning(Stacks::Body first, void* given, const pthread_attr_t* attributes) noexcept
      : body(first), argument(given) {
    if (attributes != nullptr) {
      ::pthread_attr_getdetachstate(attributes, &detached);
      ::pthread_attr_getinheritsched(attributes, &inherits);
      ::pthread_attr_getschedpolicy(attributes, &policy);
      ::pthread_attr_getschedparam(attributes, &parameters);
      // All there can be: nothing has been said of it.
      is_bound = ::pthread_attr_getaffinity_np(attributes, sizeof processors, &processors) == 0 &&
                 CPU_COUNT(&processors) != CPU_SETSIZE &&
                 !are_processors_of_others(sizeof processors, &processors);
    }
    if (inherits == PTHREAD_INHERIT_SCHED) {
      policy = ::sched_getscheduler(0);
      ::sched_getparam(0, &parameters);
    }
    is_masked = attributes != nullptr && ::pthread_attr_getsigmask_np(attributes, &blocked) == 0;
    if (!is_masked) ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    ::fegetenv(&environment);
  }
  void apply_to(pthread_attr_t& attributes) const noexcept {
    ::pthread_attr_setdetachstate(&attributes, detached);
    if (is_masked) ::pthread_attr_setsigmask_np(&attributes, &blocked);
    if (is_bound) ::pthread_attr_setaffinity_np(&attributes, sizeof processors, &processors);
    if (inherits == PTHREAD_INHERIT_SCHED) return;
    ::pthread_attr_setinheritsched(&attributes, inherits);
    // A priority is taken only where the policy has it, a policy at any time: whether both go together is
    // seen when the thread is made.
    for (const int one : {policy, SCHED_FIFO}) {
      ::pthread_attr_setschedpolicy(&attributes, one);
      if (::pthread_attr_setschedparam(&attributes, &parameters) == 0) break;
    }
    ::pthread_attr_setschedpolicy(&attributes, policy);
  }
  /// On the thread itself.
  void take_over() const noexcept {
    ::fesetenv(&environment);
    // Who has made the thread is one of the runtime's own, which stand back for the program's.
    if (inherits == PTHREAD_INHERIT_SCHED) static_cast<void>(::sched_setscheduler(0, policy, &parameters));
    begin_with_mask(blocked);
  }
};

/// Of the answer to it.
struct Made {
  std::uint64_t started;  ///< at its address there
};

/// Of the answer to Kind::count.
struct Counts {
  std::uint64_t running;
  std::uint64_t ever;
};

/// The code that a thread will run. Of std::thread's, whose first function is the C++ library's, that is what
/// the object runs which holds what the thread is to do: std::thread::_State, whose table of virtual
/// functions has two destructors and _M_run.
const void* code_of(const SharedProgram& program, Stacks::Body body, void* argument) noexcept {
  const auto* const first = reinterpret_cast<const void*>(body);
  if (argument == nullptr || !program.is_cpp_library_code(first)) return first;
  constexpr std::size_t run = 2;
  return (*static_cast<const void* const* const*>(argument))[run];
}

/// Before this rank starts its first thread, which may outlive the region that it was started in: from then
/// on rank 0 is not alone between regions either.
void tell_of_threads(SharedProgram& program) {
  static std::atomic<bool> is_told{false};
  if (program.rank() == 0 || is_told.load(std::memory_order_acquire)) return;
  Everywhere* const others = everywhere_now();
  if (others == nullptr) return;
  others->make(Everywhere::Kind::threads, nullptr, 0);
  is_told.store(true, std::memory_order_release);
}

}  // namespace

/// Until its creator lets it go.
struct Threads::Started {
  Started(Threads& threads, const Beginning& what) noexcept : self(threads), beginning(what) {}

  Threads& self;
  const Beginning beginning;
  std::atomic<bool> may_begin{false};
};

/// At the end of a thread that another rank has started, however it ends.
class Threads::AtEnd {
 public:
  explicit AtEnd(Threads& threads) : threads_(threads) {}
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() {
    const KeptErrno kept;
    threads_.program_.flush_output();
    const Message message{.kind = Kind::ended, .running = threads_.threads_here() - 1};
    for (fabric::Rank rank = 0; rank < threads_.loads_.size(); ++rank)
      if (rank != threads_.program_.rank()) threads_.send(rank, message);
  }

 private:
  Threads& threads_;
};

int cancel_here(pthread_t thread) {
  const int error = CRATON_REAL(pthread_cancel)(thread);
  if (error != 0) return error;
  if (monitor() != nullptr) monitor()->stir(thread);
  cancel_asynchronously(thread);
  return 0;
}

Threads* threads() noexcept {
  return running_threads.load(std::memory_order_acquire);
}

void start_threads(SharedProgram& program) {
  if (program.fabric().size() == 1) return;
  start_cpp_settings();
  running_threads.store(new Threads(program, threads_handler, program.spreads_threads()),
                        std::memory_order_release);
}

Threads::Threads(SharedProgram& program, fabric::HandlerId handler, bool spread)
    : program_(program),
      handler_(handler),
      spread_(spread),
      loads_(program.fabric().size()),
      last_chosen_(program.rank()) {
  program_.fabric().set_handler(handler_, &Threads::arrived, this);
}

// ---- At the rank that asks

std::optional<fabric::Rank> Threads::other_owner(pthread_t thread) const noexcept {
  const space::OwnedSegment& stacks = program_.stack_segment();
  if (!stacks.contains(address_of(thread))) return std::nullopt;
  const std::size_t offset = thread - reinterpret_cast<std::uintptr_t>(stacks.data());
  const auto owner = static_cast<fabric::Rank>(offset / stacks.part_bytes());
  return owner == program_.rank() ? std::nullopt : std::optional(owner);
}

Threads::Answer Threads::ask(fabric::Rank owner, const Request& request) noexcept {
  const KeptErrno kept;
  if (orders_memory(request.kind)) monitor()->inside(address_of(request.thread), [] {});
  Waiter waiter;
  send_request(owner, request, waiter);
  return answer_to(waiter);
}

Threads::Answer Threads::ask_to_join(fabric::Rank owner, const Request& request) {
  Waiter waiter;
  Monitor::Turn turn(*monitor(), &waiter);
  turn.enter(0);
  send_request(owner, request, waiter);
  const ScopeExit where_cancelled([&] {
    if (waiter.is_answered.load()) return;
    send(owner, {.kind = Kind::give_up,
                 .running = threads_here(),
                 .waiter = reinterpret_cast<std::uintptr_t>(&waiter)});
    static_cast<void>(answer_to(waiter));
  });
  do {
    ::pthread_testcancel();
  } while (turn.sleep(no_deadline) != Monitor::Slept::holds);
  return answer_to(waiter);
}

void Threads::send_request(fabric::Rank owner, const Request& request, const Waiter& waiter) noexcept {
  send(owner, {.kind = request.kind,
               .running = threads_here(),
               .waiter = reinterpret_cast<std::uintptr_t>(&waiter),
               .thread = request.thread,
               .number = request.number,
               .bytes = request.bytes});
}

Threads::Answer Threads::answer_to(const Waiter& waiter) noexcept {
  fabric::Fabric& fabric = program_.fabric();
  const auto is_over = [&] { return waiter.is_answered.load() || fabric.lost_ranks() != 0; };
  static_cast<void>(fabric.wait_until(is_over, no_deadline));
  if (!waiter.is_answered.load()) program_.fail("the rank of a thread that is asked for is gone");
  return waiter.answer;
}

int Threads::create(pthread_t* thread, const pthread_attr_t* attributes, Stacks::Body body, void* argument) {
  const bool may_leave = spread_ && program_.thread_may_leave(code_of(program_, body, argument));
  const fabric::Rank rank = may_leave ? choose_rank() : program_.rank();
  if (rank == program_.rank()) return create_here(thread, attributes, body, argument);
  return create_there(rank, thread, attributes, body, argument);
}

int Threads::create_here(pthread_t* thread, const pthread_attr_t* attributes, Stacks::Body body,
                         void* argument) {
  tell_of_threads(program_);
  if (attributes == nullptr || !is_bound_elsewhere(*attributes))
    return program_.stacks().start(thread, attributes, body, argument);
  pthread_attr_t unbound;
  ::pthread_attr_init(&unbound);
  Beginning(body, argument, attributes).apply_to(unbound);
  const int error = program_.stacks().start(thread, &unbound, body, argument);
  ::pthread_attr_destroy(&unbound);
  return error;
}

/// The thread begins when what its creator wrote until now, where it is found included, is there to be seen.
int Threads::create_there(fabric::Rank rank, pthread_t* thread, const pthread_attr_t* attributes,
                          Stacks::Body body, void* argument) {
  const KeptErrno kept;
  if (program_.rank() == 0) program_.note_threads_elsewhere();
  program_.flush_output();
  tell_cpp_settings();
  Request request{.kind = Kind::start};
  put(request.bytes, Beginning(body, argument, attributes));
  const Answer made = ask(rank, request);
  if (made.error != 0) return made.error;
  if (thread != nullptr) *thread = made.result;
  monitor()->inside(address_of(made.result), [] {});  // publishes
  send(rank, {.kind = Kind::go, .running = threads_here(), .waiter = get<Made>(made.bytes).started});
  return 0;
}

/// The rank with the fewest threads of the program, of several the next one. Of others it is known how many
/// there were when they were last heard of, and have been sent there since.
fabric::Rank Threads::choose_rank() noexcept {
  const auto ranks = static_cast<fabric::Rank>(loads_.size());
  loads_[program_.rank()].store(threads_here());
  const fabric::Rank last = last_chosen_.load();
  fabric::Rank best = last;
  for (fabric::Rank i = ranks; i > 0; --i) {
    const fabric::Rank rank = (last + i) % ranks;
    if (loads_[rank].load() <= loads_[best].load()) best = rank;
  }
  last_chosen_.store(best);
  loads_[best].fetch_add(1);
  return best;
}

void Threads::end_after_others() noexcept {
  if (is_watching_.test_and_set()) return;
  if (start_own_thread(&Threads::watch, this) != 0) program_.end_at_once(EXIT_FAILURE);
}

/// Counts until no rank has a thread, and again: none has been started meanwhile where none had been looked
/// for yet.
void* Threads::watch(void* self) noexcept {
  Threads& here = *static_cast<Threads*>(self);
  constexpr TimeNs longest_pause_ns = 20'000'000;
  TimeNs pause_ns = 1'000'000;
  std::optional<std::uint64_t> ever_when_quiet;
  for (;;) {
    Counts all{.running = here.program_.stacks().running_threads(), .ever = here.program_.stacks().ever()};
    for (fabric::Rank rank = 1; rank < here.loads_.size(); ++rank) {
      const auto counts = get<Counts>(here.ask(rank, {.kind = Kind::count}).bytes);
      all.running += counts.running;
      all.ever += counts.ever;
    }
    if (all.running == 0 && ever_when_quiet == all.ever) break;
    ever_when_quiet = all.running == 0 ? std::optional(all.ever) : std::nullopt;
    if (all.running == 0) continue;
    const timespec pause = timespec_of(pause_ns);
    ::nanosleep(&pause, nullptr);
    pause_ns = std::min(pause_ns * 2, longest_pause_ns);
  }
  here.program_.exit_after_threads();
  return nullptr;
}

// ---- Messages

std::uint32_t Threads::threads_here() const noexcept {
  return static_cast<std::uint32_t>(program_.stacks().running_threads());
}

void Threads::send(fabric::Rank to, const Message& message) noexcept {
  static_cast<void>(program_.fabric().send(to, handler_, &message, sizeof message));
}

void Threads::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& here = *static_cast<Threads*>(self);
  Message message{};
  if (bytes != sizeof message) return;
  std::memcpy(&message, payload, sizeof message);
  here.loads_[source].store(message.running);
  switch (message.kind) {
    case Kind::answer: {
      auto& waiter = *reinterpret_cast<Waiter*>(message.waiter);
      waiter.answer = {
          .error = static_cast<int>(message.error), .result = message.result, .bytes = message.bytes};
      waiter.is_answered.store(true);
      monitor()->let_on_here(&waiter, 0, 1);
      return here.program_.fabric().notify();
    }
    case Kind::give_up:
      return here.give_up(source, message.waiter);
    case Kind::go:
      reinterpret_cast<Started*>(message.waiter)->may_begin.store(true);
      return here.program_.fabric().notify();
    case Kind::ended:
      return;
    default:
      return here.begin_to_serve(source, message);
  }
}

// ---- At the rank that is asked

/// On a thread of its own, since who calls a handler must not wait.
void Threads::begin_to_serve(fabric::Rank by, const Message& message) noexcept {
  auto asked = std::make_unique<Asked>(*this, by, message);
  const bool may_be_given_up = message.kind == Kind::join;
  if (may_be_given_up) add_join(*asked);
  const int error = start_own_thread(&Threads::serve, asked.get());
  if (error == 0) return static_cast<void>(asked.release());
  if (may_be_given_up) remove_join(*asked);
  answer(by, message.waiter, {.error = error});
}

void Threads::add_join(Asked& asked) noexcept {
  const std::lock_guard lock(joins_lock_);
  joins_.push_back(&asked);
}

void Threads::remove_join(const Asked& asked) noexcept {
  const std::lock_guard lock(joins_lock_);
  joins_.erase(std::remove(joins_.begin(), joins_.end(), &asked), joins_.end());
}

/// In a handler. It may be over by now.
void Threads::give_up(fabric::Rank by, std::uint64_t waiter) noexcept {
  const std::lock_guard lock(joins_lock_);
  for (Asked* const each : joins_)
    if (each->by == by && each->message.waiter == waiter) each->is_given_up.store(true);
}

void Threads::open() noexcept {
  is_open_.store(1);
  futex_wake(is_open_, std::numeric_limits<int>::max());
}

void* Threads::serve(void* asked) noexcept {
  const std::unique_ptr<Asked> mine(static_cast<Asked*>(asked));
  Threads& here = mine->self;
  while (here.is_open_.load() == 0) futex_wait(here.is_open_, 0, no_deadline);
  const Answer answer = here.make_call(*mine);
  if (mine->message.kind == Kind::join) here.remove_join(*mine);
  here.answer(mine->by, mine->message.waiter, answer);
  return nullptr;
}

void Threads::answer(fabric::Rank to, std::uint64_t waiter, const Answer& answer) noexcept {
  send(to, {.kind = Kind::answer,
            .running = threads_here(),
            .waiter = waiter,
            .error = answer.error,
            .result = answer.result,
            .bytes = answer.bytes});
}

Threads::Answer Threads::make_call(const Asked& asked) noexcept {
  const Message& request = asked.message;
  const pthread_t thread = request.thread;
  const auto number = static_cast<int>(request.number);
  if (orders_memory(request.kind)) monitor()->inside(address_of(thread), [] {});
  Answer answer;
  switch (request.kind) {
    case Kind::start:
      return start_here(request.bytes);
    case Kind::join:
      return join_here(asked);
    case Kind::detach:
      answer.error = CRATON_REAL(pthread_detach)(thread);
      if (answer.error == 0) program_.stacks().let_go(thread);
      break;
    case Kind::cancel:
      answer.error = cancel_here(thread);
      break;
    case Kind::signal:
      answer.error = CRATON_REAL(pthread_kill)(thread, number);
      break;
    case Kind::queue:
      answer.error = CRATON_REAL(pthread_sigqueue)(thread, number, get<sigval>(request.bytes));
      break;
    case Kind::name:
      answer.error =
          CRATON_REAL(pthread_setname_np)(thread, reinterpret_cast<const char*>(request.bytes.data()));
      break;
    case Kind::get_name:
      answer.error = CRATON_REAL(pthread_getname_np)(thread, reinterpret_cast<char*>(answer.bytes.data()),
                                                     answer.bytes.size());
      break;
    case Kind::affinity: {
      const auto mask = get<cpu_set_t>(request.bytes);
      answer.error = bind_thread(thread, sizeof mask, &mask);
      break;
    }
    case Kind::get_affinity: {
      cpu_set_t mask{};
      answer.error = CRATON_REAL(pthread_getaffinity_np)(thread, sizeof mask, &mask);
      put(answer.bytes, mask);
      break;
    }
    case Kind::schedule: {
      const auto parameters = get<sched_param>(request.bytes);
      answer.error = CRATON_REAL(pthread_setschedparam)(thread, number, &parameters);
      break;
    }
    case Kind::get_schedule: {
      int policy = 0;
      sched_param parameters{};
      answer.error = CRATON_REAL(pthread_getschedparam)(thread, &policy, &parameters);
      answer.result = static_cast<std::uint64_t>(policy);
      put(answer.bytes, parameters);
      break;
    }
    case Kind::priority:
      answer.error = CRATON_REAL(pthread_setschedprio)(thread, number);
      break;
    case Kind::count:
      put(answer.bytes,
          Counts{.running = program_.stacks().running_threads(), .ever = program_.stacks().ever()});
      break;
    case Kind::go:
    case Kind::give_up:
    case Kind::ended:
    case Kind::answer:
      break;
  }
  return answer;
}

/// In slices, to see whether it has been given up.
Threads::Answer Threads::join_here(const Asked& asked) noexcept {
  const pthread_t thread = asked.message.thread;
  const SteadyClock clock;
  TimeNs now_ns = clock.now_ns();
  // Bounded, for the clock of the host that asks may be behind this one's.
  const TimeNs deadline_ns = now_ns + std::min(asked.message.number, no_deadline - now_ns);
  void* result = nullptr;
  Answer answer{.error = ETIMEDOUT};
  for (bool is_late = false; answer.error == ETIMEDOUT && !is_late; now_ns = clock.now_ns()) {
    if (asked.is_given_up.load()) return {.error = ECANCELED};
    is_late = now_ns >= deadline_ns;
    const timespec until = timespec_of(std::min(deadline_ns, now_ns + join_slice_ns));
    answer.error = CRATON_REAL(pthread_clockjoin_np)(thread, &result, CLOCK_MONOTONIC, &until);
  }
  answer.result = reinterpret_cast<std::uintptr_t>(result);
  if (answer.error != 0) return answer;
  program_.stacks().let_go(thread);
  monitor()->inside(address_of(thread), [] {});  // publishes what the thread wrote
  return answer;
}

Threads::Answer Threads::start_here(const Bytes& bytes) noexcept {
  auto started = std::make_unique<Started>(*this, get<Beginning>(bytes));
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  started->beginning.apply_to(attributes);
  Answer answer;
  pthread_t thread = 0;
  answer.error = program_.stacks().start(&thread, &attributes, &Threads::begin, started.get());
  ::pthread_attr_destroy(&attributes);
  if (answer.error != 0) return answer;
  answer.result = thread;
  put(answer.bytes, Made{.started = reinterpret_cast<std::uintptr_t>(started.release())});
  return answer;
}

/// On the thread that was made.
void* Threads::begin(void* started) {
  auto* const mine = static_cast<Started*>(started);
  SharedProgram& program = mine->self.program_;
  fabric::Fabric& fabric = program.fabric();
  const auto is_over = [&] { return mine->may_begin.load() || fabric.lost_ranks() != 0; };
  static_cast<void>(fabric.wait_until(is_over, no_deadline));
  if (!mine->may_begin.load()) program.fail("the rank that has started a thread is gone");
  const Beginning beginning = mine->beginning;
  const AtEnd end(mine->self);
  delete mine;
  monitor()->inside(address_of(::pthread_self()), [] {});  // learns what its creator wrote
  beginning.take_over();
  return beginning.body(beginning.argument);
}

}  // namespace craton::posix
