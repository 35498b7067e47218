/// \file
/// What a process has by itself, and the program believes to have once: its directory, file mask, locale,
/// environment, time zone, domain of gettext(), limits, settings of Fortran's library, seeds, signal handlers
/// and keys of thread-specific values, the files and segments that it maps, what it closes, which units of
/// Fortran it has open, its named semaphores, and the table of hcreate(). A change by any rank is
/// made on all before the call returns; those of what the C++ library keeps (cpp_settings.hpp) before the
/// next region or thread begins.
///
///     chdir(path) on rank r ──▶ the real one here ──▶ message to all others: the real one there ──▶ answers
///     ──▶ back
///
/// The others make it where the message comes, in a handler, which must not touch the program's memory. What
/// may do so has a thread of its own there, which acquires first what the first one knows: setlocale()
/// and tzset() read the environment, and srand() writes into memory that the program has given initstate().
///
/// Where two ranks could change the same thing at once, one of them does so at a time, so that all see the
/// changes in one order.
///
/// Not made elsewhere: changes by handlers of signals, which may have interrupted the runtime itself.
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string_view>

#include "base/function_ref.hpp"
#include "posix/shared_program.hpp"

struct hsearch_data;

namespace craton::posix {

class Everywhere {
 public:
  enum class Kind : std::uint32_t {
    directory,
    file_mask,
    locale,
    time_zone,
    action,
    seed,
    seed_48,
    environment,
    limit,
    fortran,
    map,
    unmap,
    attach,
    detach,
    descriptor,
    key,
    key_deleted,
    threads,
    unit_opened,
    unit_closed,
    table,
    text_domain,
    semaphore,
    cpp_setting,
    cpp_locale,
    answer
  };

  /// Before the program starts; collective in so far as all ranks must have made it before any changes.
  Everywhere(SharedProgram& program, fabric::HandlerId handler);
  Everywhere(const Everywhere&) = delete;
  Everywhere& operator=(const Everywhere&) = delete;

  /// Makes a change on all other ranks. \param change what the kind says, up to change_bytes_most bytes
  /// \returns whether it worked on all. Any thread of the program; blocks
  bool make(Kind kind, const void* change, std::size_t bytes) noexcept;
  /// The same of texts alone, each with an end, and of a change that texts follow.
  bool make(Kind kind, std::initializer_list<std::string_view> texts) noexcept {
    return make_with_texts(kind, nullptr, 0, texts);
  }
  template <typename Change>
  bool make(Kind kind, const Change& change, std::initializer_list<std::string_view> texts) noexcept {
    return make_with_texts(kind, &change, sizeof change, texts);
  }

 private:
  bool make_with_texts(Kind kind, const void* change, std::size_t bytes,
                       std::initializer_list<std::string_view> texts) noexcept;

  struct Head {
    Kind kind;
    std::uint32_t worked;
  };

  struct Told;

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void* serve(void* told) noexcept;
  void answer(fabric::Rank to, bool worked) noexcept;

