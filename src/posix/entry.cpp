// Where the program comes in and goes out: between the loader and main, and at exit.
#include <dlfcn.h>
#include <pthread.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "job/program.hpp"
#include "job/rank_process.hpp"
#include "omp/process.hpp"
#include "posix/atomic_hooks.hpp"
#include "posix/constructors.hpp"
#include "posix/descriptors.hpp"
#include "posix/everywhere.hpp"
#include "posix/foreign_memory.hpp"
#include "posix/fortran_start.hpp"
#include "posix/forwarding.hpp"
#include "posix/lent_streams.hpp"
#include "posix/monitor.hpp"
#include "posix/real.hpp"
#include "posix/runtime_libraries.hpp"
#include "posix/shared_program.hpp"
#include "posix/streams.hpp"
#include "posix/threads.hpp"
#include "vm/skipped_addresses.hpp"

namespace {

using craton::posix::shared_program;
using craton::posix::SharedProgram;

using Main = int (*)(int, char**, char**);
using StartMain = int (*)(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                          void (*loader_fini)(), void* stack_end);

/// What the C library's start code is to be called with, on the program's first thread.
struct StartArguments {
  StartMain start;
  Main main;
  int argc;
  char** argv;
  void (*init)();
  void (*fini)();
  void (*loader_fini)();
  void* stack_end;
};
StartArguments start_arguments;

/// The last of all handlers, since it is the first to be registered: after those of the program and of its
/// libraries.
void at_exit(int status, void* /*context*/) {
  craton::posix::end_all_loans();
  craton::posix::flush_streams_at_end();
  shared_program()->finish(status);
}

void at_quick_exit_handler() {
  shared_program()->end_quickly();
}

/// While main runs.
class InMain {
 public:
  InMain() = default;
  InMain(const InMain&) = delete;
  InMain& operator=(const InMain&) = delete;
  ~InMain() {
    if (!has_returned_) craton::posix::Stacks::thread_ended();
  }
  int returned(int status) noexcept {
    has_returned_ = true;
    shared_program()->begin_exit();
    return status;
  }

