#include "posix/fortran_units.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "base/line_writer.hpp"
#include "base/signal_section.hpp"
#include "posix/everywhere.hpp"
#include "posix/forwarding.hpp"
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

constexpr std::uint32_t bit(unsigned number) noexcept {
  return std::uint32_t{1} << number;
}

// Bits of the flags: which result there is, and which of the places below are in use (ioparm.def).
constexpr std::uint32_t result_mask = 3;  // 0: it has worked
constexpr std::uint32_t has_status_code = bit(5);
constexpr std::uint32_t inquire_file = bit(14);
constexpr std::uint32_t open_status = bit(9);
constexpr std::uint32_t open_access = bit(10);
constexpr std::uint32_t open_form = bit(11);
constexpr std::uint32_t open_new_unit = bit(23);
/// RECL, DELIM, DECIMAL, ENCODING, ROUND, SIGN.
constexpr std::uint32_t open_modes = bit(7) | bit(15) | bit(18) | bit(19) | bit(20) | bit(21);
constexpr std::uint32_t transfer_list = bit(7);
constexpr std::uint32_t transfer_format = bit(12);
constexpr std::uint32_t transfer_advance = bit(13);
constexpr std::uint32_t transfer_names = bit(15);
/// REC, ID, POS, ASYNCHRONOUS.
constexpr std::uint32_t transfer_elsewhere = bit(9) | bit(16) | bit(17) | bit(18);

// Places in the structure. A text has its length behind its address, or before it.
constexpr std::size_t status_code_place = 40;
constexpr std::size_t open_status_place = 72;
constexpr std::size_t open_access_length_place = 88;
constexpr std::size_t open_form_place = 104;
constexpr std::size_t open_new_unit_place = 296;
constexpr std::size_t transfer_format_place = 80;
constexpr std::size_t transfer_advance_length_place = 96;

/// A statement that is made here. Larger than those of the library, which keeps some of its own in them.
class MadeStatement {
 public:
  MadeStatement(std::uint32_t flags, std::int32_t unit) noexcept {
    const Statement head{.flags = flags, .unit = unit, .file = "craton", .line = 0};
    std::memcpy(bytes_, &head, sizeof head);
  }
  template <typename T>
  void put(std::size_t place, T value) noexcept {
    std::memcpy(bytes_ + place, &value, sizeof value);
  }
  void put_text(std::size_t place, std::string_view text) noexcept {
    put(place, text.data());
    put(place + sizeof(void*), text.size());
  }
  Statement* get() noexcept { return reinterpret_cast<Statement*>(bytes_); }
  bool has_worked() const noexcept {
    std::uint32_t flags = 0;
    std::memcpy(&flags, bytes_, sizeof flags);
    return (flags & result_mask) == 0;
  }

 private:
  alignas(16) std::byte bytes_[2048]{};
};

template <typename T>
T read_place(const Statement& statement, std::size_t place) noexcept {
  T value{};
  std::memcpy(&value, reinterpret_cast<const std::byte*>(&statement) + place, sizeof value);
  return value;
}

constexpr int standard_input = 5;
constexpr int first_new_unit = -10;  // from there down
constexpr int new_units_a_rank = 1 << 20;

/// Kept by the program's numbers. One for the process, as its library is.
struct Units {
  std::mutex lock;
  std::map<int, bool> own;  ///< whether text can be written to them for other ranks
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
  shared_program()->fail(
      fmt::format("{}:{}: unit {} was opened on rank {}, and others can only write text to it, in sequence; "
                  "open the file in the threads that use it, or use it outside of parallel regions",
                  statement.file, statement.line, unit, owner));
}

void tell(Everywhere::Kind kind, int unit) noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr) return;
  const UnitChange change{.unit = unit, .rank = shared_program()->rank()};
  others->make(kind, &change, sizeof change);
}

void note_opened(int unit, bool takes_text) noexcept {
  {
    const SignalSection section;
    const std::lock_guard lock(units().lock);
    if (!units().own.insert_or_assign(unit, takes_text).second) return;
  }
  if (unit >= 0) tell(Everywhere::Kind::unit_opened, unit);
}

void note_closed(int unit) noexcept {
  {
    const SignalSection section;
    const std::lock_guard lock(units().lock);
    if (units().own.erase(unit) == 0) return;
  }
  if (unit >= 0) tell(Everywhere::Kind::unit_closed, unit);
}

/// Statements of a thread that are under way, where the library has chosen the unit's number. Procedures of
/// the program that transfer a type in one of them are called with that number, which says nothing of a rank,
/// and use it for statements of their own.
struct UnderWay {
  struct Parent {
    const Statement* statement;
    std::int32_t unit;
  };
  std::array<Parent, 32> parents;
  std::size_t depth;

  void begin(const Statement& statement) noexcept {
    if (statement.unit > first_new_unit || depth == parents.size()) return;
    parents[depth++] = {.statement = &statement, .unit = statement.unit};
  }
  void end(const Statement& statement) noexcept {
    if (depth != 0 && parents[depth - 1].statement == &statement) --depth;
  }
  bool holds(std::int32_t unit) const noexcept {
    return std::any_of(parents.begin(), parents.begin() + depth,
                       [unit](const Parent& parent) { return parent.unit == unit; });
  }
};
constinit thread_local UnderWay under_way{};

