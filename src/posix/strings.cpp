// Functions of the C library that allocate what they return: for the program, from the shared heap. And
// strtok(), which any thread may go on with that knows it to be its turn. Not so,
// and private to the rank that calls: locales, getifaddrs, open_wmemstream.
#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <wordexp.h>

#include <algorithm>
#include <cstdarg>
#include <cstddef>

#include "posix/allocation.hpp"
#include "posix/descriptors.hpp"
#include "posix/kernel_memory.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
char* __strdup(const char* text);
char* __strndup(const char* text, std::size_t most);
int __vasprintf_chk(char** text, int flag, const char* format, va_list arguments);
int __asprintf_chk(char** text, int flag, const char* format, ...);
char* __realpath_chk(const char* path, char* resolved, std::size_t room);
char* __getcwd_chk(char* buffer, std::size_t bytes, std::size_t room);
[[noreturn]] void __chk_fail();
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::directory_here;
using craton::posix::hand_over;
using craton::posix::Name;
using craton::posix::Results;
using craton::posix::shared_program;

char* copy_text(const char* text, std::size_t length) noexcept {
  auto* const copy = static_cast<char*>(craton_program_malloc(length + 1));
  if (copy == nullptr) return nullptr;
  std::memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

char* hand_over_text(char* own) noexcept {
  return own == nullptr ? nullptr : static_cast<char*>(hand_over(own, std::strlen(own) + 1));
}

/// The length of what printf has made, or -1 where there is no memory for it.
int hand_over_print(int length, char* own, char** text) noexcept {
  if (length < 0) return length;
  *text = static_cast<char*>(hand_over(own, static_cast<std::size_t>(length) + 1));
  return *text == nullptr ? -1 : length;
}

template <typename Entry>
int hand_over_entries(int count, Entry** own, Entry*** list) noexcept {
  if (count < 0 || shared_program() == nullptr) {
    if (count >= 0) *list = own;
    return count;
  }
  for (int i = 0; i < count; ++i) {
    own[i] = static_cast<Entry*>(hand_over(own[i], own[i]->d_reclen));
    if (own[i] == nullptr) return -1;
  }
  *list = static_cast<Entry**>(hand_over(own, static_cast<std::size_t>(count) * sizeof(Entry*)));
  return *list == nullptr ? -1 : count;
}

/// Texts of a list, and the list, unless they are the program's already. \param count of words, with null at
/// the end \returns whether there is memory
bool hand_over_list(char**& list, std::size_t count) noexcept {
  craton::posix::SharedProgram* const program = shared_program();
  if (program == nullptr || list == nullptr) return true;
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i] == nullptr || program->is_shared(list[i])) continue;
    list[i] = hand_over_text(list[i]);
    if (list[i] == nullptr) return false;
  }
  if (!program->is_shared(list)) list = static_cast<char**>(hand_over(list, count * sizeof *list));
  return list != nullptr;
}

/// The C library allocates an address behind its entry.
bool hand_over_addresses(addrinfo*& first) noexcept {
  if (shared_program() == nullptr) return true;
  for (addrinfo** each = &first; *each != nullptr; each = &(*each)->ai_next) {
    addrinfo* const own = *each;
    if (own->ai_addr != nullptr && static_cast<void*>(own->ai_addr) != own + 1) continue;
    if (own->ai_canonname != nullptr) own->ai_canonname = hand_over_text(own->ai_canonname);
    auto* const given = static_cast<addrinfo*>(hand_over(own, sizeof *own + own->ai_addrlen));
    if (given == nullptr) {
      *each = nullptr;
      return false;
    }
    if (given->ai_addr != nullptr) given->ai_addr = reinterpret_cast<sockaddr*>(given + 1);
    *each = given;
  }
  return true;
}

template <typename List>
int hand_over_paths(int result, int flags, List* list) noexcept {
  const std::size_t before = (flags & GLOB_DOOFFS) != 0 ? list->gl_offs : 0;
  if (result != 0) return result;
  return hand_over_list(list->gl_pathv, before + list->gl_pathc + 1) ? 0 : GLOB_NOSPACE;
}

}  // namespace

extern "C" {

// ---- Lists

[[gnu::visibility("default")]] int glob(const char* pattern, int flags, int (*failed)(const char*, int),
                                        glob_t* list) {
  return hand_over_paths(CRATON_REAL(glob)(pattern, flags, failed, list), flags, list);
}
[[gnu::visibility("default")]] int glob64(const char* pattern, int flags, int (*failed)(const char*, int),
                                          glob64_t* list) {
  return hand_over_paths(CRATON_REAL(glob64)(pattern, flags, failed, list), flags, list);
}
[[gnu::visibility("default")]] int wordexp(const char* text, wordexp_t* list, int flags) {
  const int result = CRATON_REAL(wordexp)(text, list, flags);
  const std::size_t before = (flags & WRDE_DOOFFS) != 0 ? list->we_offs : 0;
  if (result != 0) return result;
  return hand_over_list(list->we_wordv, before + list->we_wordc + 1) ? 0 : WRDE_NOSPACE;
}
[[gnu::visibility("default")]] int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                                               addrinfo** list) {
  const int result = CRATON_REAL(getaddrinfo)(name, service, hints, list);
  if (result != 0) return result;
  return hand_over_addresses(*list) ? 0 : EAI_MEMORY;
}

// ---- Texts

