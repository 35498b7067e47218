// Trees, tables, vectors of texts and obstacks of the C library: what it allocates for them hangs on the
// program's own variables, so it comes from the shared heap.
#include <argz.h>
#include <envz.h>
#include <execinfo.h>
#include <obstack.h>
#include <search.h>

#include <atomic>
#include <cstdarg>
#include <cstring>

#include "posix/allocation.hpp"
#include "posix/everywhere.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __obstack_printf_chk(obstack* where, int flag, const char* format, ...);
int __obstack_vprintf_chk(obstack* where, int flag, const char* format, va_list arguments);
}
// NOLINTEND(readability-identifier-naming)

namespace {

/// The one of hcreate(): the same on all ranks, or null as long as none has been made.
std::atomic<hsearch_data*> only_table{nullptr};

/// Made where there is none. \returns null where there is no memory
hsearch_data* make_table() noexcept {
  using craton::posix::Everywhere;
  if (hsearch_data* const table = only_table.load(std::memory_order_acquire)) return table;
  const craton::posix::TableChange change{
      static_cast<hsearch_data*>(craton_program_malloc(sizeof(hsearch_data)))};
  if (change.table == nullptr) return nullptr;
  std::memset(change.table, 0, sizeof *change.table);
  only_table.store(change.table, std::memory_order_release);
  if (Everywhere* const others = craton::posix::everywhere_now())
    others->make(Everywhere::Kind::table, &change, sizeof change);
  return change.table;
}

}  // namespace

namespace craton::posix {

bool set_table_as_told(const TableChange& change) noexcept {
  only_table.store(change.table, std::memory_order_release);
  return true;
}

}  // namespace craton::posix

using craton::posix::ProgramAllocations;

extern "C" {

// NOLINTBEGIN(bugprone-macro-parentheses): parameters and arguments of functions
#define CRATON_COLLECTION(type, name, parameters, arguments) \
  [[gnu::visibility("default")]] type name parameters {      \
    const ProgramAllocations ours;                           \
    return CRATON_REAL(name) arguments;                      \
  }

// NOLINTEND(bugprone-macro-parentheses)

CRATON_COLLECTION(void*, tsearch, (const void* key, void** root, __compar_fn_t compare), (key, root, compare))
CRATON_COLLECTION(void*, tdelete, (const void* key, void** root, __compar_fn_t compare), (key, root, compare))
CRATON_COLLECTION(int, hcreate_r, (std::size_t entries, hsearch_data* table), (entries, table))

[[gnu::visibility("default")]] int hcreate(std::size_t entries) noexcept {
  if (craton::posix::shared_program() == nullptr) return CRATON_REAL(hcreate)(entries);
  int result = 0;
  craton::posix::in_one_order([&] {
    hsearch_data* const table = make_table();
    result = table == nullptr ? 0 : hcreate_r(entries, table);
  });
  return result;
}
[[gnu::visibility("default")]] ENTRY* hsearch(ENTRY entry, ACTION action) noexcept {
  hsearch_data* const table = only_table.load(std::memory_order_acquire);
  if (table == nullptr) return CRATON_REAL(hsearch)(entry, action);
  ENTRY* found = nullptr;
  static_cast<void>(::hsearch_r(entry, action, &found, table));
  return found;
}
[[gnu::visibility("default")]] void hdestroy() noexcept {
  hsearch_data* const table = only_table.load(std::memory_order_acquire);
  if (table == nullptr) return CRATON_REAL(hdestroy)();
  ::hdestroy_r(table);
}

CRATON_COLLECTION(error_t, argz_create, (char* const* texts, char** argz, std::size_t* bytes),
                  (texts, argz, bytes))
CRATON_COLLECTION(error_t, argz_create_sep,
                  (const char* text, int separator, char** argz, std::size_t* bytes),
                  (text, separator, argz, bytes))
CRATON_COLLECTION(error_t, argz_append,
                  (char** argz, std::size_t* bytes, const char* more, std::size_t count),
                  (argz, bytes, more, count))
CRATON_COLLECTION(error_t, argz_add, (char** argz, std::size_t* bytes, const char* text), (argz, bytes, text))
CRATON_COLLECTION(error_t, argz_add_sep, (char** argz, std::size_t* bytes, const char* text, int separator),
                  (argz, bytes, text, separator))
CRATON_COLLECTION(error_t, argz_insert, (char** argz, std::size_t* bytes, char* before, const char* text),
                  (argz, bytes, before, text))
CRATON_COLLECTION(error_t, argz_replace,
                  (char** argz, std::size_t* bytes, const char* text, const char* by, unsigned* count),
                  (argz, bytes, text, by, count))
CRATON_COLLECTION(error_t, envz_add, (char** envz, std::size_t* bytes, const char* name, const char* value),
                  (envz, bytes, name, value))
CRATON_COLLECTION(error_t, envz_merge,
                  (char** envz, std::size_t* bytes, const char* other, std::size_t count, int replace),
                  (envz, bytes, other, count, replace))

CRATON_COLLECTION(char**, backtrace_symbols, (void* const* addresses, int count), (addresses, count))

// They call what the program gives them to allocate with.
CRATON_COLLECTION(int, _obstack_begin,
                  (obstack * where, int bytes, int alignment, void* (*allocate)(long),
                   void (*release)(void*)),
                  (where, bytes, alignment, allocate, release))
CRATON_COLLECTION(int, _obstack_begin_1,
                  (obstack * where, int bytes, int alignment, void* (*allocate)(void*, long),
                   void (*release)(void*, void*), void* argument),
                  (where, bytes, alignment, allocate, release, argument))
CRATON_COLLECTION(void, _obstack_newchunk, (obstack * where, int bytes), (where, bytes))

CRATON_COLLECTION(int, obstack_vprintf, (obstack * where, const char* format, va_list arguments),
                  (where, format, arguments))
CRATON_COLLECTION(int, __obstack_vprintf_chk,
                  (obstack * where, int flag, const char* format, va_list arguments),
                  (where, flag, format, arguments))
[[gnu::visibility("default")]] int obstack_printf(obstack* where, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = obstack_vprintf(where, format, arguments);
  va_end(arguments);
  return length;
}
[[gnu::visibility("default")]] int __obstack_printf_chk(obstack* where, int flag, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = __obstack_vprintf_chk(where, flag, format, arguments);
  va_end(arguments);
  return length;
}

#undef CRATON_COLLECTION

}  // extern "C"