  SharedProgram& program_;
  const fabric::HandlerId handler_;
  std::mutex lock_;  ///< one change of this rank at a time
  std::atomic<std::uint32_t> answers_{0};
  std::atomic<std::uint32_t> refusals_{0};
};

inline constexpr std::size_t change_bytes_most = fabric::max_message_bytes - 64;

/// Kind::locale; the name follows, with its end.
struct LocaleChange {
  int category;
};
/// Kind::action.
struct ActionChange {
  int signal;
  struct sigaction action;
};
/// Kind::map and unmap: whole pages. Of Kind::attach and detach the descriptor is a System V segment.
struct MapChange {
  std::uintptr_t begin;
  std::uint64_t bytes;
  std::int64_t offset;
  std::uint64_t node;  ///< of the rank whose file it is
  pid_t process;       ///< likewise
  int descriptor;      ///< there
  int protection;
  int flags;
};

/// Kind::key and key_deleted.
struct KeyChange {
  pthread_key_t key;
  void (*destructor)(void*);  ///< of a key that is made; at the same address on all ranks
};

/// Kind::text_domain; the domain's name and what it gets follow, with their ends.
struct TextDomainChange {
  enum class What : std::uint32_t { name, folder, character_set } what;
};
/// Kind::cpp_setting.
struct CppSettingChange {
  std::size_t which;
  void* pointer;
};
/// Kind::semaphore; the name of its file follows, with its end.
struct SemaphoreChange {
  enum class What : std::uint32_t { made, opened, closed, unlinked } what;
  sem_t* semaphore;         ///< the same on all ranks
  std::uint64_t inode = 0;  ///< of the file of one that is made; 0: it lies in the shared heap
};
/// Kind::table: that of hcreate(), in the shared heap.
struct TableChange {
  hsearch_data* table;
};
/// Kind::environment: the list, in the shared heap, and for how many words it has room.
struct EnvironmentChange {
  char** list;
  std::size_t room;
};
/// Kind::limit.
struct LimitChange {
  int resource;
  rlimit limit;
};

/// Of this process; null before the program has started, and where it has one rank only.
Everywhere* everywhere() noexcept;
/// The same, but null in handlers of signals.
Everywhere* everywhere_now() noexcept;
void start_everywhere(SharedProgram& program);
/// Calls `change`, which changes something here and on all others, while no thread of any rank is in another
/// such call. Where everywhere_now() is null it just calls it. Blocks. errno is as `change` leaves it.
void in_one_order(FunctionRef<void()> change) noexcept;

/// What the others do for Kind::map and unmap (mappings.cpp). \returns whether it worked
bool map_as_told(const MapChange& change, std::uint64_t own_node) noexcept;
bool unmap_as_told(const MapChange& change) noexcept;
/// Likewise for Kind::attach and detach.
bool attach_as_told(const MapChange& change, std::uint64_t own_node) noexcept;
bool detach_as_told(const MapChange& change) noexcept;
/// What they do for Kind::time_zone (results.cpp).
void set_time_zone_as_told() noexcept;
/// What they do for Kind::descriptor, a number of rank 0's that now means something else, or nothing
/// (descriptors.cpp).
bool renew_descriptor_as_told(int number) noexcept;
/// What they do for Kind::limit (structures.cpp).
bool set_limit_as_told(const LimitChange& change) noexcept;
/// What they do for Kind::action (signals.cpp).
bool set_action_as_told(const ActionChange& change) noexcept;
/// What they do for Kind::environment (environment.cpp).
bool set_environment_as_told(const EnvironmentChange& change) noexcept;
/// What they do for Kind::text_domain (text_domains.cpp).
bool set_text_domain_as_told(const std::byte* change) noexcept;
/// What they do for Kind::cpp_setting (cpp_settings.cpp).
bool set_cpp_setting_as_told(const CppSettingChange& change) noexcept;
/// What they do for Kind::cpp_locale, a name with its end (cpp_locale.cpp).
bool set_cpp_locale_as_told(const char* name) noexcept;
/// What they do for Kind::semaphore (named_semaphores.cpp).
void set_semaphore_as_told(const std::byte* change);
/// What they do for Kind::table (collections.cpp).
bool set_table_as_told(const TableChange& change) noexcept;
/// What they do for Kind::key and key_deleted (keys.cpp). \returns whether the key has that number here, or
/// is gone
bool make_key_as_told(const KeyChange& change) noexcept;
bool delete_key_as_told(const KeyChange& change) noexcept;
/// What they do for Kind::seed and seed_48, and at the start: sequences of random numbers that are the
/// program's on rank 0, and others on the other ranks (seeds.cpp).
void seed_here(fabric::Rank rank, unsigned seed) noexcept;
void seed_48_here(fabric::Rank rank, long seed) noexcept;
/// The program has given memory for the generator of this process.
bool random_state_is_the_programs() noexcept;

}  // namespace craton::posix