/// Of a job of several ranks.
SharedProgram* shared_by_several() noexcept {
  SharedProgram* const program = shared_program();
  return program != nullptr && everywhere() != nullptr && program->is_this_process() ? program : nullptr;
}

enum class Use { opens, moves, reads, asks };

struct Found {
  bool opens = false;                 ///< the statement opens it, since nobody has
  std::optional<fabric::Rank> owner;  ///< another rank
};

/// Whose a statement's unit is. Of this process, makes it the number that its library has.
Found find(Statement& statement, Use use) noexcept {
  SharedProgram* const program = shared_by_several();
  if (program == nullptr) return {};
  const int unit = statement.unit;
  if (under_way.holds(unit)) return {};
  if (unit <= first_new_unit) {
    const auto owner = static_cast<fabric::Rank>((first_new_unit - unit) / new_units_a_rank);
    if (owner != program->rank()) return {.owner = owner};
    statement.unit = unit + static_cast<int>(owner) * new_units_a_rank;
    return {};
  }
  if (unit < 0) return {};  // a variable of the program's in place of a file
  const SignalSection section;
  const std::lock_guard lock(units().lock);
  if (units().own.contains(unit)) return {};
  if (const auto found = units().elsewhere.find(unit); found != units().elsewhere.end())
    return {.owner = found->second};
  if (unit == standard_input && use == Use::reads && program->rank() != 0) return {.owner = 0};
  return {.opens = use != Use::asks && !is_preconnected(unit), .owner = {}};
}

