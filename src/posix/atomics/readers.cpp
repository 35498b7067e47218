#include "posix/atomics/readers.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace craton::posix {

void read_in_blocks(std::size_t count, std::size_t block, unsigned threads,
                    FunctionRef<void(std::size_t first, std::size_t last)> body) {
  std::atomic<std::size_t> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  const auto read = [&]() noexcept {
    for (std::size_t first = 0; (first = next.fetch_add(block)) < count;) {
      try {
        body(first, std::min(first + block, count));
      } catch (...) {
        const std::scoped_lock lock(failing);
        if (failure == nullptr) failure = std::current_exception();
        next.store(count);
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (unsigned i = 1; i < threads && i * block < count; ++i) others.emplace_back(read);
    } catch (const std::system_error&) {
      // There is no room for more: those that are there do it.
    }
    read();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace craton::posix
