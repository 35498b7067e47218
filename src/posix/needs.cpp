#include "posix/needs.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace craton::posix {

namespace {

constexpr std::size_t usual_bytes = 8 * mebi;
constexpr std::size_t least_bytes = 256 * kibi;
/// Where there is no limit. Costs addresses only.
constexpr std::size_t unlimited_bytes = 4096 * mebi;
constexpr std::size_t threads_most = 512;

constexpr std::uint64_t tebi = std::uint64_t{mebi} * mebi;
/// Segments of the program's data lie elsewhere; this is for what lies between those that are made.
constexpr std::uint64_t between_bytes = std::uint64_t{1024} * mebi;
/// Of a rank by itself, at least: its streams, what watches the others, its own memory.
constexpr std::uint64_t own_files = 16;
/// That a program has without libraries of its own: two heaps, the stacks, the order of atomics on them, its
/// data.
constexpr std::uint64_t segments = 5;
constexpr std::uint64_t files_of_segments = 4 * segments - 2;  ///< stacks have two, the others four
/// What several ranks agree by, and what neighbours hand each other while the program starts.
constexpr std::uint64_t files_of_several = 3;
constexpr std::uint64_t files_of_neighbours = 1;

}  // namespace

StackSizes stack_sizes(std::size_t asked_bytes) {
  rlimit limit{};
  std::size_t first = usual_bytes;
  if (::getrlimit(RLIMIT_STACK, &limit) == 0)
    first = limit.rlim_cur == RLIM_INFINITY ? unlimited_bytes : static_cast<std::size_t>(limit.rlim_cur);
  const std::size_t others = asked_bytes != 0 ? asked_bytes : std::min(first, usual_bytes);
  return {.first_bytes = page_up(std::max(first, least_bytes)) + guard_bytes,
          .thread_bytes = page_up(std::max(others, least_bytes)) + guard_bytes,
          .threads = threads_most};
}

std::uint64_t SharedJob::space_bytes() const noexcept {
  return std::max(tebi, page_up(heap_bytes + ranks * stack_bytes + between_bytes));
}

std::uint64_t SharedJob::address_bytes() const noexcept {
  const std::uint64_t heap_files = 2 * heap_bytes;
  const std::uint64_t stack_files = ranks * stack_bytes;
  return space_bytes() + neighbours * (heap_files + stack_files) + stack_files;
}

std::uint64_t SharedJob::file_bytes() const noexcept {
  return std::max(heap_bytes, ranks * stack_bytes);
}

std::uint64_t SharedJob::open_files() const noexcept {
  const std::uint64_t others_here = neighbours - 1;
  // A socket and a wake-up each; a connection each.
  const std::uint64_t any = own_files + 2 * others_here + (ranks - neighbours);
  if (!shares_program) return any;
  return any + files_of_segments + segments * guard_files + (ranks > 1 ? files_of_several : 0) +
         (neighbours > 1 ? files_of_neighbours : 0);
}

}  // namespace craton::posix
