#include "vm/map_budget.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "base/unique_fd.hpp"

namespace craton::vm {

std::int64_t MapBudget::kernel_limit_here() noexcept {
  constexpr std::int64_t kernel_default = 65'530;
  const UniqueFd file(::open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC));
  char text[32];
  const ssize_t length = file ? ::read(file.get(), text, sizeof text) : -1;
  std::int64_t limit = 0;
  if (length <= 0 || std::from_chars(text, text + length, limit).ec != std::errc() || limit <= 0)
    return kernel_default;
  return limit;
}

}  // namespace craton::vm
