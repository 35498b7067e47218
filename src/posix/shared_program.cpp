#include "posix/shared_program.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <stdio_ext.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/cancellation.hpp"
#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/line_writer.hpp"
#include "base/processors.hpp"
#include "base/signal_section.hpp"
#include "omp/locks.hpp"
#include "omp/process.hpp"
#include "omp/settings.hpp"
#include "posix/descriptors.hpp"
#include "posix/large_variables.hpp"
#include "posix/needs.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "posix/remote_files.hpp"
#include "posix/streams.hpp"
#include "posix/threads.hpp"
#include "vm/saved_pages.hpp"

namespace craton::posix {

namespace {

// The space's regions grow from the low numbers, and so do its handlers.
constexpr fabric::RegionId agreement_region = fabric::max_regions - 1;
constexpr fabric::RegionId omp_regions = fabric::max_regions - 64;
constexpr fabric::HandlerId agreement_handler = fabric::max_handlers - 1;
constexpr fabric::HandlerId end_handler = fabric::max_handlers - 2;
constexpr fabric::HandlerId stack_atomics_handler = fabric::max_handlers - 7;
constexpr fabric::HandlerId omp_handlers = fabric::max_handlers - 64;

/// OpenMP's come first: a program may have a million locks.
constexpr std::uint32_t hashed_mutexes = 256;
constexpr std::uint32_t keyed_mutexes = 16;

std::atomic<SharedProgram*> running_program{nullptr};

// How far the end is.
constexpr std::uint32_t exit_asked = 1;  ///< by another rank
constexpr std::uint32_t finished_here = 2;
constexpr std::uint32_t finished_as_asked = 3;
constexpr std::uint32_t ends_elsewhere = 4;  ///< rank 0 is about to end the job
constexpr std::uint32_t ends_now = 5;        ///< by _exit(), on any rank
// What a rank tells rank 0.
constexpr std::uint32_t has_left = 1;
constexpr std::uint32_t exit_wanted = 2;
constexpr std::uint32_t has_written = 3;  ///< what its streams held, after that
constexpr std::uint32_t stays = 4;        ///< threads of the program run there until the job's end
constexpr std::uint32_t end_wanted = 5;   ///< without exit()
constexpr std::uint32_t quick_exit_wanted = 7;
// What rank 0 tells others.
constexpr std::uint32_t tell_now = 6;  ///< what they have counted, whatever the program does there

NamedLibraries libraries_of(const Options& options) noexcept {
  return NamedLibraries(options.text(Option::program_libraries));
}

std::uint32_t omp_mutexes_of(const Options& options) {
  return omp::Locks::mutexes_kept + static_cast<std::uint32_t>(options.integer(Option::omp_locks));
}

/// \param job all ranks have the same
capi::OpenSpaceOptions open_options(const Options& options, const SharedJob& job) {
  capi::OpenSpaceOptions open;
  open.threads = 1;  // of each rank: the runtime's barriers bring the others together first
  open.mutexes = omp_mutexes_of(options) + hashed_mutexes + keyed_mutexes;
  open.notice_capacity = static_cast<std::size_t>(options.integer(Option::notice_capacity));
  open.parallel_releases = static_cast<unsigned>(options.integer(Option::parallel_releases));
  open.heartbeat_ns = options.duration_ns(Option::heartbeat);
  open.large_heap_bytes = job.heap_bytes / 4 * 3;
  open.heap_bytes = job.heap_bytes - open.large_heap_bytes;
  open.address_bytes = job.space_bytes();
  open.mechanism = options.text(Option::vm_mechanism);
  return open;
}

/// What the C library's streams and Fortran's units still hold goes out, where the process ends without
/// exit().
void flush_streams() noexcept {
  using FlushUnits = void (*)(const std::int32_t* unit);
  const auto flush_units = reinterpret_cast<FlushUnits>(::dlsym(RTLD_DEFAULT, "_gfortran_flush_i4"));
  if (flush_units != nullptr) flush_units(nullptr);
  flush_streams_at_end();
}

}  // namespace

SharedProgram* shared_program() noexcept {
  return running_program.load(std::memory_order_acquire);
}

void set_shared_program(SharedProgram* program) noexcept {
  running_program.store(program, std::memory_order_release);
  if (program == nullptr) return signal_section::set_wake(nullptr, nullptr);
  signal_section::set_wake([](void* fabric) noexcept { static_cast<fabric::Fabric*>(fabric)->notify(); },
                           &program->fabric());
}

SharedProgram::SharedProgram()
    // Before the job is joined: what that loads (UCX, PMIx) is not the program's, nor at one address on all
    // ranks.
    : image_(libraries_of(Options::from_environment(environ))),
      job_(job::Job::join()),
      omp_mutexes_(omp_mutexes_of(job_->options())),
      settings_(omp::Settings::from_environment(threads_a_rank(), job_->rank())),
      process_(::getpid()) {
  if (job_->rank() == 0) libraries_of(job_->options()).check(image_.objects());  // told once
  for (const LoadedObject& object : image_.objects()) {
    if (object.allocates_privately)
      private_callers_.insert(private_callers_.end(), object.code.begin(), object.code.end());
    if (object.shared) own_code_.insert(own_code_.end(), object.code.begin(), object.code.end());
    if (object.name().starts_with("libstdc++.so"))
      cpp_library_code_.insert(cpp_library_code_.end(), object.code.begin(), object.code.end());
  }
  agreement_.emplace(job_->fabric(), agreement_region, agreement_handler);
  agree_on_image(*agreement_);
  const StackSizes sizes = stack_sizes(settings_.stack_bytes);
  const SharedJob job{.ranks = job_->size(),
                      .heap_bytes = job_->options().bytes(Option::program_heap),
                      .stack_bytes = sizes.part_bytes()};
  open_.emplace(*job_, open_options(job_->options(), job));
  stack_segment_ = &open_->space().create_owned_segment("stacks", sizes.part_bytes(), contents_of_stacks());
  stack_atomics_.emplace(fabric(), open_->space(), *stack_segment_, stack_atomics_handler);
  stacks_.emplace(*stack_segment_, job_->rank(), sizes);
  share_data();
  processes_ = agreement_->gather(static_cast<std::uint64_t>(process_));
  // Zero, as all that the heap has not given to anybody yet.
  const void* const token = rank() == 0 ? open_->heap().allocate(sizeof *token_) : nullptr;
  token_ = reinterpret_cast<char**>(agreement_->gather(reinterpret_cast<std::uint64_t>(token))[0]);
  stream_memory().share(*agreement_, rank());
  fabric().set_handler(end_handler, &SharedProgram::hear, this);
}

SharedProgram::~SharedProgram() = default;

space::Heap::Fresh SharedProgram::allocate(std::size_t bytes) {
  constexpr std::size_t large_bytes = 16 * space::heap_chunk_bytes;
  const bool is_large = bytes >= large_bytes;
  try {
    return (is_large ? *open_->large_heap() : open_->heap()).allocate_fresh(bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_resources) throw;
  }
  return (is_large ? open_->heap() : *open_->large_heap()).allocate_fresh(bytes);
}

void SharedProgram::limit_memory(std::uint64_t heap_bytes, std::uint64_t address_bytes) noexcept {
  address_limit_.store(address_bytes, std::memory_order_relaxed);
  open_->limit_heaps(heap_bytes);
}

space::Heap* SharedProgram::heap_of(const void* address) noexcept {
  if (open_->heap().contains(address)) return &open_->heap();
  space::Heap* const large = open_->large_heap();
  return large != nullptr && large->contains(address) ? large : nullptr;
}

void SharedProgram::agree_on_image(space::Agreement& agreement) {
  const std::vector<std::uint64_t> all = agreement.gather(image_.fingerprint());
  const auto other = std::find_if(all.begin(), all.end(), [&](std::uint64_t hash) { return hash != all[0]; });
  if (other == all.end()) return;
  throw Error(ErrorCode::not_supported,
              {.asked = "cannot share the memory of this program",
               .happened = fmt::format(
                   "rank {} and rank 0 differ in its executable, its libraries, or their addresses",
                   other - all.begin()),
               .limit = {},
               .remedy = "install the same builds of the program and of all its libraries on all hosts"});
}

/// What the loader and the constructors of libraries have made of the program's data at rank 0 is what all
/// see.
void SharedProgram::share_data() {
  for (const LoadedObject& object : image_.objects()) {
    if (!object.shared) continue;
    for (const AddressSpan& span : object.writable) {
      for (const DataPart& part : divide_data(span, object.large_variables, capi::large_block_bytes))
        share_part(object, part);
    }
  }
  open_->space().barrier().wait();
}

void SharedProgram::share_part(const LoadedObject& object, const DataPart& part) {
  vm::SavedPages before;
  if (job_->rank() == 0) {
    std::vector<std::span<const std::byte>> zero_filled;
    for (const AddressSpan& zeros : object.zero_filled) zero_filled.push_back(zeros.bytes());
    before = vm::SavedPages(part.span.bytes(), zero_filled);
  }
  space::SegmentOptions options;
  options.name = fmt::format("{} of {}", part.is_large ? "arrays" : "data", object.name());
  options.bytes = part.span.bytes().size();
  options.block_bytes = part.is_large ? capi::large_block_bytes : page_bytes;
  options.address = part.span.begin;
  options.initial_homes = {.kind = coherence::InitialHomes::Kind::cyclic};
  options.dials.strength = coherence::Strength::automatic;
  options.dials.causal = open_->is_causal();
  open_->create_segment(options);
  before.restore();
}

std::vector<AddressSpan> SharedProgram::shared_spans() {
  const auto span_of = [](const std::byte* begin, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    return AddressSpan{address, address + bytes};
  };
  std::vector<AddressSpan> spans{span_of(stack_segment_->data(), stack_segment_->bytes())};
  for (const auto& segment : open_->space().segments()) {
    if (segment->data() != stack_atomics_->order())
      spans.push_back(span_of(segment->data(), segment->bytes()));
  }
  return spans;
}

space::MutexId SharedProgram::mutex_of(const void* address) const noexcept {
  const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(address) / page_bytes) * 0x9e3779b97f4a7c15U;
  return omp_mutexes_ + static_cast<space::MutexId>(mixed >> 32U) % hashed_mutexes;
}

