/// \file
/// Raw results: one JSON object a line on standard output, one line a turn. scripts/bench does all
/// arithmetic.
#pragma once

#include <string>
#include <string_view>

#include "frame/measure.hpp"

namespace craton::bench {

/// Names one turn. The texts are ours and hold nothing that JSON would escape.
struct Turn {
  std::string_view kernel;   ///< the folder
  std::string_view what;     ///< what is measured, the same text for every variant: "get 8 B"
  std::string_view variant;  ///< who is measured: "craton", "bare", ...
  int round;
};

/// The time of an operation. \throws Error system if the line cannot be written
void report_time(const Turn& turn, const Sample& sample);

/// A rate. \param unit "GB/s" or "messages/s" \throws Error system if the line cannot be written
void report_rate(const Turn& turn, std::string_view unit, double value);

/// A rival that the kernel was built with. \throws Error system if the line cannot be written
void report_rival(std::string_view rival, std::string_view version);

/// A rival that could not be measured. \param why one line \throws Error system if the line cannot be written
void report_problem(std::string_view rival, std::string_view why);

/// "8 B", "4 KiB", "1 MiB".
std::string size_text(std::size_t bytes);

}  // namespace craton::bench
