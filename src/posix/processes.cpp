// The program's end, and its children.
//
// The program is one, in several processes: exit() on any rank is exit() on rank 0, where its handlers are,
// and what ends it at once (_exit, a message of ours) ends all. Programs that it starts are none of the job:
// they are given an environment without us. A rank cannot become another program, nor two.
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "base/line_writer.hpp"
#include "posix/descriptors.hpp"
#include "posix/environment.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/streams.hpp"

namespace {

using craton::posix::Name;
using craton::posix::PrivateBuffer;
using craton::posix::shared_program;
using craton::posix::SharedProgram;
using craton::posix::Text;
using craton::posix::touch_texts;
using craton::posix::Value;

/// The pages of arguments are made accessible so often before the kernel's error is the program's.
constexpr int attempts_most = 64;

/// The program, if this process is a rank of it and not a child that vfork has made.
SharedProgram* own_program() noexcept {
  SharedProgram* const program = shared_program();
  return program != nullptr && program->is_this_process() ? program : nullptr;
}

/// \param of what it was called for, or null
int refuse(const char* function, const char* of, const char* why) noexcept {
  std::array<char, PATH_MAX + 512> buffer;
  craton::LineWriter line(buffer.data(), buffer.size());
  line.append("craton: ");
  line.append(function);
  line.append("()");
  if (of != nullptr) {
    line.append(" of ");
    line.append(of);
  }
  line.append(" is refused: ");
  line.append(why);
  line.append("\n");
  static_cast<void>(craton::write_fully(STDERR_FILENO, line.text()));
  errno = ENOSYS;
  return -1;
}

int refuse_exec(const char* function, const char* file) noexcept {
  return refuse(
      function, file,
      "the other ranks could not follow this one into another program; start that one by craton run, "
      "or use posix_spawn or system");
}

/// The kernel reads the texts only after it has made a process, or before it ends one: what it cannot read it
/// says, and the call can be made again.
template <typename Call>
int with_texts(char* const* arguments, char* const* environment, Call call) {
  for (int attempt = 1;; ++attempt) {
    touch_texts(arguments);
    touch_texts(environment);
    const int result = call();
    const int error = result == -1 ? errno : result;
    if (error != EFAULT || attempt == attempts_most) return result;
  }
}

/// What numbers mean in the actions by which a child gets its descriptors: those that an earlier action of
/// the same list has made are the child's; others it inherits from this process, which borrows what is rank
/// 0's. That keeps its number here until rank 0 closes it. Any thread; one at a time uses a list.
class ChildNumbers {
 public:
  using List = const posix_spawn_file_actions_t*;

  void forget(List list) {
    const std::lock_guard lock(lock_);
    known_.erase(list);
  }
  void note_made(List list, int number) {
    if (!are_borrowed()) return;
    const std::lock_guard lock(lock_);
    known_[list].made.push_back(number);
  }
  /// Calls `add` with what stands for the number here. \returns its error
  template <typename Add>
  int add_source(List list, int number, Add add) {
    const int source = is_made(list, number) ? number : craton::posix::descriptor_here(number, "posix_spawn");
    if (source != craton::posix::no_descriptor) return add(source);
    const std::lock_guard lock(lock_);
    known_[list].lacks_one = true;
    return 0;
  }
  /// There was none for some action: that is found out when a child is made.
  bool lacks_one(List list) {
    if (!are_borrowed()) return false;
    const std::lock_guard lock(lock_);
    const auto found = known_.find(list);
    return found != known_.end() && found->second.lacks_one;
  }

 private:
  struct Known {
    std::vector<int> made;
    bool lacks_one = false;
  };

  static bool are_borrowed() noexcept {
    const SharedProgram* const program = own_program();
    return program != nullptr && program->rank() != 0;
  }
  bool is_made(List list, int number) {
    if (!are_borrowed()) return false;
    const std::lock_guard lock(lock_);
    const auto found = known_.find(list);
    if (found == known_.end()) return false;
    const std::vector<int>& made = found->second.made;
    return std::find(made.begin(), made.end(), number) != made.end();
  }

