#include "posix/everywhere.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/kept_errno.hpp"
#include "posix/descriptors.hpp"
#include "posix/fortran_start.hpp"
#include "posix/fortran_units.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/monitor.hpp"
#include "posix/own_thread.hpp"
#include "posix/results.hpp"
#include "posix/signals.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId everywhere_handler = fabric::max_handlers - 4;
/// A rank that is alive answers while it computes; this is for one that the operating system has stopped.
constexpr TimeNs patience_ns = 60'000'000'000;

std::atomic<Everywhere*> running_everywhere{nullptr};

template <typename T>
T read_change(const std::byte* change) noexcept {
  T read{};
  std::memcpy(&read, change, sizeof read);
  return read;
}

/// The change may touch memory of the program here, or wait for a lock of the C library's that a thread has
/// which does so.
bool needs_memory(Everywhere::Kind kind) noexcept {
  using Kind = Everywhere::Kind;
  return kind == Kind::locale || kind == Kind::text_domain || kind == Kind::time_zone ||
         kind == Kind::cpp_locale || kind == Kind::cpp_setting ||
         (kind == Kind::seed && random_state_is_the_programs());
}

/// \param change has room for all that its kind says \returns whether it worked
bool change_here(SharedProgram& program, Everywhere::Kind kind, const std::byte* change) noexcept {
  using Kind = Everywhere::Kind;
  switch (kind) {
    case Kind::directory:
      return CRATON_REAL(chdir)(reinterpret_cast<const char*>(change)) == 0;
    case Kind::file_mask:
      CRATON_REAL(umask)(read_change<mode_t>(change));
      return true;
    case Kind::locale:
      return CRATON_REAL(setlocale)(read_change<LocaleChange>(change).category,
                                    reinterpret_cast<const char*>(change + sizeof(LocaleChange))) != nullptr;
    case Kind::time_zone:
      set_time_zone_as_told();
      return true;
    case Kind::action:
      return set_action_as_told(read_change<ActionChange>(change));
    case Kind::seed:
      seed_here(program.rank(), read_change<unsigned>(change));
      return true;
    case Kind::seed_48:
      seed_48_here(program.rank(), read_change<long>(change));
      return true;
    case Kind::environment:
      return set_environment_as_told(read_change<EnvironmentChange>(change));
    case Kind::limit:
      return set_limit_as_told(read_change<LimitChange>(change));
    case Kind::fortran:
      return set_fortran_as_told(read_change<FortranChange>(change));
    case Kind::map:
      return map_as_told(read_change<MapChange>(change), program.fabric().node_of(program.rank()));
    case Kind::unmap:
      return unmap_as_told(read_change<MapChange>(change));
    case Kind::attach:
      return attach_as_told(read_change<MapChange>(change), program.fabric().node_of(program.rank()));
    case Kind::detach:
      return detach_as_told(read_change<MapChange>(change));
    case Kind::descriptor:
      return renew_descriptor_as_told(read_change<int>(change));
    case Kind::key:
      return make_key_as_told(read_change<KeyChange>(change));
    case Kind::key_deleted:
      return delete_key_as_told(read_change<KeyChange>(change));
    case Kind::threads:
      program.note_threads_elsewhere();
      return true;
    case Kind::unit_opened:
      unit_opened_as_told(read_change<UnitChange>(change));
      return true;
    case Kind::unit_closed:
      unit_closed_as_told(read_change<UnitChange>(change));
      return true;
    case Kind::table:
      return set_table_as_told(read_change<TableChange>(change));
    case Kind::text_domain:
      return set_text_domain_as_told(change);
    case Kind::cpp_setting:
      return set_cpp_setting_as_told(read_change<CppSettingChange>(change));
    case Kind::cpp_locale:
      return set_cpp_locale_as_told(reinterpret_cast<const char*>(change));
    case Kind::semaphore:
      set_semaphore_as_told(change);
      return true;
    case Kind::answer:
      break;
  }
  return false;
}

}  // namespace

/// A change that has a thread of its own.
struct Everywhere::Told {
  Everywhere& self;
  fabric::Rank by;
  Kind kind;
  std::array<std::byte, fabric::max_message_bytes + 1> change;
};

Everywhere* everywhere() noexcept {
  return running_everywhere.load(std::memory_order_acquire);
}

Everywhere* everywhere_now() noexcept {
  Everywhere* const made = everywhere();
  return made == nullptr || is_in_handler() ? nullptr : made;
}

void in_one_order(FunctionRef<void()> change) noexcept {
  if (everywhere_now() == nullptr) return change();
  int error = errno;
  monitor()->inside(&running_everywhere, [&] {
    change();
    error = errno;
  });
  errno = error;
}

void start_everywhere(SharedProgram& program) {
  if (program.fabric().size() == 1) return;
  running_everywhere.store(new Everywhere(program, everywhere_handler), std::memory_order_release);
  if (program.rank() == 0) return;
  seed_here(program.rank(), 1);  // as if the program had said so, as the C standard has it
  seed_48_here(program.rank(), 0);
}

Everywhere::Everywhere(SharedProgram& program, fabric::HandlerId handler)
    : program_(program), handler_(handler) {
  program_.fabric().set_handler(handler_, &Everywhere::arrived, this);
}

bool Everywhere::make_with_texts(Kind kind, const void* change, std::size_t bytes,
                                 std::initializer_list<std::string_view> texts) noexcept {
  std::array<std::byte, change_bytes_most> all;
  std::size_t used = 0;
  const auto append = [&](const void* from, std::size_t count) {
    if (count != 0) std::memcpy(all.data() + used, from, count);
    used += count;
  };
  append(change, bytes);
  for (const std::string_view text : texts) {
    if (text.size() >= all.size() - used) return false;
    append(text.data(), text.size());
    append("", 1);
  }
  return make(kind, all.data(), used);
}