space::MutexId SharedProgram::mutex_of_key(std::uint32_t key) const noexcept {
  return omp_mutexes_ + hashed_mutexes + key % keyed_mutexes;
}

void SharedProgram::unlock(space::MutexId mutex) {
  space::Mutexes& mutexes = space().mutexes();
  if (others_run()) return mutexes.unlock(mutex);
  mutexes.unlock_unpublished(mutex);
}

bool SharedProgram::others_run() noexcept {
  return job_->size() > 1 && omp::runtime()->unlock_publishes();
}

bool SharedProgram::is_own_code(const void* address) const noexcept {
  return holds(own_code_, address);
}

pid_t SharedProgram::process_of(fabric::Rank other) noexcept {
  return fabric().node_of(other) == fabric().node_of(rank()) ? static_cast<pid_t>(processes_[other]) : 0;
}

bool SharedProgram::is_shared(const void* address) noexcept {
  return stack_segment_->contains(address) || open_->space().find(address) != nullptr;
}

bool SharedProgram::may_fault(const void* address) noexcept {
  if (stack_segment_->contains(address)) {
    const std::byte* const own = stack_segment_->part(rank());
    return address < own || address >= own + stack_segment_->part_bytes();
  }
  return open_->space().find(address) != nullptr;
}

// ---- Life

