/// \file
/// The linker's version scripts, as text: see entry_points.cpp. Made from tools/craton/entry_points.in.cpp.
#include <string_view>

namespace craton::tools {

extern const std::string_view libgomp_map;
extern const std::string_view libgomp_absent_map;
extern const std::string_view libomp_map;
extern const std::string_view libomp_absent_map;

const std::string_view libgomp_map = R"map(@CRATON_LIBGOMP_MAP@)map";
const std::string_view libgomp_absent_map = R"map(@CRATON_LIBGOMP_ABSENT_MAP@)map";
const std::string_view libomp_map = R"map(@CRATON_LIBOMP_MAP@)map";
const std::string_view libomp_absent_map = R"map(@CRATON_LIBOMP_ABSENT_MAP@)map";

}  // namespace craton::tools
