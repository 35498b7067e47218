#include "posix/fortran_start.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>

#include "posix/everywhere.hpp"

namespace craton::posix {

namespace {

struct Library {
  void (*set_args)(int, char**);
  void (*set_options)(int, int*);
  void (*set_convert)(int);
  void (*set_record_marker)(int);
  void (*set_max_subrecord_length)(int);
};
Library library{};
int own_count = 0;
char** own_arguments = nullptr;
bool always_traces_back = false;  ///< whatever the options say

template <typename Function>
void find(Function*& function, const char* name) noexcept {
  function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void find_functions() noexcept {
  find(library.set_args, "_gfortran_set_args");
  if (library.set_args == nullptr) return;  // no Fortran program
  find(library.set_options, "_gfortran_set_options");
  find(library.set_convert, "_gfortran_set_convert");
  find(library.set_record_marker, "_gfortran_set_record_marker");
  find(library.set_max_subrecord_length, "_gfortran_set_max_subrecord_length");
}

/// In a program that is not shared nobody has looked for it yet.
const Library& found_library() noexcept {
  if (library.set_args == nullptr) find_functions();
  return library;
}

void tell(FortranChange::What what, std::span<const int> values) noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr) return;
  const std::size_t count = std::min(values.size(), FortranChange::values_most);
  FortranChange change{.what = what, .count = static_cast<int>(count), .values = {}};
  for (std::size_t i = 0; i < count; ++i) change.values[i] = values[i];
  others->make(Everywhere::Kind::fortran, &change, sizeof change);
}

}  // namespace

void find_fortran_library(int argc, char** argv) noexcept {
  own_count = argc;
  own_arguments = argv;
  always_traces_back = std::getenv("GFORTRAN_ERROR_BACKTRACE") != nullptr;
  find_functions();
}

/// Only sets variables of the library.
bool set_fortran_as_told(const FortranChange& change) noexcept {
  using What = FortranChange::What;
  if (library.set_args == nullptr) return true;
  const int value = change.values[0];
  switch (change.what) {
    case What::arguments:
      library.set_args(own_count, own_arguments);
      break;
    case What::options: {
      // With backtraces it would set handlers of signals, which come from rank 0, as all do.
      if (always_traces_back) break;
      constexpr std::size_t backtrace = 3;
      std::array<int, FortranChange::values_most> values = change.values;
      values[backtrace] = 0;
      library.set_options(change.count, values.data());
      break;
    }
    case What::convert:
      library.set_convert(value);
      break;
    case What::record_marker:
      library.set_record_marker(value);
      break;
    case What::subrecord_bytes:
      library.set_max_subrecord_length(value);
      break;
  }
  return true;
}

}  // namespace craton::posix

// ---- What a program's main calls

using craton::posix::found_library;
using craton::posix::tell;
using What = craton::posix::FortranChange::What;

// NOLINTBEGIN(readability-identifier-naming): the library's names
extern "C" {

[[gnu::visibility("default")]] void _gfortran_set_args(int count, char** arguments) {
  found_library().set_args(count, arguments);
  tell(What::arguments, {});
}
[[gnu::visibility("default")]] void _gfortran_set_options(int count, int* options) {
  found_library().set_options(count, options);
  tell(What::options, std::span(options, static_cast<std::size_t>(count)));
}
[[gnu::visibility("default")]] void _gfortran_set_convert(int order) {
  found_library().set_convert(order);
  tell(What::convert, std::span(&order, 1));
}
[[gnu::visibility("default")]] void _gfortran_set_record_marker(int bytes) {
  found_library().set_record_marker(bytes);
  tell(What::record_marker, std::span(&bytes, 1));
}
[[gnu::visibility("default")]] void _gfortran_set_max_subrecord_length(int bytes) {
  found_library().set_max_subrecord_length(bytes);
  tell(What::subrecord_bytes, std::span(&bytes, 1));
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