 private:
  bool has_returned_ = false;  ///< else pthread_exit() unwinds
};

int run_main(int argc, char** argv, char** environment) {
  InMain scope;
  return scope.returned(start_arguments.main(argc, argv, environment));
}

void* run_program(void* /*argument*/) {
  const StartArguments& with = start_arguments;
  ::on_exit(&at_exit, nullptr);
  craton::omp::attach_master();
  craton::posix::run_constructors(with.argc, with.argv, environ);
  with.start(&run_main, with.argc, with.argv, with.init, with.fini, with.loader_fini, with.stack_end);
  return nullptr;
}

/// Makes the program's C++ streams and their locale, which its constructors would make on rank 0 only: what
/// those leave in the program's data points to objects of the C++ library, which every process has for
/// itself. The streams are there before the program counts its first use, as libstdc++ allows (ios_init.cc),
/// so a use that begins and ends here changes nothing else.
void make_cpp_streams() noexcept {
  using Use = void (*)(void*);
  const auto begin = reinterpret_cast<Use>(::dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitC1Ev"));
  const auto end = reinterpret_cast<Use>(::dlsym(RTLD_DEFAULT, "_ZNSt8ios_base4InitD1Ev"));
  if (begin == nullptr || end == nullptr) return;  // no C++ program
  char use = 0;                                    // std::ios_base::Init has no members
  begin(&use);
  end(&use);
}

/// So that memory which another rank has for itself is found to be missing here, not to be something else.
/// And so that there is room for code near that of libraries (map_near()): right below them the kernel would
/// place what this rank maps, hundreds of GiB.
void skip_addresses() noexcept {
  // Room for what a rank maps for itself: with heaps of the usual size its own views and twins of them take
  // 500 GiB, and those of each neighbour's as much. All ranks' must end above the files that programs map
  // (mappings.cpp), 17 TiB below the stacks; where that is unlimited there are 21 TiB in all. So where there
  // are many ranks the rooms overlap, and from the 17th on they are shared.
  constexpr std::size_t view_gib = 600;
  constexpr std::size_t all_gib = 16 * 1024;
  constexpr std::size_t ranks_most = 16;
  constexpr std::size_t near_code_bytes = std::size_t{1} << 30U;
  const char* const rank = std::getenv(craton::job::rank_variable);
  const char* const size = std::getenv(craton::job::size_variable);
  if (rank == nullptr || size == nullptr) return;
  const std::size_t ranks = std::clamp<std::size_t>(std::strtoul(size, nullptr, 10), 2, ranks_most);
  const std::size_t needed_gib = (ranks + 1) * view_gib;
  const std::size_t room_gib = std::min(needed_gib, (all_gib - needed_gib) / (ranks - 1));
  const std::size_t room = std::strtoul(rank, nullptr, 10) % ranks;
  craton::vm::skip_addresses((room * room_gib << 30U) + near_code_bytes);
  if (room != 0) craton::vm::end_brk();
}

[[noreturn]] void start_shared() {
  skip_addresses();
  craton::posix::make_room_for_descriptors();
  try {
    make_cpp_streams();
    auto* const program = new SharedProgram;  // to the end of the process
    ::at_quick_exit(&at_quick_exit_handler);
    craton::posix::take_over_runtime_libraries(program->image());
    craton::posix::set_shared_program(program);
    craton::posix::start_monitor(*program);
    craton::posix::find_fortran_library(start_arguments.argc, start_arguments.argv);
    craton::posix::start_everywhere(*program);
    craton::posix::start_threads(*program);
    craton::posix::start_forwarding(*program);
    craton::posix::patch_program(*program);
    craton::posix::explain_faults(*program);
    program->run(&run_program);
  } catch (const craton::Error& error) {
    if (error.code() == craton::ErrorCode::peer_lost) craton::posix::wait_for_whoever_ends_us();
    craton::write_fully(STDERR_FILENO, std::string("craton: ") + error.what() + "\n");
  }
  CRATON_REAL(_exit)(1);
  __builtin_unreachable();
}

pid_t refuse_fork(const char* function) noexcept {
  std::array<char, 256> buffer;
  craton::LineWriter line(buffer.data(), buffer.size());
  line.append("craton: ");
  line.append(function);
  line.append(
      "() is refused: a child could not use the memory that the program shares with other ranks; use "
      "posix_spawn, system or popen to start programs\n");
  static_cast<void>(craton::write_fully(STDERR_FILENO, line.text()));
  errno = ENOSYS;
  return -1;
}

}  // namespace

extern "C" {

/// Called by the executable's first instructions, when the loader has relocated everything and the
/// constructors of libraries have run that are not the program's.
[[gnu::visibility("default")]] int __libc_start_main(Main main, int argc, char** argv, void (*init)(),
                                                     void (*fini)(), void (*loader_fini)(), void* stack_end) {
  const auto start = reinterpret_cast<StartMain>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  if (std::getenv(craton::job::control_variable) == nullptr) {
    return start(main, argc, argv, init, fini, loader_fini, stack_end);  // a child of a rank
  }
  // Children of this process are programs of their own.
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("LD_BIND_NOW");
  ::unsetenv(craton::job::shared_variable);
  start_arguments = {start, main, argc, argv, init, fini, loader_fini, stack_end};
  start_shared();
}

[[gnu::visibility("default")]] pid_t fork() {
  return shared_program() == nullptr ? CRATON_REAL(fork)() : refuse_fork("fork");
}
// NOLINTBEGIN(readability-identifier-naming): the names of the C library
[[gnu::visibility("default")]] pid_t __fork() {
  return shared_program() == nullptr ? CRATON_REAL(fork)() : refuse_fork("fork");
}
[[gnu::visibility("default")]] pid_t _Fork() noexcept {
  return shared_program() == nullptr ? CRATON_REAL(_Fork)() : refuse_fork("_Fork");
}
// NOLINTEND(readability-identifier-naming)
[[gnu::visibility("default")]] int forkpty(int* terminal, char* name, const termios* settings,
                                           const winsize* size) noexcept {
  return shared_program() == nullptr ? CRATON_REAL(forkpty)(terminal, name, settings, size)
                                     : refuse_fork("forkpty");
}

}  // extern "C"
