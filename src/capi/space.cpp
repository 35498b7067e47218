// The C interface of the coherent space: plain functions over one process-wide OpenSpace.
#include "craton/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/events.hpp"
#include "capi/calls.hpp"
#include "capi/open_space.hpp"
#include "space/statistics.hpp"
#include "vm/mechanism.hpp"
#include "vm/thread_scope.hpp"

namespace {

using craton::Error;
using craton::ErrorCode;
using craton::capi::guarded;
using craton::capi::OpenSpace;

constinit std::mutex open_lock;         // one craton_space_open at a time
constinit bool opening_failed = false;  // guarded by open_lock
constinit std::atomic<OpenSpace*> opened{nullptr};

[[noreturn]] void refuse(std::string asked, std::string happened, std::string remedy = {}) {
  throw Error(
      ErrorCode::invalid_argument,
      {.asked = std::move(asked), .happened = std::move(happened), .limit = {}, .remedy = std::move(remedy)});
}

/// Calls `action` with the space, or says why it cannot.
template <typename Action>
craton_status with_space(const char* function, Action&& action) noexcept {
  return guarded([&] {
    OpenSpace* const space = opened.load(std::memory_order_acquire);
    const craton::job::Job* const job = craton::capi::job_of_this_process(function);
    if (space == nullptr) {
      if (job == nullptr) return craton::capi::not_initialised(function);
      refuse(std::string("cannot call ") + function, "the coherent space is not open",
             "call craton_space_open first");
    }
    action(*space);
    return CRATON_OK;
  });
}

/// There is one version of them so far; when fields are added, smaller sizes will mean older programs.
template <typename Struct>
Struct checked(const char* function, const Struct& options) {
  if (options.size != sizeof(Struct)) {
    refuse(std::string("cannot call ") + function,
           fmt::format("its options say that they have {} bytes instead of {}", options.size, sizeof(Struct)),
           "start from the INIT macro of space.h, and build with the header of this version");
  }
  return options;
}

void check_pointer(const char* function, const void* pointer, const char* what) {
  if (pointer == nullptr) refuse(std::string("cannot call ") + function, std::string(what) + " is NULL");
}

/// By its bytes: a C program can put any number there, which no C++ enumeration may hold.
template <typename Enum>
void check_choice(const char* what, const Enum& choice, unsigned last,
                  const char* asked = "cannot make a segment") {
  static_assert(sizeof(Enum) == sizeof(unsigned));
  unsigned value = 0;
  std::memcpy(&value, &choice, sizeof value);
  if (value <= last) return;
  refuse(asked,
         fmt::format("{} is {}, and not one of its values 0 to {}", what, static_cast<int>(value), last));
}

craton::space::SegmentOptions segment_options(const craton_segment_options& asked, unsigned ranks) {
  namespace coherence = craton::coherence;
  check_choice("home", asked.home, CRATON_HOME_FIXED);
  check_choice("invalidation", asked.invalidation, CRATON_INVALIDATION_DIRECTORY);
  check_choice("release", asked.release, CRATON_RELEASE_PLAIN);
  check_choice("placement", asked.placement, CRATON_PLACEMENT_ONE);
  check_choice("strength", asked.strength, CRATON_STRENGTH_AUTOMATIC);
  if (asked.home_rank < 0 || static_cast<unsigned>(asked.home_rank) >= ranks) {
    refuse("cannot make a segment",
           fmt::format("home_rank is {}, and the job has ranks 0 to {}", asked.home_rank, ranks - 1));
  }
  constexpr std::uint64_t lease_most = std::uint64_t{1} << 32U;
  if (asked.lease < 1 || asked.lease > lease_most) {
    refuse("cannot make a segment", fmt::format("lease is {}, and not 1 to {}", asked.lease, lease_most));
  }
  constexpr std::uint64_t bytes_most = std::uint64_t{1} << 47U;  // what a process can address
  if (asked.bytes > bytes_most) {
    refuse("cannot make a segment",
           fmt::format("bytes is {}, and addresses are no more than {}", asked.bytes, bytes_most));
  }
  // The kernel's names of memory have a limit too, and get more than this one.
  if (asked.name != nullptr && ::strnlen(asked.name, CRATON_SEGMENT_NAME_MAX + 1) > CRATON_SEGMENT_NAME_MAX) {
    refuse("cannot make a segment", fmt::format("its name begins with \"{}\" and has more than {} bytes",
                                                std::string_view(asked.name, 20), CRATON_SEGMENT_NAME_MAX));
  }
  craton::space::SegmentOptions options;
  if (asked.name != nullptr) options.name = asked.name;
  options.bytes = asked.bytes;
  options.block_bytes = asked.block_bytes;
  options.initial_homes = {
      .kind = static_cast<coherence::InitialHomes::Kind>(asked.placement),
      .rank = asked.placement == CRATON_PLACEMENT_ONE ? static_cast<unsigned>(asked.home_rank) : 0U};
  options.dials.home = static_cast<coherence::Home>(asked.home);
  options.dials.invalidation = static_cast<coherence::Invalidation>(asked.invalidation);
  options.dials.release = static_cast<coherence::Release>(asked.release);
  options.dials.lease = asked.lease;
  options.dials.hot_blocks = asked.hot_blocks != 0;
  options.dials.prefetch = asked.prefetch != 0;
  options.dials.causal = asked.causal != 0;
  options.dials.sole_copies = asked.sole_copies != 0;
  if (asked.migration == 0) options.dials.migrate_after = coherence::Dials::never;
  options.dials.strength = static_cast<coherence::Strength>(asked.strength);
  return options;
}
static_assert(static_cast<int>(craton::coherence::InitialHomes::Kind::one) == CRATON_PLACEMENT_ONE);
static_assert(static_cast<int>(craton::coherence::Strength::strong) == CRATON_STRENGTH_STRONG);
static_assert(static_cast<int>(craton::coherence::Strength::automatic) == CRATON_STRENGTH_AUTOMATIC);
static_assert(static_cast<int>(craton::coherence::InitialHomes::Kind::blocked) == CRATON_PLACEMENT_BLOCKED);
static_assert(static_cast<int>(craton::coherence::Home::fixed) == CRATON_HOME_FIXED);
static_assert(static_cast<int>(craton::coherence::Invalidation::directory) == CRATON_INVALIDATION_DIRECTORY);
static_assert(static_cast<int>(craton::coherence::Release::plain) == CRATON_RELEASE_PLAIN);

/// Calls `change` with the newest value of a word; what it returns is stored. It runs while locks of the
/// block are held, so it must not touch the program's memory, which may be shared and fault.
template <typename Word, typename Change>
craton_status update(const char* function, const Word* word, Change&& change) noexcept {
  return with_space(function, [&](OpenSpace& space) {
    const craton::TimeNs start_ns = space.clock().now_ns();
    space.space().update(const_cast<Word*>(word), sizeof(Word), [&change](std::byte* value) {
      const std::atomic_ref<Word> there(*reinterpret_cast<Word*>(value));
      there.store(change(there.load(std::memory_order_relaxed)), std::memory_order_relaxed);
    });
    craton::coherence::Counters::add(space.counters().update_ns,
                                     static_cast<std::uint64_t>(space.clock().now_ns() - start_ns));
  });
}

/// The same. \param previous gets the value before; may be shared, or null
template <typename Word, typename Change>
craton_status fetch_update(const char* function, const Word* word, Word* previous, Change&& change) noexcept {
  Word found = 0;
  const craton_status status = update(function, word, [&](Word value) {
    found = value;
    return change(value);
  });
  if (status == CRATON_OK && previous != nullptr) *previous = found;
  return status;
}

template <typename Word>
craton_status fetch_add(const char* function, Word* word, Word addend, Word* previous) noexcept {
  return fetch_update(function, word, previous,
                      [addend](Word value) { return static_cast<Word>(value + addend); });
}

template <typename Word>
craton_status exchange(const char* function, Word* word, Word desired, Word* previous) noexcept {
  return fetch_update(function, word, previous, [desired](Word /*value*/) { return desired; });
}

template <typename Word>
craton_status compare_exchange(const char* function, Word* word, Word* expected, Word desired,
                               int* exchanged) noexcept {
  return guarded([&] {
    check_pointer(function, expected, "expected");
    const Word wanted = *expected;
    Word found = 0;
    const craton_status status =
        fetch_update(function, word, &found, [&](Word value) { return value == wanted ? desired : value; });
    if (status != CRATON_OK) return status;
    if (exchanged != nullptr) *exchanged = found == wanted ? 1 : 0;
    *expected = found;
    return CRATON_OK;
  });
}

template <typename Word>
craton_status load(const char* function, const Word* word, Word* value) noexcept {
  return guarded([&] {
    check_pointer(function, value, "value");
    return with_space(function, [&](OpenSpace& space) { space.space().load(word, sizeof *word, value); });
  });
}

/// craton_thread_enter's of a thread; its end undoes them.
struct Entered {
  Entered() = default;
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() { craton::events::detach(); }

