/// \file
/// How a page table says that it cannot change what blocks allow: an Error, or inside a fault handler, where
/// nothing may be thrown or allocated, the end of the process with the same words.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "vm/fault_state.hpp"

namespace craton::vm {

[[noreturn]] inline void fail_access(ErrorCode code, std::string_view asked, std::string_view happened,
                                     std::string_view limit, std::string_view remedy) {
  if (!in_fault_handler()) {
    throw Error(code, {.asked = std::string(asked),
                       .happened = std::string(happened),
                       .limit = std::string(limit),
                       .remedy = std::string(remedy)});
  }
  char buffer[768];
  LineWriter line(buffer, sizeof buffer);
  for (const std::string_view part : {asked, std::string_view(": "), happened, std::string_view(" ("), limit,
                                      std::string_view("); "), remedy})
    line.append(part);
  refuse_fault(line.text());
}

}  // namespace craton::vm
