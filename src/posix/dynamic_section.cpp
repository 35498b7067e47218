#include "posix/dynamic_section.hpp"

#include <cstddef>
#include <cstdint>

namespace craton::posix {

DynamicSection::DynamicSection(const dl_phdr_info& info) {
  const ElfW(Dyn)* entries = nullptr;
  for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    if (header.p_type == PT_DYNAMIC)
      entries = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + header.p_vaddr);
  }
  if (entries == nullptr) return;
  std::uintptr_t names_at = 0;
  Initialiser* first = nullptr;
  std::size_t bytes = 0;
  for (const ElfW(Dyn)* one = entries; one->d_tag != DT_NULL; ++one) {
    if (one->d_tag == DT_STRTAB) names_at = one->d_un.d_ptr;
    if (one->d_tag == DT_INIT_ARRAY) first = reinterpret_cast<Initialiser*>(info.dlpi_addr + one->d_un.d_ptr);
    if (one->d_tag == DT_INIT_ARRAYSZ) bytes = one->d_un.d_val;
    if (one->d_tag == DT_FLAGS_1) wants_to_be_first = (one->d_un.d_val & DF_1_INITFIRST) != 0;
  }
  if (first != nullptr) initialisers = {first, bytes / sizeof(Initialiser)};
  // The loader has relocated it, but in the kernel's object, which cannot be written to.
  if (names_at < info.dlpi_addr) names_at += info.dlpi_addr;
  const auto* const names = reinterpret_cast<const char*>(names_at);
  for (const ElfW(Dyn)* one = entries; names != nullptr && one->d_tag != DT_NULL; ++one) {
    if (one->d_tag == DT_NEEDED) needed.emplace_back(names + one->d_un.d_val);
    if (one->d_tag == DT_SONAME) name = names + one->d_un.d_val;
  }
}

}  // namespace craton::posix
