#include "posix/large_variables.hpp"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>
#include <cstddef>

#include "base/elf_symbols.hpp"
#include "base/unique_fd.hpp"

namespace craton::posix {

namespace {

/// What lies between two arrays that follow each other, for their alignment.
constexpr std::uintptr_t padding_most = 64;

}  // namespace

std::vector<AddressSpan> find_large_variables(const std::string& path, std::uintptr_t base) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  std::vector<AddressSpan> found;
  // Of the table with all symbols where there is one, else of that for the loader.
  const ElfSymbols table = read_elf_symbols(file.get(), {SHT_SYMTAB, SHT_DYNSYM});
  for (const Elf64_Sym& symbol : table.symbols) {
    const bool is_variable = ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx != SHN_UNDEF;
    if (!is_variable || symbol.st_size < large_variable_bytes) continue;
    found.push_back({.begin = base + symbol.st_value, .end = base + symbol.st_value + symbol.st_size});
  }
  std::sort(found.begin(), found.end(),
            [](const AddressSpan& a, const AddressSpan& b) { return a.begin < b.begin; });
  std::vector<AddressSpan> spans;
  for (const AddressSpan& each : found) {
    if (!spans.empty() && each.begin <= spans.back().end + padding_most) {
      spans.back().end = std::max(spans.back().end, each.end);
    } else {
      spans.push_back(each);
    }
  }
  return spans;
}

std::vector<DataPart> divide_data(const AddressSpan& data, const std::vector<AddressSpan>& large_variables,
                                  std::size_t block_bytes) {
  const auto down = [block_bytes](std::uintptr_t address) { return address / block_bytes * block_bytes; };
  std::vector<DataPart> parts;
  std::uintptr_t next = data.begin;
  for (const AddressSpan& variables : large_variables) {
    const AddressSpan whole{.begin = down(std::max(variables.begin, next) + block_bytes - 1),
                            .end = down(std::min(variables.end, data.end))};
    if (whole.begin >= whole.end) continue;
    if (whole.begin > next) parts.push_back({.span = {next, whole.begin}, .is_large = false});
    parts.push_back({.span = whole, .is_large = true});
    next = whole.end;
  }
  if (next < data.end) parts.push_back({.span = {next, data.end}, .is_large = false});
  return parts;
}

}  // namespace craton::posix
