#include "base/elf_symbols.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace craton {

bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes) noexcept {
  return ::pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

ElfSymbols read_elf_symbols(int fd, std::initializer_list<Elf64_Word> types) {
  Elf64_Ehdr header{};
  struct stat file {};
  if (::fstat(fd, &file) != 0 || !read_at(fd, 0, &header, sizeof header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return {};
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_at(fd, header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr))) return {};
  auto table = sections.end();
  for (const Elf64_Word type : types) {
    if (table != sections.end()) break;
    table = std::find_if(sections.begin(), sections.end(),
                         [type](const Elf64_Shdr& section) { return section.sh_type == type; });
  }
  const auto fits = [&](std::uint64_t bytes) { return bytes <= static_cast<std::uint64_t>(file.st_size); };
  if (table == sections.end() || !fits(table->sh_size)) return {};
  ElfSymbols found;
  found.symbols.resize(table->sh_size / sizeof(Elf64_Sym));
  if (!read_at(fd, table->sh_offset, found.symbols.data(), found.symbols.size() * sizeof(Elf64_Sym)))
    return {};
  if (table->sh_link < sections.size() && fits(sections[table->sh_link].sh_size)) {
    found.names_at = sections[table->sh_link].sh_offset;
    found.names_bytes = sections[table->sh_link].sh_size;
  }
  return found;
}

std::string read_names(int fd, const ElfSymbols& symbols) {
  std::string names(symbols.names_bytes, '\0');
  if (!read_at(fd, symbols.names_at, names.data(), names.size())) return {};
  return names;
}

}  // namespace craton