[[gnu::visibility("default")]] char* strtok(char* text, const char* delimiters) noexcept {
  craton::posix::SharedProgram* const program = shared_program();
  if (program == nullptr) return CRATON_REAL(strtok)(text, delimiters);
  return ::strtok_r(text, delimiters, &program->token());
}

[[gnu::visibility("default")]] char* strdup(const char* text) {
  return copy_text(text, std::strlen(text));
}
[[gnu::visibility("default")]] char* __strdup(const char* text) {
  return copy_text(text, std::strlen(text));
}
[[gnu::visibility("default")]] char* strndup(const char* text, std::size_t most) {
  return copy_text(text, ::strnlen(text, most));
}
[[gnu::visibility("default")]] char* __strndup(const char* text, std::size_t most) {
  return copy_text(text, ::strnlen(text, most));
}
[[gnu::visibility("default")]] wchar_t* wcsdup(const wchar_t* text) {
  return static_cast<wchar_t*>(craton::posix::copy_for_program(text, (std::wcslen(text) + 1) * sizeof *text));
}

[[gnu::visibility("default")]] int vasprintf(char** text, const char* format, va_list arguments) {
  char* own = nullptr;
  const int length = CRATON_REAL(vasprintf)(&own, format, arguments);
  return hand_over_print(length, own, text);
}
[[gnu::visibility("default")]] int __vasprintf_chk(char** text, int flag, const char* format,
                                                   va_list arguments) {
  char* own = nullptr;
  const int length = CRATON_REAL(__vasprintf_chk)(&own, flag, format, arguments);
  return hand_over_print(length, own, text);
}
[[gnu::visibility("default")]] int asprintf(char** text, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vasprintf(text, format, arguments);
  va_end(arguments);
  return length;
}
[[gnu::visibility("default")]] int __asprintf_chk(char** text, int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = __vasprintf_chk(text, flag, format, arguments);
  va_end(arguments);
  return length;
}

// ---- Names of files

[[gnu::visibility("default")]] char* realpath(const char* path, char* resolved) {
  if (shared_program() == nullptr) return CRATON_REAL(realpath)(path, resolved);
  char own[PATH_MAX] = "";
  if (CRATON_REAL(realpath)(Name(path), own) == nullptr) {
    if (resolved != nullptr && *own != '\0') std::strcpy(resolved, own);  // what of it is not to be had
    return nullptr;
  }
  if (resolved == nullptr) return copy_text(own, std::strlen(own));
  return std::strcpy(resolved, own);
}
[[gnu::visibility("default")]] char* __realpath_chk(const char* path, char* resolved, std::size_t room) {
  if (room < PATH_MAX) __chk_fail();
  return realpath(path, resolved);
}
[[gnu::visibility("default")]] char* canonicalize_file_name(const char* path) {
  return realpath(path, nullptr);
}
[[gnu::visibility("default")]] char* getcwd(char* buffer, std::size_t bytes) {
  if (buffer != nullptr) {
    const char* const got =
        CRATON_REAL(getcwd)(Results(buffer, std::min<std::size_t>(bytes, PATH_MAX)), bytes);
    return got == nullptr ? nullptr : buffer;
  }
  char* const own = CRATON_REAL(getcwd)(nullptr, bytes);
  return own == nullptr ? nullptr : static_cast<char*>(hand_over(own, std::max(bytes, std::strlen(own) + 1)));
}
[[gnu::visibility("default")]] char* __getcwd_chk(char* buffer, std::size_t bytes, std::size_t room) {
  if (bytes > room) __chk_fail();
  return getcwd(buffer, bytes);
}
[[gnu::visibility("default")]] char* get_current_dir_name() {
  return hand_over_text(CRATON_REAL(get_current_dir_name)());
}
[[gnu::visibility("default")]] char* tempnam(const char* directory, const char* prefix) {
  return hand_over_text(CRATON_REAL(tempnam)(Name(directory), Name(prefix)));
}

[[gnu::visibility("default")]] int scandir(const char* path, dirent*** list, int (*wanted)(const dirent*),
                                           int (*compare)(const dirent**, const dirent**)) {
  dirent** own = nullptr;
  const int count = CRATON_REAL(scandir)(Name(path), &own, wanted, compare);
  return hand_over_entries(count, own, list);
}
[[gnu::visibility("default")]] int scandir64(const char* path, dirent64*** list,
                                             int (*wanted)(const dirent64*),
                                             int (*compare)(const dirent64**, const dirent64**)) {
  dirent64** own = nullptr;
  const int count = CRATON_REAL(scandir64)(Name(path), &own, wanted, compare);
  return hand_over_entries(count, own, list);
}
[[gnu::visibility("default")]] int scandirat(int directory, const char* path, dirent*** list,
                                             int (*wanted)(const dirent*),
                                             int (*compare)(const dirent**, const dirent**)) {
  dirent** own = nullptr;
  const int count =
      CRATON_REAL(scandirat)(directory_here(directory, "scandirat"), Name(path), &own, wanted, compare);
  return hand_over_entries(count, own, list);
}
[[gnu::visibility("default")]] int scandirat64(int directory, const char* path, dirent64*** list,
                                               int (*wanted)(const dirent64*),
                                               int (*compare)(const dirent64**, const dirent64**)) {
  dirent64** own = nullptr;
  const int count =
      CRATON_REAL(scandirat64)(directory_here(directory, "scandirat64"), Name(path), &own, wanted, compare);
  return hand_over_entries(count, own, list);
}

}  // extern "C"