  unsigned depth = 0;
  std::optional<craton::vm::ThreadScope> scope;
};
thread_local Entered entered;

}  // namespace

namespace craton::capi {

OpenSpace* close_space() {
  OpenSpace* const space = opened.load(std::memory_order_acquire);
  if (space == nullptr) return nullptr;
  space->close();
  opened.store(nullptr, std::memory_order_release);
  return space;
}

void destroy_space(OpenSpace* space) noexcept {
  delete space;
}

}  // namespace craton::capi

// ---- The space

craton_status craton_space_open(const craton_space_options* options) {
  return guarded([options] {
    const std::lock_guard lock(open_lock);
    craton::job::Job* const job = craton::capi::job_of_this_process("craton_space_open");
    if (job == nullptr) return craton::capi::not_initialised("craton_space_open");
    if (opened.load() != nullptr) refuse("cannot open the coherent space", "it is open");
    craton_space_options asked = CRATON_SPACE_OPTIONS_INIT;
    if (options != nullptr) asked = checked("craton_space_open", *options);
    const craton::Options& table = job->options();
    craton::capi::OpenSpaceOptions made;
    made.notice_capacity = static_cast<std::size_t>(table.integer(craton::Option::notice_capacity));
    made.parallel_releases = static_cast<unsigned>(table.integer(craton::Option::parallel_releases));
    made.heartbeat_ns = table.duration_ns(craton::Option::heartbeat);
    made.heap_bytes = table.bytes(craton::Option::heap_bytes);
    made.mechanism = table.text(craton::Option::vm_mechanism);
    const auto limit = [](const char* what, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
      if (value >= least && value <= most) return;
      refuse("cannot open the coherent space",
             fmt::format("{} is {}, and not {} to {}", what, value, least, most));
    };
    const auto limit_as_option = [&](const char* what, std::uint64_t value, craton::Option option) {
      const craton::OptionSpec& spec = craton::spec_of(option);
      limit(what, value, static_cast<std::uint64_t>(spec.minimum), static_cast<std::uint64_t>(spec.maximum));
    };
    constexpr unsigned threads_most = 65536;
    if (asked.threads != 0) made.threads = asked.threads;
    if (asked.mutexes != 0) made.mutexes = asked.mutexes;
    if (asked.notice_capacity != 0) made.notice_capacity = asked.notice_capacity;
    if (asked.heap_bytes != 0) made.heap_bytes = asked.heap_bytes;
    if (asked.mechanism != nullptr) made.mechanism = asked.mechanism;
    limit("threads", made.threads, 1, threads_most);
    limit("mutexes", made.mutexes, 1, craton::capi::mutexes_most);
    limit_as_option("notice_capacity", made.notice_capacity, craton::Option::notice_capacity);
    limit_as_option("heap_bytes", made.heap_bytes, craton::Option::heap_bytes);
    // What a user can get wrong fails here, before anything is shared with other ranks.
    craton::vm::choose_mechanism(made.mechanism, craton::vm::probe());
    if (opening_failed)
      refuse("cannot open the coherent space", "an earlier craton_space_open failed half-way");
    opening_failed = true;
    opened.store(new OpenSpace(*job, made), std::memory_order_release);
    craton::events::attach();
    opening_failed = false;
    return CRATON_OK;
  });
}

