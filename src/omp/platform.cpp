#include "omp/platform.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace craton::omp {

void Platform::run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body) {
  space::Segment* const segment = space().find(address);
  if (segment == nullptr) return body(address);
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(address) - segment->data());
  if (space().exclusive().run_atomic(segment->blocks().id(), offset, [&] { body(address); })) return;
  throw Error(ErrorCode::not_supported,
              {.asked = fmt::format("cannot use {} bytes at {} atomically", bytes, address),
               .happened = "their block can not become strong",
               .limit = {},
               .remedy = {}});
}

}  // namespace craton::omp
