#include "posix/shared_program.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <stdio_ext.h>
#include <algorithm>
#include <cstdio>

#include "base/cancellation.hpp"
#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "base/processors.hpp"
#include "base/signal_section.hpp"
#include "omp/locks.hpp"
#include "omp/process.hpp"
#include "omp/settings.hpp"
#include "posix/cpp_settings.hpp"
#include "posix/large_variables.hpp"
#include "posix/needs.hpp"
#include "posix/pages.hpp"
#include "posix/remote_files.hpp"
#include "posix/streams.hpp"
#include "vm/saved_pages.hpp"

namespace craton::posix {

namespace {

// The space's regions grow from the low numbers, and so do its handlers.
constexpr fabric::RegionId agreement_region = fabric::max_regions - 1;
constexpr fabric::RegionId omp_regions = fabric::max_regions - 64;
constexpr fabric::HandlerId agreement_handler = fabric::max_handlers - 1;
constexpr fabric::HandlerId stack_atomics_handler = fabric::max_handlers - 7;
constexpr fabric::HandlerId omp_handlers = fabric::max_handlers - 64;

/// OpenMP's come first: a program may have a million locks.
constexpr std::uint32_t hashed_mutexes = 256;
constexpr std::uint32_t keyed_mutexes = 16;

std::atomic<SharedProgram*> running_program{nullptr};

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
  using Order = space::OwnedAtomics::Order;
  stack_atomics_.emplace(fabric(), open_->space(), *stack_segment_, stack_atomics_handler,
                         open_->is_causal() ? Order::causal : Order::flushed);
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

/// As asked for, or this rank's share of its host's processors, of those that it may use.
std::uint32_t SharedProgram::threads_a_rank() {
  const auto asked = static_cast<std::uint32_t>(job_->options().integer(Option::threads));
  if (asked != 0) return asked;
  return std::clamp(fabric().processors_a_rank(), 1U, static_cast<std::uint32_t>(processors().size()));
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
    tell_cpp_settings();
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
