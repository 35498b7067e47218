/// \file
/// All events of a job in the format of Chrome's traces (the "Trace Event Format", JSON), which
/// ui.perfetto.dev opens: a process a rank, a row a thread.
#pragma once

#include <string>

#include "observe/record.hpp"
#include "observe/symbols.hpp"

namespace craton::observe {

std::string trace_as_json(const Record& record, Symbols& symbols);

}  // namespace craton::observe
