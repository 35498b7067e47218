#include "posix/image.hpp"

#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/options.hpp"
#include "posix/dynamic_section.hpp"
#include "posix/large_variables.hpp"
#include "posix/pages.hpp"

namespace craton::posix {

namespace {

std::string executable_path() {
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink("/proc/self/exe", path.data(), path.size());
  return bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string("the program");
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [text](std::string_view prefix) { return text.starts_with(prefix); });
}

/// A library with state that is always that of one process, wherever it lies: the C library's and the
/// compilers', what this one needs itself, and OpenBLAS, whose threads hand each other data, then a flag, by
/// plain stores, which over ranks do not stay in order.
bool is_of_one_process(std::string_view name) {
  return name.empty() ||
         starts_with_any(
             name, {"linux-vdso",     "ld-linux",       "libc.so",      "libm.so",      "libmvec.so",
                    "libpthread.so",  "libdl.so",       "librt.so",     "libutil.so",   "libanl.so",
                    "libresolv.so",   "libnsl.so",      "libnss_",      "libthread_db", "libBrokenLocale",
                    "libgcc_s.so",    "libstdc++.so",   "libc++.so",    "libc++abi.so", "libunwind.so",
                    "libgfortran.so", "libquadmath.so", "libatomic.so", "libgomp.so",   "libomp.so",
                    "libiomp5.so",    "libasan.so",     "liblsan.so",   "libtsan.so",   "libubsan.so",
                    "libclang_rt.",   "libcraton",      "libZydis.so",  "libopenblas",  "libscipy_openblas"});
}

/// Many of the system keep such state too: descriptors, connections, threads.
bool belongs_to_system(std::string_view path) {
  return starts_with_any(path, {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"});
}

/// Whether it names a runtime of OpenMP among what it needs.
bool needs_openmp(const DynamicSection& section) {
  return std::any_of(section.needed.begin(), section.needed.end(), [](std::string_view name) {
    return starts_with_any(name, {"libgomp.so", "libomp.so", "libiomp5.so"});
  });
}

struct Collecting {
  const NamedLibraries& named;
  std::vector<LoadedObject>& objects;
  Fingerprint& fingerprint;
};

int collect(dl_phdr_info* info, std::size_t /*size*/, void* context) {
  auto& collecting = *static_cast<Collecting*>(context);
  const bool executable = collecting.objects.empty();
  LoadedObject object;
  object.path = executable ? executable_path() : info->dlpi_name;
  object.base = info->dlpi_addr;
  const std::string_view name = object.name();
  object.allocates_privately = starts_with_any(name, {"libc.so", "ld-linux", "libpthread.so", "libdl.so"});
  AddressSpan relro{};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const std::uintptr_t end = begin + header.p_memsz;
    if (header.p_type == PT_GNU_RELRO) relro = {page_down(begin), page_down(end)};
    if (header.p_type == PT_NOTE && header.p_filesz > 0) {
      // Has the build id, so that different builds at the same addresses are told apart.
      collecting.fingerprint.add(reinterpret_cast<const void*>(begin), header.p_filesz);
    }
    if (header.p_type != PT_LOAD) continue;
    collecting.fingerprint.add(begin).add(end);
    if ((header.p_flags & PF_X) != 0) object.code.push_back({begin, end});
    if ((header.p_flags & PF_W) == 0) continue;
    object.writable.push_back({page_down(begin), page_up(end)});
    object.zero_filled.push_back({page_up(begin + header.p_filesz), page_up(end)});
  }
  if (relro.end > relro.begin) {
    for (AddressSpan& span : object.writable) {
      if (relro.begin >= span.begin && relro.end <= span.end) span.begin = relro.end;
    }
  }
  const auto is_empty = [](const AddressSpan& span) { return span.begin >= span.end; };
  std::erase_if(object.writable, is_empty);
  std::erase_if(object.zero_filled, is_empty);
  object.shared = executable || is_shared_library(*info, collecting.named);
  collecting.fingerprint.add(name);
  collecting.objects.push_back(std::move(object));
  return 0;
}

}  // namespace

/// \param visit (entry) \returns whether to stop
template <typename Visit>
bool NamedLibraries::any_of(Visit visit) const {
  for (std::string_view rest = list_; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (!entry.empty() && visit(entry)) return true;
  }
  return false;
}

bool NamedLibraries::is_named(std::string_view path, std::string_view entry) noexcept {
  if (entry.find('/') != std::string_view::npos) {
    if (!path.starts_with(entry)) return false;
    return entry.ends_with('/') || path.size() == entry.size() || path[entry.size()] == '/';
  }
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(entry)) return false;
  const std::string_view version = name.substr(entry.size());
  return version.empty() || version.starts_with('.');
}

bool NamedLibraries::has(std::string_view path) const noexcept {
  return any_of([path](std::string_view entry) { return is_named(path, entry); });
}

void NamedLibraries::check(std::span<const LoadedObject> objects) const {
  any_of([objects](std::string_view entry) {
    std::vector<std::string> known;
    bool is_there = false;
    for (const LoadedObject& object : objects.subspan(1)) {
      const bool is_one = is_named(object.path, entry);
      if (is_one && object.shared) return false;
      is_there = is_there || is_one;
      if (may_be_shared(object)) known.emplace_back(object.short_name());
    }
    const std::optional<std::string> nearest = nearest_name(entry, known);
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("--program-libraries names {}", entry),
                 .happened = is_there ? "its state is always that of one process"
                                      : "the program starts with no library of that name",
                 .limit = {},
                 .remedy = is_there              ? "leave it out"
                           : nearest.has_value() ? fmt::format("did you mean {}?", *nearest)
                                                 : fmt::format("ldd lists those of {}", objects[0].path)});
  });
}

bool may_be_shared(const LoadedObject& object) noexcept {
  return !is_of_one_process(object.name());
}

bool is_shared_library(const dl_phdr_info& info, const NamedLibraries& named) {
  const std::string_view path = info.dlpi_name;
  const DynamicSection section(info);
  const bool is_private = is_of_one_process(path.substr(path.rfind('/') + 1)) ||
                          (!section.name.empty() && is_of_one_process(section.name));
  return !is_private && (!belongs_to_system(path) || named.has(path) || needs_openmp(section));
}

Image::Image(const NamedLibraries& named) {
  Collecting collecting{.named = named, .objects = objects_, .fingerprint = fingerprint_};
  ::dl_iterate_phdr(&collect, &collecting);
  for (LoadedObject& object : objects_) {
    // Elsewhere no large variable can lie, and the table of symbols to be read may be large itself.
    const bool has_room =
        std::any_of(object.writable.begin(), object.writable.end(),
                    [](const AddressSpan& span) { return span.end - span.begin >= large_variable_bytes; });
    if (!object.shared || !has_room) continue;
    object.large_variables = find_large_variables(object.path, object.base);
    for (const AddressSpan& span : object.large_variables) fingerprint_.add(span.begin).add(span.end);
  }
}

const LoadedObject* Image::object_of(const void* code) const noexcept {
  const auto has_code = [code](const LoadedObject& object) { return holds(object.code, code); };
  const auto found = std::find_if(objects_.begin(), objects_.end(), has_code);
  return found == objects_.end() ? nullptr : &*found;
}

}  // namespace craton::posix