int craton_space_is_open(void) {
  return opened.load(std::memory_order_acquire) != nullptr ? 1 : 0;
}

const char* craton_space_mechanism(void) {
  const char* name = nullptr;
  static_cast<void>(with_space("craton_space_mechanism", [&name](OpenSpace& space) {
    name = craton::vm::name_of(space.space().mechanism()).data();  // a literal, which ends in a zero
  }));
  return name;
}

craton_status craton_space_barrier(uint32_t site) {
  return with_space("craton_space_barrier", [site](OpenSpace& space) { space.barrier(site); });
}

craton_status craton_space_count(const char* counter, uint64_t* value) {
  return with_space("craton_space_count", [counter, value](OpenSpace& space) {
    check_pointer("craton_space_count", counter, "counter");
    check_pointer("craton_space_count", value, "value");
    for (const craton::space::CounterName& each : craton::space::counter_names()) {
      if (each.name != counter) continue;
      *value = space.space().protocol().count(each.count);
      return;
    }
    throw Error(ErrorCode::not_found, {.asked = fmt::format("cannot read the counter '{}'", counter),
                                       .happened = "there is none of this name",
                                       .limit = {},
                                       .remedy = "see what --stats=json prints"});
  });
}

// ---- Segments

craton_status craton_segment_create(const craton_segment_options* options, void** data) {
  return with_space("craton_segment_create", [options, data](OpenSpace& space) {
    check_pointer("craton_segment_create", options, "options");
    check_pointer("craton_segment_create", data, "data");
    const craton_segment_options asked = checked("craton_segment_create", *options);
    *data = space.create_segment(segment_options(asked, craton::capi::current_job()->size()));
  });
}

