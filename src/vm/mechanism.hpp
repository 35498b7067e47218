/// \file
/// Which mechanisms this machine and user allow, and page tables by them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "vm/map_budget.hpp"
#include "vm/segment_memory.hpp"
#include "vm/userfaultfd_page_table.hpp"
#include "vm/view_page_table.hpp"

namespace craton::vm {

enum class Mechanism : std::uint8_t { userfaultfd, mprotect };

std::string_view name_of(Mechanism mechanism) noexcept;

/// What was tried out and worked. mprotect always does.
struct Mechanisms {
  bool userfaultfd = false;
  UserfaultfdAbilities abilities;
  std::string
      why_not;  ///< what userfaultfd failed at: "userfaultfd(2): Operation not permitted"; empty if it works
};

/// Takes some 100 us. Does not throw: what cannot be tried does not work.
Mechanisms probe();

/// \param wanted "auto" takes userfaultfd where it works; or the name of one
/// \throws Error not_supported where it does not work here, invalid_argument for another word
Mechanism choose_mechanism(std::string_view wanted, const Mechanisms& there);

/// \param mechanism that works \param there what probe() found, or fewer abilities
/// \param budget used by mprotect only; outlives the page table, as `memory` does
/// \throws Error
std::unique_ptr<ViewPageTable> make_page_table(Mechanism mechanism, const Mechanisms& there,
                                               const SegmentMemory& memory, MapBudget& budget);

}  // namespace craton::vm
