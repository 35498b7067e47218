#include "space/ranks.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "base/error.hpp"

namespace craton::bench {

ForkedMemory::ForkedMemory(std::size_t bytes) : bytes_(bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw Error::from_errno("cannot share memory between the ranks", errno);
  data_ = static_cast<std::byte*>(memory);
}

ForkedMemory::~ForkedMemory() {
  ::munmap(data_, bytes_);
}

void Steering::order(Order what, std::uint64_t argument) noexcept {
  what_.store(what, std::memory_order_relaxed);
  argument_.store(argument, std::memory_order_relaxed);
  orders_.publish(orders_.load() + 1);
}

void Steering::wait_until_done() noexcept {
  const std::uint32_t wanted = orders_.load();
  for (std::uint32_t done = done_.load(); done != wanted;) done = done_.wait_beyond(done);
}

Order Steering::next() noexcept {
  seen_ = orders_.wait_beyond(seen_);
  return what_.load(std::memory_order_relaxed);
}

void Steering::compute() const noexcept {
  std::uint64_t state = 1;
  while (released_.load() != seen_) {
    for (int i = 0; i < 1000; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      asm volatile("" : "+r"(state));
    }
  }
}

void Steering::sleep() noexcept {
  for (std::uint32_t released = released_.load(); released != seen_;)
    released = released_.wait_beyond(released);
}

void run_space(std::string_view transport, fabric::Rank size, const space::SpaceOptions& options,
               const std::function<void(SpaceRank&)>& body) {
  run_ranks(transport == "tcp" ? over_tcp() : over_shm(), size, [&](fabric::WiredFabric& fabric) {
    space::SpaceOptions own = options;
    own.first_region = 1;
    own.first_handler = fabric::first_free_handler;
    space::Space space(fabric, own);
    SpaceRank rank{.fabric = fabric, .space = space};
    body(rank);
    space.close();
  });
}

}  // namespace craton::bench