  std::mutex lock_;
  std::map<List, Known> known_;
};

ChildNumbers& child_numbers() {
  static auto* const numbers = new ChildNumbers;  // to the end of the process
  return *numbers;
}

/// \param real posix_spawn or posix_spawnp
int spawn(decltype(&::posix_spawn) real, pid_t* process, const char* program,
          const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
          char* const* arguments, char* const* environment) {
  if (child_numbers().lacks_one(actions)) return EBADF;
  const Name name(program);
  const Value own_actions(actions);
  const Value own_attributes(attributes);
  pid_t made = 0;
  const int error = with_texts(arguments, environment, [&] {
    return real(&made, name, own_actions, own_attributes, arguments, environment);
  });
  if (error == 0 && process != nullptr) *process = made;
  return error;
}

/// The list of arguments of the functions that take them one by one.
class ArgumentList {
 public:
  ArgumentList(const char* first, va_list rest) : list_((count(first, rest) + 1) * sizeof(char*)) {
    if (list_.data() == nullptr) return;
    std::size_t at = 0;
    for (const char* each = first; each != nullptr; each = va_arg(rest, const char*))
      words()[at++] = const_cast<char*>(each);
    words()[at] = nullptr;
  }
  char** words() noexcept { return reinterpret_cast<char**>(list_.data()); }

 private:
  static std::size_t count(const char* first, va_list rest) {
    va_list again;
    va_copy(again, rest);
    std::size_t number = 0;
    for (const char* each = first; each != nullptr; each = va_arg(again, const char*)) ++number;
    va_end(again);
    return number;
  }
  PrivateBuffer list_;
};

}  // namespace

