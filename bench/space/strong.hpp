/// \file
/// What is measured of strong blocks; measure_strong() does all of it.
#pragma once

#include <string_view>

#include "frame/arguments.hpp"

namespace craton::bench {

/// Additions to words by all threads of all ranks.
void measure_counters(const Arguments& arguments, std::string_view transport);
/// Bytes of one page that all ranks write, with a store on a file behind it (vGASNet, figure 10).
void measure_store(const Arguments& arguments, std::string_view transport);

}  // namespace craton::bench
