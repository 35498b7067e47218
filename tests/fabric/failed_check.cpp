// What a failed check leaves behind. Apart from the cases, so that tests of other rooms can start ranks the
// same way.
#include <cstdio>
#include <stdexcept>
#include <string>

#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {
char failed_check[512] = "";
}

void check_failed(const char* file, int line, const std::string& what) {
  const std::string text = std::string(file) + ":" + std::to_string(line) + ": " + what;
  std::snprintf(failed_check, sizeof failed_check, "%s\n", text.c_str());
  throw std::runtime_error(text);
}

const char* last_failed_check() noexcept {
  return failed_check;
}

void forget_failed_check() noexcept {
  failed_check[0] = '\0';
}

}  // namespace craton::fabric::conformance
