/// \file
/// What a fault costs that is resolved on the spot, and what it costs to change many blocks: through page
/// tables of Craton, and by a bare handler of SIGSEGV that calls mprotect. All over the same memfd, in one
/// process, in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "vm/mechanism.hpp"
#include "vm/page_table.hpp"
#include "vm/segment_memory.hpp"

namespace craton::bench {

inline constexpr std::uint64_t vm_blocks = 1024;  ///< of a page each

/// One way to keep states of pages. While one exists it has the signals and the application view to itself.
class Protection {
 public:
  Protection() = default;
  Protection(const Protection&) = delete;
  Protection& operator=(const Protection&) = delete;
  virtual ~Protection() = default;
  virtual std::byte* view() const noexcept = 0;
  virtual void set_access(std::span<const vm::Run> runs, vm::Access access) = 0;
};

/// A page table, and a FaultHandler that allows what was asked for.
std::unique_ptr<Protection> make_craton(vm::Mechanism mechanism);
/// A handler of SIGSEGV that makes the page writable, or readable where `read_only`, and nothing else.
std::unique_ptr<Protection> make_bare(bool read_only);

}  // namespace craton::bench
