/// \file
/// What of libgomp 12's interface `craton run` has: `craton info --entry-points`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace craton::tools {

struct EntryPoint {
  std::string_view node;  ///< version, as in "GOMP_4.5"
  std::string_view name;
  bool is_there;
  std::string_view note;  ///< why it is not there, or does less than in libgomp; empty: nothing to say
};

/// All that libgomp of GCC 12 exports, by its version nodes in their order.
std::vector<EntryPoint> entry_points();
/// A line each: node, name, yes or no, note; and how many are there.
std::string entry_points_as_text();

}  // namespace craton::tools
