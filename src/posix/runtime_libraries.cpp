#include "posix/runtime_libraries.hpp"

#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "posix/pages.hpp"

namespace craton::posix {

namespace {

using Destructor = void (*)();

/// What the loader has bound in an object, by which names, and what it will call at the end.
struct Bindings {
  std::uintptr_t base = 0;
  std::span<const ElfW(Rela)> calls;
  std::span<const ElfW(Rela)> others;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::span<Destructor> destructors;
  AddressSpan read_only{};  ///< after relocation
};

Bindings bindings_of(const dl_phdr_info& info) {
  Bindings found;
  found.base = info.dlpi_addr;
  const ElfW(Dyn)* entry = nullptr;
  for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    const std::uintptr_t begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (header.p_type == PT_GNU_RELRO)
      found.read_only = {page_down(begin), page_down(begin + header.p_memsz)};
  }
  const ElfW(Rela)* calls = nullptr;
  const ElfW(Rela)* others = nullptr;
  std::size_t bytes_of_calls = 0;
  std::size_t bytes_of_others = 0;
  Destructor* destructors = nullptr;
  std::size_t bytes_of_destructors = 0;
  for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t value = entry->d_un.d_val;
    if (entry->d_tag == DT_SYMTAB) found.symbols = reinterpret_cast<const ElfW(Sym)*>(value);
    if (entry->d_tag == DT_STRTAB) found.names = reinterpret_cast<const char*>(value);
    if (entry->d_tag == DT_JMPREL) calls = reinterpret_cast<const ElfW(Rela)*>(value);
    if (entry->d_tag == DT_PLTRELSZ) bytes_of_calls = value;
    if (entry->d_tag == DT_RELA) others = reinterpret_cast<const ElfW(Rela)*>(value);
    if (entry->d_tag == DT_RELASZ) bytes_of_others = value;
    // Not relocated.
    if (entry->d_tag == DT_FINI_ARRAY) destructors = reinterpret_cast<Destructor*>(found.base + value);
    if (entry->d_tag == DT_FINI_ARRAYSZ) bytes_of_destructors = value;
  }
  if (calls != nullptr) found.calls = {calls, bytes_of_calls / sizeof *calls};
  if (others != nullptr) found.others = {others, bytes_of_others / sizeof *others};
  if (destructors != nullptr) found.destructors = {destructors, bytes_of_destructors / sizeof *destructors};
  return found;
}

/// The C library's own, whatever stands before it; else (older ones have several libraries) the next after
/// ours.
void* function_of_c_library(const char* name) {
  static void* const c_library = ::dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
  void* const own = c_library == nullptr ? nullptr : ::dlsym(c_library, name);
  return own != nullptr ? own : ::dlsym(RTLD_NEXT, name);
}

void unbind(const Bindings& object, std::span<const ElfW(Rela)> relocations, const LoadedObject& ours) {
  for (const ElfW(Rela) & each : relocations) {
    const auto type = ELF64_R_TYPE(each.r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
    auto& bound = *reinterpret_cast<void**>(object.base + each.r_offset);
    if (!holds(ours.code, bound)) continue;
    const char* const name = object.names + object.symbols[ELF64_R_SYM(each.r_info)].st_name;
    void* const function = function_of_c_library(name);
    if (function != nullptr) std::atomic_ref(bound).store(function, std::memory_order_release);
  }
}

void destroy_nothing() {}

void protect(const AddressSpan& span, int protection) {
  if (span.begin < span.end &&
      ::mprotect(reinterpret_cast<void*>(span.begin), span.end - span.begin, protection) != 0)
    throw Error::from_errno("cannot bind the calls of a library that Craton has loaded", errno);
}

}  // namespace

void take_over_runtime_libraries(const Image& image) {
  std::vector<Bindings> loaded;
  struct Collecting {
    const Image& image;
    std::vector<Bindings>& loaded;
  } collecting{image, loaded};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*bytes*/, void* context) {
        auto& [before, found] = *static_cast<Collecting*>(context);
        const auto is_known = [info](const LoadedObject& object) { return object.base == info->dlpi_addr; };
        if (std::none_of(before.objects().begin(), before.objects().end(), is_known))
          found.push_back(bindings_of(*info));
        return 0;
      },
      &collecting);
  const LoadedObject* const ours =
      image.object_of(reinterpret_cast<const void*>(&take_over_runtime_libraries));
  for (const Bindings& object : loaded) {
    if (object.symbols == nullptr || object.names == nullptr) continue;
    protect(object.read_only, PROT_READ | PROT_WRITE);
    unbind(object, object.calls, *ours);
    unbind(object, object.others, *ours);
    std::fill(object.destructors.begin(), object.destructors.end(), &destroy_nothing);
    protect(object.read_only, PROT_READ);
  }
}

}  // namespace craton::posix
