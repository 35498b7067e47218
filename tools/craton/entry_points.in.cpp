/// \file
/// The linker's version scripts, as text: see entry_points.cpp. Made from tools/craton/entry_points.in.cpp.
#include <string_view>

namespace craton::tools {

extern const std::string_view exported_map;
extern const std::string_view absent_map;

const std::string_view exported_map = R"map(@CRATON_EXPORTED_MAP@)map";
const std::string_view absent_map = R"map(@CRATON_ABSENT_MAP@)map";

}  // namespace craton::tools
