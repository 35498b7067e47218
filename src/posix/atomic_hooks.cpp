#include "posix/atomic_hooks.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "base/line_writer.hpp"
#include "base/signal_section.hpp"
#include "omp/constructs.hpp"
#include "omp/looking.hpp"
#include "omp/process.hpp"
#include "omp/thread.hpp"
#include "posix/atomics/libatomic.hpp"
#include "posix/atomics/patch.hpp"
#include "posix/atomics/reduction.hpp"
#include "posix/atomics/trap.hpp"
#include "posix/remote_files.hpp"
#include "posix/signals.hpp"
#include "vm/fault_dispatcher.hpp"

extern "C" void GOMP_barrier();

namespace craton::posix {

namespace {

void run_atomic(void* address, std::size_t bytes, Perform perform, void* state) {
  SharedProgram& program = *shared_program();
  // Nobody else runs: the instruction itself is right.
  if (!program.others_run()) return perform(state, address);
  send_what_waits();
  guarded(program,
          [&] { program.run_atomically(address, bytes, [&](void* target) { perform(state, target); }); });
}

void run_exchange(void* address, std::size_t bytes, Perform perform, void* state) {
  SharedProgram& program = *shared_program();
  if (!program.others_run() || !program.stack_segment().contains(address))
    return run_atomic(address, bytes, perform, state);
  send_what_waits();
  guarded(program, [&] {
    program.stack_atomics().exchange(address, bytes, [&](void* target) { perform(state, target); });
  });
}

/// The functions in which a thread only waits, whichever library the program has them of.
std::vector<std::uintptr_t> pauses() {
  static constexpr std::array names = {"sched_yield", "usleep",     "nanosleep", "clock_nanosleep",
                                       "sleep",       "thrd_sleep", "thrd_yield"};
  std::vector<std::uintptr_t> found;
  for (const char* const name : names) {
    const void* const function = ::dlsym(RTLD_DEFAULT, name);
    if (function != nullptr) found.push_back(reinterpret_cast<std::uintptr_t>(function));
  }
  return found;
}

/// Of a thread that counts its looks at a place, and would wait for answers at each: what it found there a
/// moment ago it knows. Too short a moment for others to write something else there and then the same again,
/// for which they must have heard of this thread in between.
class Glances {
 public:
  bool is_known(const void* address, std::span<const std::byte> found, TimeNs now_ns) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, found.data(), found.size());
    constexpr TimeNs moment_ns = 1'000;
    const bool is_known = address == address_ && value == value_ && now_ns - ended_ns_ <= moment_ns;
    address_ = address;
    value_ = value;
    return is_known;
  }
  void ended(TimeNs now_ns) noexcept { ended_ns_ = now_ns; }

 private:
  const void* address_ = nullptr;
  std::uint64_t value_ = 0;
  TimeNs ended_ns_ = 0;
};

/// On a stack all others publish what they know before the thread may go on by what it found.
void look_at_stack(SharedProgram& program, const Look& look, Perform perform, void* state) {
  using Judgement = space::OwnedAtomics::Judgement;
  constexpr TimeNs longest_wait_ns = 5'000'000;  // others can do better than to publish all the time
  constinit thread_local omp::Looking looking;
  constinit thread_local Glances glances;
  const Clock& clock = program.fabric().clock();
  const auto judge = [&](std::span<const std::byte> found) -> Judgement {
    const TimeNs now_ns = clock.now_ns();
    if (!look.is_patient) return {.is_known = glances.is_known(look.address, found, now_ns)};
    return {.wait_ns = looking.found(look.turn, found, now_ns, longest_wait_ns, 2)};
  };
  program.stack_atomics().look(look.address, look.bytes, judge,
                               [&](void* target) { perform(state, target); });
  const TimeNs ended_ns = clock.now_ns();
  looking.ended(ended_ns);
  glances.ended(ended_ns);
}

void run_look(const Look& look, Perform perform, void* state) {
  SharedProgram& program = *shared_program();
  if (program.others_run() && !program.stack_segment().contains(look.address)) {
    omp::look(look.address, look.bytes, look.is_patient ? std::optional(look.turn) : std::nullopt);
  } else if (program.others_run() && perform != nullptr) {
    return guarded(program, [&] { look_at_stack(program, look, perform, state); });
  }
  if (perform != nullptr) perform(state, look.address);
}

void run_locked(void* address, FunctionRef<void()> body) {
  const SignalSection section;  // a handler may want the same mutex
  SharedProgram& program = *shared_program();
  send_what_waits();
  guarded(program, [&] {
    const space::MutexId mutex = program.mutex_of(address);
    program.space().mutexes().lock(mutex);
    body();
    program.space().mutexes().unlock(mutex);
  });
}

