/// \file
/// Which host this is.
#pragma once

#include <string>

namespace craton {

/// The same in all processes of a host, in its containers as well, until it starts anew; no other host has
/// it. Empty without /proc.
std::string boot_id();

}  // namespace craton
