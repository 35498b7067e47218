/// \file
/// Names of code and data, from the symbol tables and debug information of the files that they came from:
/// what addr2line and nm of GNU binutils say of them. Where a file or a tool is missing, an address is named
/// by its module and offset.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "observe/record.hpp"

namespace craton::observe {

/// Where code is.
struct CodePlace {
  std::string function;  ///< the outermost, where one was inlined into another; "" if unknown
  std::string line;      ///< "file:line", of the program's own where that is known; else "module+0x12"
};

struct Variable {
  std::uint64_t begin;  ///< in the process
  std::uint64_t bytes;
  std::string name;
  std::string line;  ///< where it is declared; "" if unknown
};

class Symbols {
 public:
  explicit Symbols(std::vector<Module> modules) : modules_(std::move(modules)) {}

  /// Looks all of them up at once, since a tool that reads debug information is slow to start.
  void learn_code(const std::vector<std::uint64_t>& addresses);
  /// Of an address that was learnt.
  CodePlace code(std::uint64_t address) const;
  /// What a person wants to read: "main (cg.c:88)", or "outside" for 0.
  std::string region(std::uint64_t function) const;
  /// Null: it is in none that is known.
  const Variable* variable(std::uint64_t address);

 private:
  const Module* module_of(std::uint64_t address) const noexcept;
  const std::vector<Variable>& variables_of(const Module& module);

  std::vector<Module> modules_;
  std::map<std::uint64_t, CodePlace> code_;
  std::map<std::string, std::vector<Variable>> variables_;  ///< by path, sorted
};

}  // namespace craton::observe