/// As many as patched code looks at, where there are more: those with the smallest gaps become one. What lies
/// in the gaps goes to the hooks as well, which find that it is private.
std::vector<AddressSpan> few_spans(std::vector<AddressSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const AddressSpan& left, const AddressSpan& right) { return left.begin < right.begin; });
  while (spans.size() > shared_ranges_most) {
    std::size_t closest = 1;
    for (std::size_t i = 2; i < spans.size(); ++i) {
      if (spans[i].begin - spans[i - 1].end < spans[closest].begin - spans[closest - 1].end) closest = i;
    }
    spans[closest - 1].end = spans[closest].end;
    spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(closest));
  }
  return spans;
}

omp::Updates::Meeting meeting_of(const Reduction& reduction) noexcept {
  return reduction.meeting == Reduction::Meeting::barrier ? omp::Updates::Meeting::barrier
                                                          : omp::Updates::Meeting::end;
}

bool may_put_off(const Reduction& reduction) {
  const omp::Thread* const thread = omp::self_if_known();
  return thread != nullptr &&
         omp::runtime()->updates().may_put_off(*thread, meeting_of(reduction), reduction.function);
}

bool put_off(void* address, const Reduction& reduction, std::uint64_t part) {
  // Rank 0 adds it: to memory of the space, or on its own stacks.
  SharedProgram& program = *shared_program();
  const space::OwnedSegment& stacks = program.stack_segment();
  if (stacks.contains(address)) {
    const auto* const byte = static_cast<const std::byte*>(address);
    if (byte < stacks.part(0) || byte >= stacks.part(0) + stacks.part_bytes()) return false;
  } else if (program.space().find(address) == nullptr) {
    return false;
  }
  const SignalSection section;  // a handler may want the same lock
  return omp::runtime()->updates().put_off(address, reduction.arithmetic, part);
}

void warn(const std::string& what) {
  write_fully(STDERR_FILENO, "craton: warning: " + what + "\n");
}

/// What was not made right, once for all ranks, a line for each reason.
void warn_of_untouched(const LoadedObject& object, const PatchReport& report) {
  std::map<std::string_view, std::vector<std::uintptr_t>> addresses_of;
  for (const PatchReport::Reason& reason : report.untouched)
    addresses_of[reason.why].push_back(reason.address);
  constexpr std::size_t named_most = 20;
  for (const auto& [why, addresses] : addresses_of) {
    const std::size_t named = std::min(addresses.size(), named_most);
    warn(fmt::format("{} atomic instruction{} of {} {}: {} (at {:#x}{})", addresses.size(),
                     addresses.size() == 1 ? "" : "s", object.path,
                     addresses.size() == 1 ? "stays as it is" : "stay as they are", why,
                     fmt::join(std::span(addresses).first(named), ", "),
                     named < addresses.size() ? ", ..." : ""));
  }
  if (!report.problem.empty() && report.unread_bytes != 0) {
    warn(fmt::format("atomic instructions in {} bytes of {} were not looked for: {}", report.unread_bytes,
                     object.path, report.problem));
  }
}

}  // namespace

void store_for_all(std::uint8_t& byte, std::uint8_t value) noexcept {
  const Perform store = [](void* state, void* target) {
    std::atomic_ref(*static_cast<std::uint8_t*>(target)).store(*static_cast<const std::uint8_t*>(state));
  };
  run_atomic(&byte, sizeof byte, store, &value);
}

void patch_program(SharedProgram& program) {
  SharedMemory shared;
  shared.hooks = {.atomic = &run_atomic,
                  .flush = &omp::flush,
                  .locked = &run_locked,
                  .may_put_off = &may_put_off,
                  .put_off = &put_off,
                  .exchange = &run_exchange,
                  .look = &run_look};
  shared.pauses = pauses();
  shared.barrier = reinterpret_cast<const void*>(&GOMP_barrier);
  for (const AddressSpan& span : few_spans(program.shared_spans()))
    shared.ranges.push_back({.begin = span.begin, .end = span.end});
  send_libatomic_to(shared);
  bool has_traps = false;
  constexpr std::uint32_t threads_most = 32;
  const unsigned threads = std::clamp(program.fabric().processors_a_rank(), 1U, threads_most);
  for (const LoadedObject& object : program.image().objects()) {
    if (!object.shared || object.code.empty()) continue;
    const auto map = code_map_at(reinterpret_cast<const void*>(object.code.front().begin));
    if (!map.has_value()) continue;
    PatchReport report = patch(*map, shared, threads);
    has_traps = has_traps || !report.traps.empty();
    vm::add_loads_to_store(std::move(report.loads_to_store));
    if (program.rank() == 0) warn_of_untouched(object, report);
  }
  if (!has_traps) return;
  // Fortran's library sets a handler of its own in each program.
  keep_signal(SIGTRAP);
  pass_traps_on_to(&program_action);
}

}  // namespace craton::posix
