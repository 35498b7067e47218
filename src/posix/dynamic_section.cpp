#include "posix/dynamic_section.hpp"

#include <cstddef>
#include <cstdint>

namespace craton::posix {

DynamicSection::DynamicSection(const dl_phdr_info& info) : base_(info.dlpi_addr) {
  const ElfW(Dyn)* entries = nullptr;
  for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    if (header.p_type == PT_DYNAMIC)
      entries = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + header.p_vaddr);
  }
  if (entries == nullptr) return;
  // The loader has relocated them, but in the kernel's object, which cannot be written to.
  const auto pointer = [base = base_](const ElfW(Dyn) & one) {
    return one.d_un.d_ptr < base ? one.d_un.d_ptr + base : one.d_un.d_ptr;
  };
  Initialiser* first = nullptr;
  std::size_t bytes = 0;
  for (const ElfW(Dyn)* one = entries; one->d_tag != DT_NULL; ++one) {
    if (one->d_tag == DT_STRTAB) names_ = reinterpret_cast<const char*>(pointer(*one));
    if (one->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym)*>(pointer(*one));
    if (one->d_tag == DT_GNU_HASH) gnu_hash_ = reinterpret_cast<const std::uint32_t*>(pointer(*one));
    if (one->d_tag == DT_HASH) hash_ = reinterpret_cast<const std::uint32_t*>(pointer(*one));
    if (one->d_tag == DT_INIT_ARRAY) first = reinterpret_cast<Initialiser*>(base_ + one->d_un.d_ptr);
    if (one->d_tag == DT_INIT_ARRAYSZ) bytes = one->d_un.d_val;
    if (one->d_tag == DT_FLAGS_1) wants_to_be_first = (one->d_un.d_val & DF_1_INITFIRST) != 0;
  }
  if (first != nullptr) initialisers = {first, bytes / sizeof(Initialiser)};
  for (const ElfW(Dyn)* one = entries; names_ != nullptr && one->d_tag != DT_NULL; ++one) {
    if (one->d_tag == DT_NEEDED) needed.emplace_back(names_ + one->d_un.d_val);
    if (one->d_tag == DT_SONAME) name = names_ + one->d_un.d_val;
  }
}

template <typename HasName>
bool DynamicSection::look_up(std::string_view wanted, HasName has_name) const noexcept {
  if (gnu_hash_ != nullptr) {
    // Buckets, the first symbol that they tell of, words of the filter, its shift; filter; buckets; hashes.
    std::uint32_t hash = 5381;
    for (const char letter : wanted) hash = hash * 33 + static_cast<unsigned char>(letter);
    const std::uint32_t buckets = gnu_hash_[0];
    const std::uint32_t first = gnu_hash_[1];
    const std::uint32_t* const bucket = gnu_hash_ + 4 + std::size_t{2} * gnu_hash_[2];
    const std::uint32_t* const hashes = bucket + buckets;
    if (buckets == 0) return false;
    std::uint32_t index = bucket[hash % buckets];
    if (index < first) return false;  // empty
    for (;; ++index) {
      const std::uint32_t found = hashes[index - first];
      if ((found | 1U) == (hash | 1U) && has_name(index)) return true;
      if ((found & 1U) != 0) return false;  // the bucket's last
    }
  }
  for (std::uint32_t index = 0; hash_ != nullptr && index < hash_[1]; ++index)
    if (has_name(index)) return true;
  return false;
}

FunctionSymbol DynamicSection::find_function(std::string_view wanted) const noexcept {
  FunctionSymbol found;
  if (symbols_ == nullptr || names_ == nullptr) return found;
  look_up(wanted, [&](std::uint32_t index) {
    const ElfW(Sym)& symbol = symbols_[index];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) return false;
    if (names_ + symbol.st_name != wanted) return false;
    found = {.address = base_ + symbol.st_value, .bytes = symbol.st_size};
    return true;
  });
  return found;
}

}  // namespace craton::posix
