/// \file
/// What of libgomp 12's and libomp 14's interfaces `craton run` has: `craton info --entry-points`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace craton::tools {

struct EntryPoint {
  std::string_view node;  ///< version, as in "GOMP_4.5"
  std::string_view name;
  bool is_there;
  std::string_view
      note;  ///< why it is not there, or does less than in the compiler's runtime; empty: nothing to say
};

/// All that libgomp of GCC 12 exports, by its version nodes in their order; then what libomp of LLVM 14
/// exports, and clang 15 and 16 call beyond that, in its node VERSION.
std::vector<EntryPoint> entry_points();
/// A line each: node, name, yes or no, note; and how many are there.
std::string entry_points_as_text();

}  // namespace craton::tools