void* SharedProgram::work(void* self) {
  omp::work();
  flush_streams();
  static_cast<SharedProgram*>(self)->finish(0);
}

/// As asked for, or this rank's share of its host's processors, of those that it may use.
std::uint32_t SharedProgram::threads_a_rank() {
  const auto asked = static_cast<std::uint32_t>(job_->options().integer(Option::threads));
  if (asked != 0) return asked;
  return std::clamp(fabric().processors_a_rank(), 1U, static_cast<std::uint32_t>(processors().size()));
}

void SharedProgram::run(Stacks::Body body) {
  omp::start(*this, settings_);
  if (rank() != 0) flush_output();        // threads here run in regions only
  share_descriptors(*this, *agreement_);  // when the runtime has all of its own
  stacks_->start_first(rank() == 0 ? body : &SharedProgram::work, this);
  if (Threads* const others = threads()) others->open();
  // Signals are for the program's own threads, but for those that this one may raise.
  const sigset_t others = signals_from_others();
  ::pthread_sigmask(SIG_BLOCK, &others, nullptr);
  wait_for_end();

  try {
    if (rank() == 0) {
      // An exit inside of a region, or on another rank, comes out of the middle of the program: nobody can be
      // waited for.
      const bool in_order = finished_.load() == finished_here && !omp::runtime()->is_in_outer_region();
      if (in_order) omp::stop();
      // Who asked for the end still writes what its streams hold.
      if (finished_.load() == finished_as_asked)
        static_cast<void>(comes_soon([this] { return asker_has_written_.load(); }));
      // Nor can the program's threads here, but for the one that has asked for the end: they run on.
      const bool have_left = in_order && others_have_left() && stacks_->running_threads() == 1;
      if (!have_left && open_->has_to_tell()) {
        for (fabric::Rank other = 1; other < fabric().size(); ++other) tell_rank(other, tell_now, 0);
        open_->tell();
      }
      if (!have_left) end_at_once(status_.load());
    } else if (finished_.load() == ends_elsewhere) {
      open_->tell();
      for (;;) ::pause();
    } else {
      // Rank 0 ends the job where threads of the program are still there.
      const bool has_threads = stacks_->running_threads() != 0;
      tell_rank(0, has_threads ? stays : has_left, 0);
      open_->tell();
      if (has_threads)
        for (;;) ::pause();
    }
    stack_atomics_->stop();
    open_->close();
    agreement_->close();
    job_->finalize();
    // Its exit code alone would look like a failure of this rank.
    if (rank() == 0 && status_.load() != 0) end_at_once(status_.load());
  } catch (const Error& error) {
    fail(error.what());
  }
  CRATON_REAL(_exit)(status_.load());
  __builtin_unreachable();
}

