// The environment is one for all ranks: a list in the shared heap, once any of them has changed it.
//
//     setenv on rank r ──▶ a list with room, and its texts, in the shared heap ──▶ message to all others: its
//     address ──▶ `environ` there; who asks next acquires what is in it
//
// Changes are made in one order. A program that names `environ` may have the C library's variable in its own
// data, so that all ranks have the same list anyhow.
#include "posix/environment.hpp"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string_view>

#include "posix/allocation.hpp"
#include "posix/everywhere.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/real.hpp"

namespace {

using craton::posix::EnvironmentChange;
using craton::posix::Everywhere;
using craton::posix::everywhere_now;
using craton::posix::shared_program;

std::mutex changing;                 // of all changes made by this rank
EnvironmentChange made{nullptr, 0};  // the list that a rank made last, as far as is known here
EnvironmentChange told{nullptr, 0};
std::atomic<bool> is_told{false};  // and not taken over

std::size_t length_of_list() noexcept {
  std::size_t count = 0;
  while (environ != nullptr && environ[count] != nullptr) ++count;
  return count;
}

/// Where a variable is in the list; its length if nowhere. While `changing` is held.
std::size_t find(std::string_view name) noexcept {
  std::size_t at = 0;
  for (; environ != nullptr && environ[at] != nullptr; ++at) {
    if (std::strncmp(environ[at], name.data(), name.size()) == 0 && environ[at][name.size()] == '=') break;
  }
  return at;
}

/// \returns where all ranks can read it; null: there is no memory
char* shared_text(char* text) noexcept {
  if (shared_program()->is_shared(text)) return text;
  return static_cast<char*>(craton::posix::copy_for_program(text, std::strlen(text) + 1));
}

/// Makes the list one in the shared heap, with room for one more. While `changing` is held.
bool own_list() noexcept {
  const std::size_t count = length_of_list();
  if (made.list != nullptr && environ == made.list && count + 2 <= made.room) return true;
  constexpr std::size_t more = 32;
  // The one before is not freed: the program may have a copy of the pointer.
  auto* const list = static_cast<char**>(craton_program_malloc((count + more) * sizeof(char*)));
  if (list == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i)
    if ((list[i] = shared_text(environ[i])) == nullptr) return false;
  std::memset(list + count, 0, more * sizeof *list);
  environ = list;
  made = {list, count + more};
  return true;
}

/// Knows of the list that another rank has made. While `changing` is held, in order with changes of all
/// ranks, so that what is in the list is there to be seen.
void take_told_list() noexcept {
  if (!is_told.exchange(false, std::memory_order_acquire)) return;
  made = told;
}

/// Calls `change`, which returns 0 or -1, and has other ranks know of a list that it has made.
template <typename Change>
int change_list(const Change& change) noexcept {
  int result = 0;
  craton::posix::in_one_order([&] {
    const std::lock_guard guard(changing);
    take_told_list();
    char** const before = environ;
    result = change();
    Everywhere* const others = everywhere_now();
    if (environ == before || others == nullptr) return;
    if (environ == nullptr) made = {nullptr, 0};
    others->make(Everywhere::Kind::environment, &made, sizeof made);
  });
  return result;
}

/// \param text name=value, which stays where it is
int put(char* text, std::string_view name) noexcept {
  if (!own_list()) return -1;
  environ[find(name)] = text;  // at the end the next is null already
  return 0;
}

bool is_name(const char* name) noexcept {
  return name != nullptr && *name != '\0' && std::strchr(name, '=') == nullptr;
}

}  // namespace

namespace craton::posix {

bool set_environment_as_told(const EnvironmentChange& change) noexcept {
  // At once, for who looks without a call. What is there it finds if it has synchronised with the change.
  if (!shared_program()->is_shared(&environ)) environ = change.list;
  told = change;
  is_told.store(true, std::memory_order_release);
  return true;
}

void follow_environment() noexcept {
  if (!is_told.load(std::memory_order_relaxed) || everywhere_now() == nullptr) return;
  in_one_order([] {
    const std::lock_guard guard(changing);
    take_told_list();
  });
}

}  // namespace craton::posix

extern "C" {

[[gnu::visibility("default")]] char* getenv(const char* name) {
  craton::posix::follow_environment();
  return CRATON_REAL(getenv)(name);
}
[[gnu::visibility("default")]] char* secure_getenv(const char* name) {
  craton::posix::follow_environment();
  return CRATON_REAL(secure_getenv)(name);
}

[[gnu::visibility("default")]] int setenv(const char* name, const char* value, int replace) {
  if (shared_program() == nullptr) return CRATON_REAL(setenv)(name, value, replace);
  if (!is_name(name)) {
    errno = EINVAL;
    return -1;
  }
  return change_list([&] {
    const std::string_view wanted(name);
    if (replace == 0 && environ != nullptr && environ[find(wanted)] != nullptr) return 0;
    const std::size_t value_bytes = std::strlen(value) + 1;
    auto* const text = static_cast<char*>(craton_program_malloc(wanted.size() + 1 + value_bytes));
    if (text == nullptr) return -1;
    std::memcpy(text, name, wanted.size());
    text[wanted.size()] = '=';
    std::memcpy(text + wanted.size() + 1, value, value_bytes);
    return put(text, wanted);
  });
}

[[gnu::visibility("default")]] int unsetenv(const char* name) {
  if (shared_program() == nullptr) return CRATON_REAL(unsetenv)(name);
  if (!is_name(name)) {
    errno = EINVAL;
    return -1;
  }
  return change_list([&] {
    if (environ == nullptr || environ[find(name)] == nullptr) return 0;
    if (!own_list()) return -1;
    for (std::size_t at = find(name); environ[at] != nullptr; at = find(name)) {
      for (; environ[at] != nullptr; ++at) environ[at] = environ[at + 1];
    }
    return 0;
  });
}

[[gnu::visibility("default")]] int putenv(char* text) {
  if (shared_program() == nullptr) return CRATON_REAL(putenv)(text);
  const char* const equals = std::strchr(text, '=');
  if (equals == nullptr) return unsetenv(text);
  return change_list([&] { return put(text, {text, static_cast<std::size_t>(equals - text)}); });
}

[[gnu::visibility("default")]] int clearenv() {
  if (shared_program() == nullptr) return CRATON_REAL(clearenv)();
  return change_list([] {
    environ = nullptr;
    return 0;
  });
}

}  // extern "C"
