/// \file
/// Text that programs, files and users have named, as JSON wants it.
#pragma once

#include <string>
#include <string_view>

namespace craton {

/// What may stand between quotation marks in JSON. Bytes that are no UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace craton