/// Blocks the initial thread. Where another rank asks for exit(), that runs on a thread of its own.
void SharedProgram::wait_for_end() {
  bool is_asked = false;
  for (;;) {
    const std::uint32_t now = finished_.load();
    if (now != 0 && now != exit_asked) return;
    if (now == exit_asked && !is_asked) {
      is_asked = true;
      pthread_t thread = 0;
      if (stacks_->start(&thread, nullptr, &SharedProgram::exit_here, this) != 0) end_at_once(asked_status());
    }
    futex_wait(finished_, now, no_deadline);
  }
}

void* SharedProgram::exit_here(void* self) {
  // Who has made this thread takes none; handlers of the program's exit may send some.
  const sigset_t others = signals_from_others();
  ::pthread_sigmask(SIG_UNBLOCK, &others, nullptr);
  auto& program = *static_cast<SharedProgram*>(self);
  if ((program.asked_.load() & asked_quickly) != 0) program.end_after_quick_exit(program.asked_status());
  program.begin_exit();
  CRATON_REAL(exit)(program.asked_status());
  __builtin_unreachable();
}

void SharedProgram::begin_exit() noexcept {
  pid_t first = 0;
  const pid_t self = ::gettid();
  if (exiting_.compare_exchange_strong(first, self) || first == self) return;
  for (;;) ::pause();
}

/// Rank 0: whether what other ranks do at the end happens within a second. It does so at once unless they are
/// in the middle of the program, where they may wait for this rank, or for what only the end brings.
bool SharedProgram::comes_soon(FunctionRef<bool()> event) {
  constexpr TimeNs patience_ns = 1'000'000'000;
  return fabric().wait_until(event, fabric().clock().now_ns() + patience_ns) == fabric::Status::ok;
}

