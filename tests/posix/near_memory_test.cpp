/// \file
/// Memory near an object's code, where the kernel has put something else below all objects: in children of
/// this process, since what is skipped stays so.
#include "posix/atomics/near_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/function_ref.hpp"
#include "posix/atomics/code_map.hpp"
#include "posix/pages.hpp"
#include "vm/skipped_addresses.hpp"

namespace craton::posix {
namespace {

constexpr std::uintptr_t reach = std::uintptr_t{1} << 31U;

bool works_in_a_child(FunctionRef<bool()> body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

std::uintptr_t map(std::size_t bytes) {
  void* const got = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(got);
}

/// \returns whether the memory is there, and near
bool is_near(const AddressRange& image, std::uintptr_t begin, std::size_t bytes) {
  std::memset(reinterpret_cast<void*>(begin), 1, bytes);
  return begin + bytes <= image.begin ? image.end - begin < reach
                                      : begin >= image.end && begin + bytes - image.begin < reach;
}

TEST(NearMemory, IsWhatIsSkippedBelowManyObjects) {
  EXPECT_TRUE(works_in_a_child([] {
    // The last of many objects, and below them all what a rank maps for itself.
    const std::uintptr_t others = map(500 * mebi);
    const AddressRange image{.begin = others + 499 * mebi, .end = others + 500 * mebi};
    vm::skip_addresses(1024 * mebi);
    if (others == 0 || map(32 * reach) == 0) return false;
    std::uintptr_t before = others;
    for (const std::size_t bytes : {mebi + 1, 300 * mebi, std::size_t{5}, 400 * mebi}) {
      const std::uintptr_t got = map_near(image, bytes);
      if (!is_near(image, got, bytes) || got + bytes > before) return false;
      before = got;
    }
    return true;
  }));
}

TEST(NearMemory, IsFoundWhereNothingIsSkipped) {
  const std::optional<CodeMap> library = code_map_at(reinterpret_cast<const void*>(&std::rand));
  ASSERT_TRUE(library.has_value());
  const AddressRange image = library->image;
  EXPECT_TRUE(works_in_a_child([&] { return is_near(image, map_near(image, mebi), mebi); }));
}

}  // namespace
}  // namespace craton::posix
