#include "base/host.hpp"

#include <fstream>

namespace craton {

std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace craton