/// Rank 0: whether the others have come out of what they ran for the program.
bool SharedProgram::others_have_left() {
  const auto have_all_told = [this] {
    return ranks_left_.load() + ranks_stay_.load() + 1 == fabric().size();
  };
  return comes_soon(have_all_told) && ranks_stay_.load() == 0;
}

void SharedProgram::finish(int status) {
  flush_output();
  status_.store(status);
  const bool as_asked = finished_.load() == exit_asked && (asked_.load() & asked_in_order) == 0;
  finished_.store(as_asked ? finished_as_asked : finished_here);
  futex_wake(finished_, 1);
  for (;;) ::pause();
}

void SharedProgram::last_thread_ended() noexcept {
  if (rank() != 0 || finished_.load() != 0) return;
  if (threads() == nullptr || !others_may_run()) return exit_after_threads();
  threads()->end_after_others();
}

/// Who asks first. \param how bits of asked_; asked_in_order: no other rank is in the middle of the program
void SharedProgram::ask_for_exit(int status, std::uint64_t how) noexcept {
  std::uint64_t nobody = 0;
  const std::uint64_t asked = was_asked | how | static_cast<std::uint32_t>(status);
  if (!asked_.compare_exchange_strong(nobody, asked)) return;
  std::uint32_t running = 0;
  if (finished_.compare_exchange_strong(running, exit_asked)) futex_wake(finished_, 1);
}

void SharedProgram::end_at_once(int status) noexcept {
  job_->end(status);
}

void SharedProgram::end_without_exit(int status) noexcept {
  if (!open_->has_to_tell()) end_at_once(status);
  if (rank() == 0) {
    end_now(status);
  } else {
    tell_rank(0, end_wanted, status);
  }
  for (;;) ::pause();
}

/// Rank 0. Does nothing if the job ends already.
void SharedProgram::end_now(int status) noexcept {
  for (std::uint32_t now = finished_.load(); now == 0 || now == exit_asked;) {
    status_.store(status);
    if (!finished_.compare_exchange_strong(now, ends_now)) continue;
    futex_wake(finished_, 1);
    return;
  }
}

void SharedProgram::exit_on_first(int status) noexcept {
  flush_output();
  tell_rank(0, exit_wanted, status);
  flush_streams();  // Fortran's units another thread may hold for ever
  tell_rank(0, has_written, 0);
  for (;;) ::pause();
}

void SharedProgram::end_after_quick_exit(int status) {
  begin_exit();
  status_.store(status);
  CRATON_REAL(quick_exit)(status);
  __builtin_unreachable();
}

void SharedProgram::end_quickly() noexcept {
  if (rank() == 0) end_without_exit(status_.load());
  tell_rank(0, quick_exit_wanted, status_.load());
  for (;;) ::pause();
}

// ---- What ranks tell each other at the end

namespace {

struct EndMessage {
  std::uint32_t what;
  std::int32_t status;
};

}  // namespace

void SharedProgram::tell_rank(fabric::Rank to, std::uint32_t what, int status) noexcept {
  const EndMessage message{.what = what, .status = status};
  static_cast<void>(fabric().send(to, end_handler, &message, sizeof message));
}

void SharedProgram::hear(void* self, fabric::Rank /*source*/, const std::byte* payload,
                         std::size_t bytes) noexcept {
  auto& program = *static_cast<SharedProgram*>(self);
  EndMessage message{};
  if (bytes != sizeof message) return;
  std::memcpy(&message, payload, sizeof message);
  if (message.what == has_left || message.what == stays) {
    (message.what == stays ? program.ranks_stay_ : program.ranks_left_).fetch_add(1);
    program.fabric().notify();
    return;
  }
  if (message.what == has_written) {
    program.asker_has_written_.store(true);
    program.fabric().notify();
    return;
  }
  if (message.what == tell_now) {
    std::uint32_t running = 0;  // else it tells by itself
    if (program.finished_.compare_exchange_strong(running, ends_elsewhere)) futex_wake(program.finished_, 1);
    return;
  }
  if (message.what == end_wanted) return program.end_now(message.status);
  program.ask_for_exit(message.status, message.what == quick_exit_wanted ? asked_quickly : 0);
}

// ---- Platform

