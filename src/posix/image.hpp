/// \file
/// The loaded program as the loader made it: which of its memory is to be shared, and whether it is the same
/// on all ranks.
#pragma once

#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fingerprint.hpp"

namespace craton::posix {

inline constexpr std::size_t large_variable_bytes = std::size_t{1} << 20U;

/// Whole pages, [begin, end).
struct AddressSpan {
  std::uintptr_t begin;
  std::uintptr_t end;

  bool contains(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
  std::span<const std::byte> bytes() const noexcept {
    return {reinterpret_cast<const std::byte*>(begin), end - begin};
  }
};

inline bool holds(std::span<const AddressSpan> spans, const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return std::any_of(spans.begin(), spans.end(), [at](const AddressSpan& span) { return span.contains(at); });
}

/// An executable or library.
struct LoadedObject {
  std::string path;  ///< of the executable: /proc/self/exe resolved
  std::uintptr_t base;
  /// Its data belong to the program: the executable's, those of libraries outside of the system's folders but
  /// libc, the loader and compilers' libraries, and there those of libraries that use OpenMP, since threads
  /// of all ranks run their code, and those that NamedLibraries has.
  bool shared;
  bool allocates_privately;              ///< libc and the loader: what they allocate is theirs
  std::vector<AddressSpan> code;         ///< executable segments
  std::vector<AddressSpan> writable;     ///< data and bss, less what is read-only after relocation
  std::vector<AddressSpan> zero_filled;  ///< what the loader mapped of it without a file
  /// Where in there nothing lies but variables of large_variable_bytes or more; not always whole pages. Of
  /// those that share their data, and as far as the file still has its symbols.
  std::vector<AddressSpan> large_variables;

  /// Without its folder.
  std::string_view name() const noexcept { return std::string_view(path).substr(path.rfind('/') + 1); }
  /// And without its version: "liblzma".
  std::string_view short_name() const noexcept { return name().substr(0, name().find(".so")); }
};

/// Libraries of the system that a user says are the program's (--program-libraries).
class NamedLibraries {
 public:
  /// \param list names ("liblzma", "liblzma.so.5") and folders (with a slash), separated by commas; outlives
  /// this
  explicit NamedLibraries(std::string_view list) noexcept : list_(list) {}

  bool has(std::string_view path) const noexcept;
  /// \throws Error invalid_argument where one names nothing among the objects that can be the program's
  void check(std::span<const LoadedObject> objects) const;

 private:
  template <typename Visit>
  bool any_of(Visit visit) const;
  static bool is_named(std::string_view path, std::string_view entry) noexcept;

  std::string_view list_;
};

/// It would be LoadedObject::shared if a user said so: it has no state that is always one process's.
bool may_be_shared(const LoadedObject& object) noexcept;

/// LoadedObject::shared of a library.
bool is_shared_library(const dl_phdr_info& info, const NamedLibraries& named);

class Image {
 public:
  /// Looks at what is loaded now. \throws Error out_of_resources
  explicit Image(const NamedLibraries& named);

  const std::vector<LoadedObject>& objects() const noexcept { return objects_; }
  /// Whose code an address is; null: none of those that were loaded at the start.
  const LoadedObject* object_of(const void* code) const noexcept;
  /// Of names, addresses and sizes of all objects and large variables: equal on ranks that can share
  /// addresses.
  std::uint64_t fingerprint() const noexcept { return fingerprint_.value(); }

 private:
  std::vector<LoadedObject> objects_;
  Fingerprint fingerprint_;
};

}  // namespace craton::posix