craton_status craton_set_strength(const void* begin, size_t bytes, craton_strength strength) {
  return with_space("craton_set_strength", [=](OpenSpace& space) {
    check_choice("strength", strength, CRATON_STRENGTH_AUTOMATIC, "cannot set the strength of blocks");
    space.space().set_strength(begin, bytes, static_cast<craton::coherence::Strength>(strength));
  });
}

craton_status craton_pin(const void* begin, size_t bytes) {
  return with_space("craton_pin", [=](OpenSpace& space) { space.space().pin(begin, bytes); });
}

craton_status craton_unpin(const void* begin, size_t bytes) {
  return with_space("craton_unpin", [=](OpenSpace& space) { space.space().unpin(begin, bytes); });
}

// ---- The shared heap

void* craton_alloc(size_t bytes) {
  void* memory = nullptr;
  static_cast<void>(
      with_space("craton_alloc", [&](OpenSpace& space) { memory = space.heap().allocate(bytes); }));
  return memory;
}

craton_status craton_free(void* pointer) {
  if (pointer == nullptr) return CRATON_OK;
  return with_space("craton_free", [pointer](OpenSpace& space) { space.heap().free(pointer); });
}

size_t craton_alloc_bytes(const void* pointer) {
  size_t bytes = 0;
  static_cast<void>(with_space("craton_alloc_bytes", [&](OpenSpace& space) {
    const std::optional<craton::space::Heap::Allocation> found = space.heap().find(pointer);
    if (!found.has_value() || found->begin != pointer)
      refuse(fmt::format("cannot tell the size of {}", pointer), "it is not the start of an allocation");
    bytes = found->bytes;
  }));
  return bytes;
}