namespace {

struct Start {
  void (*body)(void*);
  void* argument;
};

void* started(void* start) {
  const std::unique_ptr<Start> mine(static_cast<Start*>(start));
  mine->body(mine->argument);
  return nullptr;
}

}  // namespace

/// Other ranks have no such code, or data of their own for it. Told of what may be meant otherwise.
bool SharedProgram::stays_on_rank(const void* function) noexcept {
  if (is_own_code(function)) {
    tell_terminate_handler();
    return false;
  }
  if (image_.object_of(function) == nullptr) tell_what_stays("parallel regions", function);
  return true;
}

bool SharedProgram::thread_may_leave(const void* function) noexcept {
  if (is_own_code(function)) return true;
  tell_what_stays("threads", function);
  return false;
}

void SharedProgram::tell_what_stays(const char* what, const void* function) noexcept {
  const LoadedObject* const object = image_.object_of(function);
  if (object != nullptr && !may_be_shared(*object)) return;
  std::call_once(staying_is_told_, [&] {
    const auto told = [&](std::string_view whose, std::string_view remedy) {
      write_fully(STDERR_FILENO,
                  fmt::format("craton: {} of {} run on rank {} alone{}\n", what, whose, rank(), remedy));
    };
    Dl_info info{};
    if (object != nullptr)
      told(object->name(), fmt::format(": a library of the system; --program-libraries={} spreads them",
                                       object->short_name()));
    else if (::dladdr(function, &info) != 0 && info.dli_fname != nullptr)
      told(info.dli_fname, ", since the program has loaded it itself; name it in LD_PRELOAD to spread them");
    else
      told("code that the program has made", "");
  });
}

/// Of an operand that goes on in the next block only the first becomes strong. That will do: who runs an
/// instruction on both has the first one alone meanwhile, and hands on with it what it wrote to the second;
/// and who runs one on the second alone makes that strong, for which all publish what they wrote there.
void SharedProgram::run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body) {
  if (stack_segment_->contains(address)) return stack_atomics_->run(address, bytes, body);
  Platform::run_atomically(address, bytes, body);
}

void SharedProgram::start_thread(void (*body)(void*), void* argument) {
  auto start = std::make_unique<Start>(Start{.body = body, .argument = argument});
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread = 0;
  const int error = stacks_->start(&thread, &attributes, &started, start.get());
  ::pthread_attr_destroy(&attributes);
  if (error != 0) throw Error::from_errno("cannot start a thread", error, "ulimit -u; 512 threads a rank");
  static_cast<void>(start.release());
  Stacks::forget_thread();
}

void SharedProgram::flush_output() noexcept {
  if (job_->size() > 1 && !writes_lines_.exchange(true, std::memory_order_relaxed)) write_lines();
  if (::__fpending(stdout) != 0) static_cast<void>(std::fflush(stdout));
  send_what_waits();
}

/// The ranks of a node write to one pipe. What a full buffer leaves of a line in the middle of a region would
/// have the lines of others in it, where one process has one buffer; a line that is written at once stays
/// whole (pipe(7), up to PIPE_BUF bytes). So from the first region on, which is the first time that output is
/// flushed.
void SharedProgram::write_lines() noexcept {
  if (buffer_of_output_is_chosen()) return;
  static_cast<void>(std::setvbuf(stdout, nullptr, _IOLBF, 0));
}

void wait_for_whoever_ends_us() noexcept {
  constexpr int patience_ms = 10'000;
  ::poll(nullptr, 0, patience_ms);
}

void SharedProgram::fail(const std::string& message) noexcept {
  const NoCancellation uncancelled;
  if (fabric().lost_ranks() != 0) wait_for_whoever_ends_us();
  static std::atomic_flag said;
  while (said.test_and_set()) ::pause();  // one cause, one message
  write_fully(STDERR_FILENO, fmt::format("craton: rank {}: {}\n", rank(), message));
  end_at_once(1);
}

fabric::RegionId SharedProgram::first_region() {
  return omp_regions;
}

fabric::HandlerId SharedProgram::first_handler() {
  return omp_handlers;
}

}  // namespace craton::posix
