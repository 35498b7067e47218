// Each process has a C++ library with a global locale of its own, which leads to tables of the C library's,
// so the other ranks make theirs by its name. One that has facets of the program's own has no name, and stays
// the rank's.
#include "posix/cpp_locale.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/line_writer.hpp"

namespace craton::posix {

namespace {

/// std::locale of the program's C++ library, which is another one than this library has; nothing of it may be
/// called where the program has none.
class ProgramLocale {
 public:
  static bool is_there() noexcept {
    static const bool is_there = ::dlsym(RTLD_DEFAULT, "_ZNSt6localeC1Ev") != nullptr;
    return is_there;
  }
  static const ProgramLocale& classic() noexcept {
    return *function<const ProgramLocale*()>("_ZNSt6locale7classicEv")();
  }

  /// The global one.
  ProgramLocale() noexcept { function<void(ProgramLocale*)>("_ZNSt6localeC1Ev")(this); }
  /// \param name of one that the host has
  explicit ProgramLocale(const char* name) noexcept {
    function<void(ProgramLocale*, const char*)>("_ZNSt6localeC1EPKc")(this, name);
  }
  ProgramLocale(const ProgramLocale& other) noexcept {
    function<void(ProgramLocale*, const ProgramLocale*)>("_ZNSt6localeC1ERKS_")(this, &other);
  }
  ProgramLocale& operator=(const ProgramLocale&) = delete;
  ~ProgramLocale() { function<void(ProgramLocale*)>("_ZNSt6localeD1Ev")(this); }

  /// As long as it is kept no other one has it.
  const void* implementation() const noexcept { return implementation_; }
  void swap(ProgramLocale& other) noexcept { std::swap(implementation_, other.implementation_); }
  void make_global() const noexcept {
    alignas(ProgramLocale) std::array<std::byte, sizeof(ProgramLocale)> before;
    // It returns an object that is no plain one: in memory that the caller names.
    function<void*(void*, const ProgramLocale*)>("_ZNSt6locale6globalERKS_")(before.data(), this);
    function<void(void*)>("_ZNSt6localeD1Ev")(before.data());
  }
  /// Calls `use` with its name, "*" if it has none.
  template <typename Use>
  void with_name(const Use& use) const noexcept {
    struct String {
      const char* begin;
      std::size_t length;
      std::array<char, 16> rest;
    };
    String name{};
    function<void*(void*, const ProgramLocale*)>("_ZNKSt6locale4nameB5cxx11Ev")(&name, this);
    use(std::string_view(name.begin, name.length));
    function<void(void*)>("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEED1Ev")(&name);
  }

 private:
  template <typename Function>
  static Function* function(const char* symbol) noexcept {
    return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, symbol));
  }

  void* implementation_;
};

/// The one that all ranks have, or are about to.
class Told {
 public:
  /// \param now becomes the one before \returns whether it is another one; else nothing was done
  bool set(ProgramLocale& now) noexcept {
    const std::lock_guard lock(lock_);
    if (now.implementation() == locale_.implementation()) return false;
    locale_.swap(now);
    return true;
  }

 private:
  std::mutex lock_;
  ProgramLocale locale_ = ProgramLocale::classic();
};

Told& told() {
  static auto* const told = new Told;  // to the end of the process
  return *told;
}

bool make_everywhere(Everywhere& others, std::string_view name) noexcept {
  std::array<char, change_bytes_most> message;
  if (name == "*" || name.size() + 1 > message.size()) return false;
  std::memcpy(message.data(), name.data(), name.size());
  message[name.size()] = '\0';
  return others.make(Everywhere::Kind::cpp_locale, message.data(), name.size() + 1);
}

}  // namespace

void tell_cpp_locale(Everywhere& others) noexcept {
  if (!ProgramLocale::is_there()) return;
  const ProgramLocale now;
  ProgramLocale kept = now;
  if (!told().set(kept)) return;
  now.with_name([&](std::string_view name) {
    if (make_everywhere(others, name)) return;
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