/// find() for what is not forwarded. \returns whether the statement opens it
bool prepare(Statement& statement, Use use) noexcept {
  const Found found = find(statement, use);
  if (found.owner) refuse(statement, statement.unit, *found.owner);
  return found.opens;
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

template <typename Function>
Function real_of(const char* name) noexcept {
  return reinterpret_cast<Function>(find_real(name, nullptr, nullptr));
}

/// What was opened so takes text that was made for any unit.
bool takes_text(const Statement& statement) noexcept {
  if ((statement.flags & open_modes) != 0) return false;
  const auto begins_with = [&](std::size_t text, std::size_t length, char letter) {
    const auto* const begin = read_place<const char*>(statement, text);
    return read_place<std::size_t>(statement, length) != 0 && (*begin | 0x20) == letter;
  };
  if ((statement.flags & open_access) != 0 &&
      begins_with(open_access_length_place + sizeof(void*), open_access_length_place, 'd'))
    return false;  // direct
  return (statement.flags & open_form) == 0 ||
         begins_with(open_form_place, open_form_place + sizeof(void*), 'f');
}

void open(Statement& statement, Real real) noexcept {
  SharedProgram* const program = shared_by_several();
  if (program == nullptr) return real(&statement);
  const bool chooses = (statement.flags & open_new_unit) != 0;
  int unit = statement.unit;
  if (!chooses) prepare(statement, Use::opens);
  real(&statement);
  if ((statement.flags & result_mask) != 0) return;
  if (chooses) {
    auto* const number = read_place<std::int32_t*>(statement, open_new_unit_place);
    *number -= static_cast<int>(program->rank()) * new_units_a_rank;
    unit = *number;
  }
  note_opened(unit, takes_text(statement));
}

void close(Statement& statement, Real real) noexcept {
  const int unit = statement.unit;
  prepare(statement, Use::asks);
  real(&statement);
  if ((statement.flags & result_mask) == 0 && shared_by_several() != nullptr) note_closed(unit);
}

void use(Statement& statement, Use how, Real real) noexcept {
  const int unit = statement.unit;
  if (prepare(statement, how)) note_opened(unit, true);
  real(&statement);
}

/// The library puts the number that it has chosen for a text of the program's into the statement.
void read(Statement& statement, Real real) noexcept {
  use(statement, Use::reads, real);
  under_way.begin(statement);
}

void read_done(Statement& statement, Real real) noexcept {
  under_way.end(statement);
  real(&statement);
}

// ---- Writing to units of other ranks

/// A thread's scratch file, and the statement that is writing to it.
struct Scratch {
  std::int32_t unit;     ///< 0: not opened yet
  std::int64_t sent;     ///< bytes that are where they belong
  Statement* statement;  ///< null: none
  int for_unit;
  fabric::Rank owner;
};
constinit thread_local Scratch scratch{};
/// A longer file is begun anew.
constexpr std::int64_t scratch_bytes_most = 64 << 20;

bool open_scratch() noexcept {
  if (scratch.unit != 0 && scratch.sent > scratch_bytes_most) {
    MadeStatement closing(0, scratch.unit);
    real_of<Real>("_gfortran_st_close")(closing.get());
    scratch.unit = 0;
  }
  if (scratch.unit != 0) return true;
  std::int32_t code = 0;
  MadeStatement opening(has_status_code | open_status | open_form | open_new_unit, 0);
  opening.put(status_code_place, &code);
  opening.put_text(open_status_place, "scratch");
  opening.put_text(open_form_place, "formatted");
  opening.put(open_new_unit_place, &scratch.unit);
  real_of<Real>("_gfortran_st_open")(opening.get());
  scratch.sent = 0;
  if (opening.has_worked()) return true;
  scratch.unit = 0;
  return false;
}

void write(Statement& statement, Real real) noexcept {
  const int unit = statement.unit;
  const Found found = find(statement, Use::moves);
  if (found.owner) {
    const bool is_text = (statement.flags & (transfer_list | transfer_format | transfer_names)) != 0 &&
                         (statement.flags & transfer_elsewhere) == 0;
    if (!is_text || scratch.statement != nullptr || forwarding_now() == nullptr || !open_scratch())
      refuse(statement, unit, *found.owner);
    scratch.statement = &statement;
    scratch.for_unit = unit;
    scratch.owner = *found.owner;
    statement.unit = scratch.unit;
  }
  if (found.opens) note_opened(unit, true);
  real(&statement);
  under_way.begin(statement);
}

/// What the statement has left in the scratch file.
std::string written_text() {
  real_of<void (*)(const std::int32_t*)>("_gfortran_flush_i4")(&scratch.unit);
  const int file = real_of<int (*)(const std::int32_t*)>("_gfortran_fnum_i4")(&scratch.unit);
  struct stat status {};
  if (::fstat(file, &status) != 0 || status.st_size <= scratch.sent) return {};
  std::string text(static_cast<std::size_t>(status.st_size - scratch.sent), '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), scratch.sent);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  scratch.sent = status.st_size;
  return text;
}

void write_done(Statement& statement, Real real) noexcept {
  under_way.end(statement);
  real(&statement);
  if (scratch.statement != &statement) return;
  scratch.statement = nullptr;
  const std::string text = written_text();
  for (std::size_t done = 0; done < text.size(); done += forwarded_bytes_most) {
    const auto* const begin = reinterpret_cast<const std::byte*>(text.data()) + done;
    ForwardedBytes piece(begin, begin + std::min(text.size() - done, forwarded_bytes_most));
    const Forwarded call{
        .call = ForwardedCall::write_unit, .object = 0, .first = scratch.for_unit, .second = 0};
    const Returned returned = forwarding_now()->ask(scratch.owner, call, piece);
    if (returned.is_refused || returned.value != 0) refuse(statement, scratch.for_unit, scratch.owner);
  }
}

/// At the rank that has the unit.
int write_record(int unit, std::string_view record, bool is_whole) {
  std::int32_t code = 0;
  MadeStatement statement(has_status_code | transfer_format | transfer_advance, unit);
  statement.put(status_code_place, &code);
  statement.put_text(transfer_format_place, "(A)");
  const std::string_view advance = is_whole ? "yes" : "no";
  statement.put(transfer_advance_length_place, advance.size());
  statement.put(transfer_advance_length_place + sizeof(void*), advance.data());
  real_of<Real>("_gfortran_st_write")(statement.get());
  real_of<void (*)(Statement*, const char*, std::size_t)>("_gfortran_transfer_character_write")(
      statement.get(), record.data(), record.size());
  real_of<Real>("_gfortran_st_write_done")(statement.get());
  return code;
}

void inquire(Statement& statement, Real real) noexcept {
  if ((statement.flags & inquire_file) == 0) prepare(statement, Use::asks);
  real(&statement);
}

}  // namespace

std::optional<int> write_to_unit(int unit, std::string_view text) {
  {
    const std::lock_guard lock(units().lock);
    const auto found = units().own.find(unit);
    if (found == units().own.end() || !found->second) return std::nullopt;
  }
  if (unit <= first_new_unit) unit += static_cast<int>(shared_program()->rank()) * new_units_a_rank;
  int code = 0;
  while (!text.empty() && code == 0) {
    const std::size_t end = text.find('\n');
    const bool is_whole = end != std::string_view::npos;
    code = write_record(unit, text.substr(0, end), is_whole);
    text.remove_prefix(is_whole ? end + 1 : text.size());
  }
  return code;
}

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
CRATON_UNIT_STATEMENT(_gfortran_st_read, read(*statement, real))
CRATON_UNIT_STATEMENT(_gfortran_st_read_done, read_done(*statement, real))
CRATON_UNIT_STATEMENT(_gfortran_st_write, write(*statement, real))
CRATON_UNIT_STATEMENT(_gfortran_st_write_done, write_done(*statement, real))
CRATON_UNIT_STATEMENT(_gfortran_st_rewind, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_backspace, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_endfile, use(*statement, Use::moves, real))
CRATON_UNIT_STATEMENT(_gfortran_st_flush, use(*statement, Use::asks, real))
CRATON_UNIT_STATEMENT(_gfortran_st_inquire, inquire(*statement, real))
// NOLINTEND(readability-identifier-naming,bugprone-macro-parentheses)