extern "C" {

// ---- The end

[[gnu::visibility("default")]] void exit(int status) {
  SharedProgram* const program = own_program();
  if (program != nullptr && program->rank() != 0) program->exit_on_first(status);
  if (program != nullptr) program->begin_exit();
  CRATON_REAL(exit)(status);
  __builtin_unreachable();
}

[[gnu::visibility("default")]] void _exit(int status) {
  if (SharedProgram* const program = own_program()) program->end_without_exit(status);
  CRATON_REAL(_exit)(status);
  __builtin_unreachable();
}

[[gnu::visibility("default")]] void _Exit(int status) {
  _exit(status);
}

/// Its handlers are those that were registered on this rank, then those of rank 0.
[[gnu::visibility("default")]] void quick_exit(int status) {
  if (SharedProgram* const program = own_program()) program->end_after_quick_exit(status);
  CRATON_REAL(quick_exit)(status);
  __builtin_unreachable();
}

// ---- Another program in this process

[[gnu::visibility("default")]] int execve(const char* path, char* const* arguments,
                                          char* const* environment) {
  if (own_program() != nullptr) return refuse_exec("execve", path);
  const Name name(path);
  return with_texts(arguments, environment,
                    [&] { return CRATON_REAL(execve)(name, arguments, environment); });
}
[[gnu::visibility("default")]] int execv(const char* path, char* const* arguments) {
  if (own_program() != nullptr) return refuse_exec("execv", path);
  return execve(path, arguments, environ);
}
[[gnu::visibility("default")]] int execvpe(const char* file, char* const* arguments,
                                           char* const* environment) {
  if (own_program() != nullptr) return refuse_exec("execvpe", file);
  const Name name(file);
  return with_texts(arguments, environment,
                    [&] { return CRATON_REAL(execvpe)(name, arguments, environment); });
}
[[gnu::visibility("default")]] int execvp(const char* file, char* const* arguments) {
  if (own_program() != nullptr) return refuse_exec("execvp", file);
  return execvpe(file, arguments, environ);
}
[[gnu::visibility("default")]] int fexecve(int fd, char* const* arguments, char* const* environment) {
  if (own_program() != nullptr) return refuse_exec("fexecve", nullptr);
  return with_texts(arguments, environment, [&] { return CRATON_REAL(fexecve)(fd, arguments, environment); });
}
[[gnu::visibility("default")]] int execl(const char* path, const char* first, ...) {
  if (own_program() != nullptr) return refuse_exec("execl", path);
  va_list rest;
  va_start(rest, first);
  ArgumentList list(first, rest);
  va_end(rest);
  return list.words() == nullptr ? -1 : execve(path, list.words(), environ);
}
[[gnu::visibility("default")]] int execlp(const char* file, const char* first, ...) {
  if (own_program() != nullptr) return refuse_exec("execlp", file);
  va_list rest;
  va_start(rest, first);
  ArgumentList list(first, rest);
  va_end(rest);
  return list.words() == nullptr ? -1 : execvpe(file, list.words(), environ);
}
[[gnu::visibility("default")]] int execle(const char* path, const char* first, ...) {
  if (own_program() != nullptr) return refuse_exec("execle", path);
  va_list rest;
  va_start(rest, first);
  va_list again;
  va_copy(again, rest);
  ArgumentList list(first, rest);
  while (va_arg(again, const char*) != nullptr) {
  }
  char* const* const environment = va_arg(again, char* const*);
  va_end(again);
  va_end(rest);
  return list.words() == nullptr ? -1 : execve(path, list.words(), environment);
}

// ---- Programs in processes of their own

[[gnu::visibility("default")]] int posix_spawn(pid_t* process, const char* path,
                                               const posix_spawn_file_actions_t* actions,
                                               const posix_spawnattr_t* attributes, char* const* arguments,
                                               char* const* environment) {
  return spawn(CRATON_REAL(posix_spawn), process, path, actions, attributes, arguments, environment);
}
[[gnu::visibility("default")]] int posix_spawnp(pid_t* process, const char* file,
                                                const posix_spawn_file_actions_t* actions,
                                                const posix_spawnattr_t* attributes, char* const* arguments,
                                                char* const* environment) {
  return spawn(CRATON_REAL(posix_spawnp), process, file, actions, attributes, arguments, environment);
}

[[gnu::visibility("default")]] int posix_spawn_file_actions_init(posix_spawn_file_actions_t* actions) {
  child_numbers().forget(actions);
  return CRATON_REAL(posix_spawn_file_actions_init)(actions);
}
[[gnu::visibility("default")]] int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t* actions) {
  child_numbers().forget(actions);
  return CRATON_REAL(posix_spawn_file_actions_destroy)(actions);
}
[[gnu::visibility("default")]] int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t* actions,
                                                                    int fd, const char* path, int flags,
                                                                    mode_t mode) {
  child_numbers().note_made(actions, fd);
  return CRATON_REAL(posix_spawn_file_actions_addopen)(actions, fd, path, flags, mode);
}
[[gnu::visibility("default")]] int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions,
                                                                    int fd, int wanted) {
  const int error = child_numbers().add_source(actions, fd, [&](int source) {
    return CRATON_REAL(posix_spawn_file_actions_adddup2)(actions, source, wanted);
  });
  child_numbers().note_made(actions, wanted);
  return error;
}
[[gnu::visibility("default")]] int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t* actions,
                                                                         int fd) {
  return child_numbers().add_source(actions, fd, [&](int source) {
    return CRATON_REAL(posix_spawn_file_actions_addfchdir_np)(actions, source);
  });
}

/// The command is read in the child, which has no handler of ours to make its pages accessible.
[[gnu::visibility("default")]] int system(const char* command) {
  const Text text(command);
  craton::posix::follow_environment();
  touch_texts(environ);
  return CRATON_REAL(system)(text);
}

[[gnu::visibility("default")]] FILE* popen(const char* command, const char* mode) {
  const Text text(command);
  const Name how(mode);
  const craton::posix::OpeningStream opening;
  FILE* stream = nullptr;
  craton::posix::follow_environment();
  for (int attempt = 1; stream == nullptr && attempt <= attempts_most; ++attempt) {
    touch_texts(environ);
    stream = CRATON_REAL(popen)(text, how);
    if (stream == nullptr && errno != EFAULT) break;
  }
  return craton::posix::adopt_stream(stream);
}

[[gnu::visibility("default")]] int daemon(int keep_directory, int keep_output) {
  if (own_program() == nullptr) return CRATON_REAL(daemon)(keep_directory, keep_output);
  return refuse("daemon", nullptr, "the program's ranks end with craton run; let that run in the background");
}

}  // extern "C"
