#include "posix/fortran_units.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <set>

#include "base/line_writer.hpp"
#include "base/signal_section.hpp"
#include "posix/everywhere.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

namespace {

/// What all statements begin with (libgfortran's st_parameter_common).
struct Statement {
  std::uint32_t flags;
  std::int32_t unit;
  const char* file;
  std::int32_t line;
};

// Bits of the flags.
constexpr std::uint32_t result_mask = 3;                         // 0: it has worked
constexpr std::uint32_t has_new_unit = std::uint32_t{1} << 23U;  // of OPEN
constexpr std::uint32_t has_file = std::uint32_t{1} << 14U;      // of INQUIRE, by name
/// Where OPEN has the address for the number.
constexpr std::size_t new_unit_offset = 296;

constexpr int standard_input = 5;
constexpr int first_new_unit = -10;  // from there down
constexpr int new_units_a_rank = 1 << 20;

/// Kept by unit. One for the process, as its library is.
struct Units {
  std::mutex lock;
  std::set<int> own;
  std::map<int, fabric::Rank> elsewhere;
};

Units& units() noexcept {
  // Never destroyed: files are closed until the process is gone.
  alignas(Units) static std::byte memory[sizeof(Units)];
  static auto* const made = new (memory) Units;
  return *made;
}

bool is_preconnected(int unit) noexcept {
  return unit == 0 || unit == standard_input || unit == 6;
}

[[noreturn]] void refuse(const Statement& statement, int unit, fabric::Rank owner) noexcept {
  shared_program()->fail(fmt::format(
      "{}:{}: unit {} was opened on rank {}, and only threads of that rank can use it; open the file in the "
      "threads that use it, or use it outside of parallel regions",
      statement.file, statement.line, unit, owner));
}

void tell(Everywhere::Kind kind, int unit) noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr) return;
  const UnitChange change{.unit = unit, .rank = shared_program()->rank()};
  others->make(kind, &change, sizeof change);
}

void note_opened(int unit) noexcept {
  {
    const SignalSection section;
    const std::lock_guard lock(units().lock);
    if (!units().own.insert(unit).second) return;
  }
  tell(Everywhere::Kind::unit_opened, unit);
}

void note_closed(int unit) noexcept {
  {
    const SignalSection section;
    const std::lock_guard lock(units().lock);
    if (units().own.erase(unit) == 0) return;
  }
  tell(Everywhere::Kind::unit_closed, unit);
}

/// Of a job of several ranks.
SharedProgram* shared_by_several() noexcept {
  SharedProgram* const program = shared_program();
  return program != nullptr && everywhere() != nullptr && program->is_this_process() ? program : nullptr;
}

enum class Use { opens, moves, reads, asks };

/// Makes a statement's unit that of this process's library. Ends the job where it is another rank's. \returns
/// whether the statement opens it, if nobody has
bool prepare(Statement& statement, Use use) noexcept {
  SharedProgram* const program = shared_by_several();
  if (program == nullptr) return false;
  const int unit = statement.unit;
  if (unit <= first_new_unit) {
    const auto owner = static_cast<fabric::Rank>((first_new_unit - unit) / new_units_a_rank);
    if (owner != program->rank()) refuse(statement, unit, owner);
    statement.unit = unit + static_cast<int>(owner) * new_units_a_rank;
    return false;
  }
  if (unit < 0) return false;  // a variable of the program's in place of a file
  const SignalSection section;
  const std::lock_guard lock(units().lock);
  if (units().own.contains(unit)) return false;
  if (const auto found = units().elsewhere.find(unit); found != units().elsewhere.end())
    refuse(statement, unit, found->second);
  if (unit == standard_input && use == Use::reads && program->rank() != 0) refuse(statement, unit, 0);
  return use != Use::asks && !is_preconnected(unit);
}

