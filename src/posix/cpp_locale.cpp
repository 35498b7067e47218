// Each process has a C++ library with a global locale of its own, which leads to tables of the C library's,
// so the other ranks make theirs by its name. One that has facets of the program's own has no name, and stays
// the rank's.
#include "posix/cpp_locale.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <clocale>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/line_writer.hpp"

namespace craton::posix {

namespace {

class ProgramLocale;

struct ProgramString {
  const char* begin;
  std::size_t length;
  std::array<char, 16> rest;
};

/// Of the program's C++ library, which is another one than this library has; all null where the program has
/// none. Looked up once: regions begin often.
struct Functions {
  using Locale = ProgramLocale;

  void (*make)(Locale* made) = find("_ZNSt6localeC1Ev");
  void (*make_named)(Locale* made, const char* name) = find("_ZNSt6localeC1EPKc");
  void (*copy)(Locale* made, const Locale* other) = find("_ZNSt6localeC1ERKS_");
  void (*end)(Locale* locale) = find("_ZNSt6localeD1Ev");
  const Locale* (*classic)() = find("_ZNSt6locale7classicEv");
  // They return objects that are no plain ones: in memory that the caller names first.
  void* (*make_global)(void* before, const Locale* locale) = find("_ZNSt6locale6globalERKS_");
  void* (*name)(ProgramString* name, const Locale* locale) = find("_ZNKSt6locale4nameB5cxx11Ev");
  void (*end_name)(ProgramString* name) = find("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEED1Ev");

 private:
  struct Found {
    void* address;
    template <typename Function>
    operator Function*() const noexcept {  // NOLINT(google-explicit-constructor): whatever it is
      return reinterpret_cast<Function*>(address);
    }
  };
  static Found find(const char* symbol) noexcept { return {::dlsym(RTLD_DEFAULT, symbol)}; }
};

const Functions& functions() noexcept {
  static const Functions functions;
  return functions;
}

/// std::locale of that library.
class ProgramLocale {
 public:
  static bool is_there() noexcept { return functions().make != nullptr; }
  static const ProgramLocale& classic() noexcept { return *functions().classic(); }

  /// The global one.
  ProgramLocale() noexcept { functions().make(this); }
  /// \param name of one that the host has
  explicit ProgramLocale(const char* name) noexcept { functions().make_named(this, name); }
  ProgramLocale(const ProgramLocale& other) noexcept { functions().copy(this, &other); }
  ProgramLocale& operator=(const ProgramLocale&) = delete;
  ~ProgramLocale() { functions().end(this); }

  /// As long as it is kept no other one has it.
  const void* implementation() const noexcept { return implementation_; }
  void swap(ProgramLocale& other) noexcept { std::swap(implementation_, other.implementation_); }
  void make_global() const noexcept {
    alignas(ProgramLocale) std::array<std::byte, sizeof(ProgramLocale)> before;
    functions().make_global(before.data(), this);
    functions().end(reinterpret_cast<ProgramLocale*>(before.data()));
  }
  /// Calls `use` with its name, "*" if it has none.
  template <typename Use>
  void with_name(const Use& use) const noexcept {
    ProgramString name{};
    functions().name(&name, this);
    use(std::string_view(name.begin, name.length));
    functions().end_name(&name);
  }

 private:
  void* implementation_;
};

/// The one that all ranks have, or are about to.
class Told {
 public:
  bool is(const ProgramLocale& now) const noexcept { return now.implementation() == implementation_.load(); }
  /// \param now becomes the one before \returns whether it is another one; else nothing was done
  bool set(ProgramLocale& now) noexcept {
    const std::lock_guard lock(lock_);
    if (is(now)) return false;
    implementation_.store(now.implementation());
    locale_.swap(now);
    return true;
  }

 private:
  std::mutex lock_;
  ProgramLocale locale_ = ProgramLocale::classic();
  std::atomic<const void*> implementation_{locale_.implementation()};
};

Told& told() {
  static auto* const told = new Told;  // to the end of the process
  return *told;
}

}  // namespace

void tell_cpp_locale(Everywhere& others) noexcept {
  if (!ProgramLocale::is_there()) return;
  const ProgramLocale now;
  if (told().is(now)) return;
  ProgramLocale kept = now;
  if (!told().set(kept)) return;
  now.with_name([&](std::string_view name) {
    if (name != "*" && others.make(Everywhere::Kind::cpp_locale, {name})) return;
    constexpr std::string_view line =
        "craton: std::locale::global() holds for threads of this rank only: the locale has facets of the "
        "program's own, or not all hosts have it; imbue streams with it\n";
    static_cast<void>(write_fully(STDERR_FILENO, line));
  });
}

bool set_cpp_locale_as_told(const char* name) noexcept {
  // The constructor would throw.
  const locale_t there = ::newlocale(LC_ALL_MASK, name, nullptr);
  if (there == nullptr || !ProgramLocale::is_there()) return false;
  ::freelocale(there);
  ProgramLocale locale(name);
  locale.make_global();
  told().set(locale);
  return true;
}

}  // namespace craton::posix
