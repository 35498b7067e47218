// The environment's list may lie where all ranks see it: a program that names `environ` has the C library's
// variable in its own data. So what it points to must be valid everywhere, and comes from the shared heap.
//
// A program that names it has one environment on all ranks; others have one on each, as it was at the start:
// there a change is seen by threads of the rank that made it.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string_view>

#include "posix/allocation.hpp"
#include "posix/kernel_memory.hpp"

namespace {

using craton::posix::shared_program;

std::mutex changing;    // of all changes made by this rank
char** made = nullptr;  // the list that it made last
std::size_t made_room = 0;

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

/// Makes the list one of this rank's in the shared heap, with room for one more. While `changing` is held.
bool own_list() noexcept {
  const std::size_t count = length_of_list();
  if (made != nullptr && environ == made && count + 2 <= made_room) return true;
  constexpr std::size_t more = 32;
  // The one before is not freed: the program may have a copy of the pointer.
  auto* const list = static_cast<char**>(craton_program_malloc((count + more) * sizeof(char*)));
  if (list == nullptr) return false;
  if (count != 0) std::memcpy(list, environ, count * sizeof *list);
  std::memset(list + count, 0, more * sizeof *list);
  environ = made = list;
  made_room = count + more;
  return true;
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

extern "C" {

[[gnu::visibility("default")]] int setenv(const char* name, const char* value, int replace) {
  if (shared_program() == nullptr) return CRATON_REAL(setenv)(name, value, replace);
  if (!is_name(name)) {
    errno = EINVAL;
    return -1;
  }
  const std::lock_guard guard(changing);
  const std::string_view wanted(name);
  if (replace == 0 && environ != nullptr && environ[find(wanted)] != nullptr) return 0;
  const std::size_t value_bytes = std::strlen(value) + 1;
  auto* const text = static_cast<char*>(craton_program_malloc(wanted.size() + 1 + value_bytes));
  if (text == nullptr) return -1;
  std::memcpy(text, name, wanted.size());
  text[wanted.size()] = '=';
  std::memcpy(text + wanted.size() + 1, value, value_bytes);
  return put(text, wanted);
}

[[gnu::visibility("default")]] int unsetenv(const char* name) {
  if (shared_program() == nullptr) return CRATON_REAL(unsetenv)(name);
  if (!is_name(name)) {
    errno = EINVAL;
    return -1;
  }
  const std::lock_guard guard(changing);
  if (environ == nullptr || environ[find(name)] == nullptr) return 0;
  if (!own_list()) return -1;
  for (std::size_t at = find(name); environ[at] != nullptr; at = find(name)) {
    for (; environ[at] != nullptr; ++at) environ[at] = environ[at + 1];
  }
  return 0;
}

[[gnu::visibility("default")]] int putenv(char* text) {
  if (shared_program() == nullptr) return CRATON_REAL(putenv)(text);
  const char* const equals = std::strchr(text, '=');
  if (equals == nullptr) return unsetenv(text);
  const std::lock_guard guard(changing);
  return put(text, {text, static_cast<std::size_t>(equals - text)});
}

[[gnu::visibility("default")]] int clearenv() {
  if (shared_program() == nullptr) return CRATON_REAL(clearenv)();
  const std::lock_guard guard(changing);
  environ = nullptr;
  return 0;
}

}  // extern "C"