bool Everywhere::make(Kind kind, const void* change, std::size_t bytes) noexcept {
  if (bytes > change_bytes_most) return false;
  if (kind == Kind::locale || kind == Kind::time_zone) {  // the others will read what the environment says
    guarded(program_, [&] { program_.space().publish(); });
  }
  std::array<std::byte, sizeof(Head) + change_bytes_most> message;
  const Head head{.kind = kind, .worked = 0};
  std::memcpy(message.data(), &head, sizeof head);
  std::memcpy(message.data() + sizeof head, change, bytes);
  const std::lock_guard lock(lock_);
  fabric::Fabric& fabric = program_.fabric();
  answers_.store(0);
  refusals_.store(0);
  for (fabric::Rank rank = 0; rank < fabric.size(); ++rank) {
    if (rank != fabric.rank())
      static_cast<void>(fabric.send(rank, handler_, message.data(), sizeof head + bytes));
  }
  const auto all = [&] { return answers_.load() + 1 == fabric.size() || fabric.lost_ranks() != 0; };
  if (fabric.wait_until(all, fabric.clock().now_ns() + patience_ns) != fabric::Status::ok ||
      fabric.lost_ranks() != 0) {
    program_.fail(fmt::format("a change of the process did not reach all ranks: {} of {} have answered",
                              answers_.load(), fabric.size() - 1));
  }
  return refusals_.load() == 0;
}

void Everywhere::arrived(void* self, fabric::Rank source, const std::byte* payload,
                         std::size_t bytes) noexcept {
  auto& here = *static_cast<Everywhere*>(self);
  Head head{};
  if (bytes < sizeof head) return;
  std::memcpy(&head, payload, sizeof head);
  if (head.kind == Kind::answer) {
    if (head.worked == 0) here.refusals_.fetch_add(1);
    here.answers_.fetch_add(1);
    return here.program_.fabric().notify();
  }
  // With room behind, and a zero: a text that is too short to be one ends all the same.
  if (needs_memory(head.kind)) {
    auto told = std::make_unique<Told>(Told{.self = here, .by = source, .kind = head.kind, .change = {}});
    std::memcpy(told->change.data(), payload + sizeof head, bytes - sizeof head);
    if (start_own_thread(&Everywhere::serve, told.get()) != 0) return here.answer(source, false);
    return static_cast<void>(told.release());
  }
  alignas(MapChange) std::array<std::byte, fabric::max_message_bytes + 1> change{};
  std::memcpy(change.data(), payload + sizeof head, bytes - sizeof head);
  here.answer(source, change_here(here.program_, head.kind, change.data()));
}

void* Everywhere::serve(void* told) noexcept {
  const std::unique_ptr<Told> mine(static_cast<Told*>(told));
  Everywhere& self = mine->self;
  guarded(self.program_, [&] { self.program_.space().learn(mine->by); });
  self.answer(mine->by, change_here(self.program_, mine->kind, mine->change.data()));
  return nullptr;
}

void Everywhere::answer(fabric::Rank to, bool worked) noexcept {
  const Head head{.kind = Kind::answer, .worked = worked ? 1U : 0U};
  static_cast<void>(program_.fabric().send(to, handler_, &head, sizeof head));
}

}  // namespace craton::posix

// ---- What programs call

using craton::posix::Everywhere;
using craton::posix::everywhere_now;
using craton::posix::in_one_order;
using craton::posix::Name;

namespace {

/// The directory has changed here. Its name is the same on all hosts, or the others stay where they are.
void tell_directory() noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr) return;
  const craton::KeptErrno kept;
  std::array<char, craton::posix::change_bytes_most> path;
  if (CRATON_REAL(getcwd)(path.data(), path.size()) != nullptr)
    others->make(Everywhere::Kind::directory, path.data(), std::strlen(path.data()) + 1);
}

/// Of a category, by the name that it has here: an empty one means what the environment says, which may
/// differ by then.
void tell_locale(int category, const char* name) noexcept {
  if (Everywhere* const others = everywhere_now())
    others->make(Everywhere::Kind::locale, craton::posix::LocaleChange{category}, {name});
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int chdir(const char* path) {
  const Name name(path);
  int result = 0;
  in_one_order([&] {
    result = CRATON_REAL(chdir)(name);
    if (result == 0) tell_directory();
  });
  return result;
}

[[gnu::visibility("default")]] int fchdir(int fd) {
  const int descriptor = craton::posix::descriptor_here(fd, "fchdir");
  int result = 0;
  in_one_order([&] {
    result = CRATON_REAL(fchdir)(descriptor);
    if (result == 0) tell_directory();
  });
  return result;
}

[[gnu::visibility("default")]] mode_t umask(mode_t mask) {
  mode_t before = 0;
  in_one_order([&] {
    before = CRATON_REAL(umask)(mask);
    if (before == mask) return;
    if (Everywhere* const others = everywhere_now())
      others->make(Everywhere::Kind::file_mask, &mask, sizeof mask);
  });
  return before;
}

[[gnu::visibility("default")]] char* setlocale(int category, const char* locale) {
  char* result = nullptr;
  // Until the name is copied no message may change the locale: the C library frees the one before.
  in_one_order([&] {
    const char* const name = CRATON_REAL(setlocale)(category, locale);
    if (locale != nullptr && name != nullptr) tell_locale(category, name);
    result = craton::posix::shared_name(name);
  });
  return result;
}

}  // extern "C"
