#include "posix/atomics/code_map.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "posix/atomics/unwind_table.hpp"

namespace craton::posix {
namespace {

int protection_of(const ElfW(Phdr) & header) noexcept {
  int protection = 0;
  if ((header.p_flags & PF_R) != 0) protection |= PROT_READ;
  if ((header.p_flags & PF_W) != 0) protection |= PROT_WRITE;
  if ((header.p_flags & PF_X) != 0) protection |= PROT_EXEC;
  return protection;
}

/// Sorted, and where two overlap the second begins at the end of the first.
void make_disjoint(std::vector<AddressRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const AddressRange& left, const AddressRange& right) {
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  std::uintptr_t end = 0;
  for (AddressRange& range : ranges) {
    range.begin = std::max(range.begin, end);
    end = std::max(end, range.end);
  }
  std::erase_if(ranges, [](const AddressRange& range) { return range.begin >= range.end; });
}

}  // namespace

const AddressRange* CodeMap::function_at(std::uintptr_t address) const noexcept {
  const auto after =
      std::upper_bound(functions.begin(), functions.end(), address,
                       [](std::uintptr_t value, const AddressRange& range) { return value < range.begin; });
  if (after == functions.begin()) return nullptr;
  const AddressRange& found = *std::prev(after);
  return found.holds(address) ? &found : nullptr;
}

CodeMap code_map_of(const dl_phdr_info& object) {
  CodeMap map;
  map.name = object.dlpi_name != nullptr && *object.dlpi_name != '\0' ? object.dlpi_name : "the program";
  map.image = {UINTPTR_MAX, 0};
  AddressRange unwind_header;
  for (std::size_t i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    const std::uintptr_t begin = object.dlpi_addr + header.p_vaddr;
    const AddressRange range{begin, begin + header.p_memsz};
    if (header.p_type == PT_GNU_EH_FRAME) unwind_header = range;
    if (header.p_type != PT_LOAD) continue;
    map.image = {std::min(map.image.begin, range.begin), std::max(map.image.end, range.end)};
    const int protection = protection_of(header);
    if ((protection & PROT_READ) != 0) map.data.push_back({begin, begin + header.p_filesz});
    // The file begins with headers and tables.
    if ((protection & PROT_EXEC) != 0) map.code.push_back({range, protection, header.p_offset == 0});
  }
  if (map.code.empty()) return map;
  if (unwind_header.begin == 0) {
    map.problem = "it has no .eh_frame_hdr";
    return map;
  }
  UnwindTable table = read_unwind_table(unwind_header, map.image);
  map.problem = std::move(table.problem);
  map.landing_pads = std::move(table.landing_pads);
  for (const AddressRange& function : table.functions) {
    const bool is_code = std::any_of(map.code.begin(), map.code.end(), [&](const AddressRange& segment) {
      return segment.begin <= function.begin && function.end <= segment.end;
    });
    if (is_code) map.functions.push_back(function);
  }
  make_disjoint(map.functions);
  return map;
}

std::optional<CodeMap> code_map_at(const void* address) {
  struct Search {
    std::uintptr_t address;
    std::optional<CodeMap> found;
  } search{reinterpret_cast<std::uintptr_t>(address), {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t /*bytes*/, void* context) {
        auto& wanted = *static_cast<Search*>(context);
        for (std::size_t i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = object->dlpi_phdr[i];
          if (header.p_type != PT_LOAD) continue;
          if (wanted.address - object->dlpi_addr - header.p_vaddr >= header.p_memsz) continue;
          wanted.found = code_map_of(*object);
          return 1;
        }
        return 0;
      },
      &search);
  return std::move(search.found);
}

}  // namespace craton::posix
