/// \file
/// The symbols of an ELF file, read from the file itself: of this machine's kind, with its sections.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace craton {

struct ElfSymbols {
  std::vector<Elf64_Sym> symbols;
  std::uint64_t names_at = 0;  ///< in the file: see read_names()
  std::uint64_t names_bytes = 0;
};

/// \returns whether all bytes were there
bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes) noexcept;

/// Those of the first of these types of sections (SHT_) that the file has; none where it has no such section,
/// or is no ELF file of 64 bits, or broken.
ElfSymbols read_elf_symbols(int fd, std::initializer_list<Elf64_Word> types);

/// What `st_name` of the symbols counts from; empty where it cannot be read.
std::string read_names(int fd, const ElfSymbols& symbols);

}  // namespace craton