// ---- Mutexes

craton_status craton_mutex_create(craton_mutex* mutex) {
  return with_space("craton_mutex_create", [mutex](OpenSpace& space) {
    check_pointer("craton_mutex_create", mutex, "mutex");
    *mutex = space.create_mutex();
  });
}

craton_status craton_mutex_create_together(craton_mutex* mutex) {
  return with_space("craton_mutex_create_together", [mutex](OpenSpace& space) {
    check_pointer("craton_mutex_create_together", mutex, "mutex");
    *mutex = space.create_mutex_together();
  });
}

craton_status craton_mutex_lock(craton_mutex mutex) {
  return with_space("craton_mutex_lock", [mutex](OpenSpace& space) { space.lock(mutex); });
}

craton_status craton_mutex_trylock(craton_mutex mutex, int* locked) {
  return with_space("craton_mutex_trylock", [mutex, locked](OpenSpace& space) {
    check_pointer("craton_mutex_trylock", locked, "locked");
    *locked = space.try_lock(mutex) ? 1 : 0;
  });
}

craton_status craton_mutex_unlock(craton_mutex mutex) {
  return with_space("craton_mutex_unlock", [mutex](OpenSpace& space) { space.unlock(mutex); });
}

// ---- Atomic words

craton_status craton_atomic_fetch_add64(uint64_t* word, uint64_t addend, uint64_t* previous) {
  return fetch_add("craton_atomic_fetch_add64", word, addend, previous);
}
craton_status craton_atomic_exchange64(uint64_t* word, uint64_t desired, uint64_t* previous) {
  return exchange("craton_atomic_exchange64", word, desired, previous);
}
craton_status craton_atomic_compare_exchange64(uint64_t* word, uint64_t* expected, uint64_t desired,
                                               int* exchanged) {
  return compare_exchange("craton_atomic_compare_exchange64", word, expected, desired, exchanged);
}
craton_status craton_atomic_load64(const uint64_t* word, uint64_t* value) {
  return load("craton_atomic_load64", word, value);
}
craton_status craton_atomic_store64(uint64_t* word, uint64_t value) {
  return exchange<uint64_t>("craton_atomic_store64", word, value, nullptr);
}

craton_status craton_atomic_fetch_add32(uint32_t* word, uint32_t addend, uint32_t* previous) {
  return fetch_add("craton_atomic_fetch_add32", word, addend, previous);
}
craton_status craton_atomic_exchange32(uint32_t* word, uint32_t desired, uint32_t* previous) {
  return exchange("craton_atomic_exchange32", word, desired, previous);
}
craton_status craton_atomic_compare_exchange32(uint32_t* word, uint32_t* expected, uint32_t desired,
                                               int* exchanged) {
  return compare_exchange("craton_atomic_compare_exchange32", word, expected, desired, exchanged);
}
craton_status craton_atomic_load32(const uint32_t* word, uint32_t* value) {
  return load("craton_atomic_load32", word, value);
}
craton_status craton_atomic_store32(uint32_t* word, uint32_t value) {
  return exchange<uint32_t>("craton_atomic_store32", word, value, nullptr);
}

// ---- Threads

craton_status craton_thread_enter(void) {
  return with_space("craton_thread_enter", [](OpenSpace& /*space*/) {
    if (entered.depth == 0) entered.scope.emplace();
    ++entered.depth;
    craton::events::attach();
  });
}

craton_status craton_thread_leave(void) {
  return with_space("craton_thread_leave", [](OpenSpace& /*space*/) {
    if (entered.depth == 0)
      refuse("cannot leave", "this thread has not entered", "call craton_thread_enter first");
    if (--entered.depth == 0) entered.scope.reset();
  });
}
