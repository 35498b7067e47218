#include "posix/cpp_settings.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "posix/cpp_locale.hpp"
#include "posix/everywhere.hpp"

namespace craton::posix {

namespace {

/// A pointer that has two functions: to the program's code or memory, or to the library's, which all ranks
/// have at the same address.
class Setting {
 public:
  Setting(const char* get, const char* set) noexcept
      : get_(reinterpret_cast<void* (*)()>(::dlsym(RTLD_DEFAULT, get))),
        set_(reinterpret_cast<void (*)(void*)>(::dlsym(RTLD_DEFAULT, set))) {
    if (get_ != nullptr) told_.store(get_());
  }

  void tell(Everywhere& others, std::size_t which) noexcept {
    if (get_ == nullptr) return;
    const CppSettingChange change{.which = which, .pointer = get_()};
    if (told_.exchange(change.pointer) != change.pointer)
      others.make(Everywhere::Kind::cpp_setting, &change, sizeof change);
  }
  bool set(void* pointer) noexcept {
    if (set_ == nullptr) return false;
    told_.store(pointer);
    set_(pointer);
    return true;
  }

 private:
  void* (*get_)();
  void (*set_)(void* pointer);
  std::atomic<void*> told_{nullptr};  ///< what all ranks have, or are about to
};

std::array<Setting, 3>& settings() noexcept {
  static std::array<Setting, 3> settings{
      Setting("_ZSt13get_terminatev", "_ZSt13set_terminatePFvvE"),
      Setting("_ZSt15get_new_handlerv", "_ZSt15set_new_handlerPFvvE"),
      Setting("_ZNSt3pmr20get_default_resourceEv", "_ZNSt3pmr20set_default_resourceEPNS_15memory_resourceE")};
  return settings;
}

}  // namespace

void start_cpp_settings() noexcept {
  settings();
}

void tell_cpp_settings() noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr) return;
  for (std::size_t i = 0; i < settings().size(); ++i) settings()[i].tell(*others, i);
  tell_cpp_locale(*others);
}

bool set_cpp_setting_as_told(const CppSettingChange& change) noexcept {
  return change.which < settings().size() && settings()[change.which].set(change.pointer);
}

}  // namespace craton::posix