/// The library's function: of the library of whoever calls, since there may be several.
void* find_real(const char* name, const void* caller, const void* ours) noexcept {
  void* found = ::dlsym(RTLD_NEXT, name);
  if (found != nullptr) return found;
  Dl_info info{};
  const char* const object = ::dladdr(caller, &info) != 0 ? info.dli_fname : nullptr;
  for (const char* const library : {"libgfortran.so.5", object}) {
    if (library == nullptr) continue;
    void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    found = ::dlsym(handle, name);
    ::dlclose(handle);
    if (found != nullptr && found != ours) return found;
  }
  write_fully(STDERR_FILENO, fmt::format("craton: cannot find {} of Fortran's library\n", name));
  std::abort();
}

using Real = void (*)(Statement*);

void open(Statement& statement, Real real) noexcept {
  SharedProgram* const program = shared_by_several();
  if (program == nullptr) return real(&statement);
  if ((statement.flags & has_new_unit) != 0) {
    real(&statement);
    if ((statement.flags & result_mask) != 0) return;
    std::int32_t* number = nullptr;
    std::memcpy(&number, reinterpret_cast<const std::byte*>(&statement) + new_unit_offset, sizeof number);
    *number -= static_cast<int>(program->rank()) * new_units_a_rank;
    return;
  }
  const int unit = statement.unit;
  prepare(statement, Use::opens);
  real(&statement);
  if (unit >= 0 && (statement.flags & result_mask) == 0) note_opened(unit);
}

void close(Statement& statement, Real real) noexcept {
  const int unit = statement.unit;
  prepare(statement, Use::asks);
  real(&statement);
  if (unit >= 0 && (statement.flags & result_mask) == 0) note_closed(unit);
}

void use(Statement& statement, Use how, Real real) noexcept {
  const int unit = statement.unit;
  const bool opens = prepare(statement, how);
  if (opens) note_opened(unit);
  real(&statement);
}

void inquire(Statement& statement, Real real) noexcept {
  if ((statement.flags & has_file) == 0) prepare(statement, Use::asks);
  real(&statement);
}

}  // namespace

void unit_opened_as_told(const UnitChange& change) noexcept {
  const std::lock_guard lock(units().lock);
  units().elsewhere.insert_or_assign(change.unit, change.rank);
}

void unit_closed_as_told(const UnitChange& change) noexcept {
  const std::lock_guard lock(units().lock);
  const auto found = units().elsewhere.find(change.unit);
  if (found != units().elsewhere.end() && found->second == change.rank) units().elsewhere.erase(found);
}

}  // namespace craton::posix

// ---- What programs call. With arguments that only the library knows; the head of them is enough here.

namespace {

using craton::posix::Real;
using craton::posix::Statement;
using craton::posix::Use;

}  // namespace

// NOLINTBEGIN(readability-identifier-naming,bugprone-macro-parentheses): the names of the library; a call
#define CRATON_UNIT_STATEMENT(name, call)                                                            \
  extern "C" [[gnu::visibility("default")]] void name(Statement* statement) {                        \
    static std::atomic<Real> known{nullptr};                                                         \
    Real real = known.load(std::memory_order_relaxed);                                               \
    if (real == nullptr) {                                                                           \
      real = reinterpret_cast<Real>(craton::posix::find_real(#name, __builtin_return_address(0),     \
                                                             reinterpret_cast<const void*>(&name))); \
      known.store(real, std::memory_order_relaxed);                                                  \
    }                                                                                                \
    craton::posix::call;                                                                             \
  }
CRATON_UNIT_STATEMENT(_gfortran_st_open, open(*statement, real))
CRATON_UNIT_STATEMENT(_gfortran_st_close, close(*statement, real))
CRATON_UNIT_STATEMENT(_gfortran_st_read, use(*statement, Use::reads, real))
CRATON_UNIT_STATEMENT(_gfortran_st_write, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_rewind, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_backspace, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_endfile, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_flush, use(*statement, Use::asks, real))
CRATON_UNIT_STATEMENT(_gfortran_st_inquire, inquire(*statement, real))
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)
