// How a shared program runs on a rank, and how it comes to its end on all of them.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/signal_section.hpp"
#include "omp/process.hpp"
#include "posix/descriptors.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"
#include "posix/streams.hpp"
#include "posix/threads.hpp"

namespace craton::posix {

namespace {

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

struct EndMessage {
  std::uint32_t what;
  std::int32_t status;
};

/// What the C library's streams and Fortran's units still hold goes out, where the process ends without
/// exit().
void flush_streams() noexcept {
  using FlushUnits = void (*)(const std::int32_t* unit);
  const auto flush_units = reinterpret_cast<FlushUnits>(::dlsym(RTLD_DEFAULT, "_gfortran_flush_i4"));
  if (flush_units != nullptr) flush_units(nullptr);
  flush_streams_at_end();
}

}  // namespace

void* SharedProgram::work(void* self) {
  omp::work();
  flush_streams();
  static_cast<SharedProgram*>(self)->finish(0);
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

}  // namespace craton::posix
