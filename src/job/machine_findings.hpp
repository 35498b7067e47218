/// \file
/// What a machine's facts mean for Craton. Pure functions of the facts, so that every judgement is tested
/// with facts of machines that we do not have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/machine.hpp"

namespace craton::job {

enum class Severity : std::uint8_t {
  ok,
  warning,  ///< Craton works, but slower or only for smaller jobs
  problem,  ///< something of Craton cannot work here
};

/// One checked thing. `cause`, `meaning` and `remedy` are empty where all is well.
struct Finding {
  std::string name;  ///< "userfaultfd"
  Severity severity = Severity::ok;
  std::string seen;          ///< "64 KiB soft, 64 KiB hard"
  std::string cause = {};    ///< what makes it so, by the name of the file or setting
  std::string meaning = {};  ///< what it means for Craton
  std::string remedy = {};   ///< what to do; a command where there is one
};

/// "ok", "warning", "problem".
const char* name_of(Severity severity) noexcept;

/// All findings, in the order in which they are shown. Always the same names, whatever the facts.
std::vector<Finding> judge(const MachineFacts& facts);

/// "64 KiB", "1.5 GiB", "unlimited".
std::string bytes_in_words(std::uint64_t bytes);

}  // namespace craton::job
