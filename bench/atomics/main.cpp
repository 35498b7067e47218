// An atomic instruction that has been sent to software, beside the same instruction as the compiler made it:
// on private memory, in a block that is ours alone, and on shared memory with a hook that does it at once.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "frame/arguments.hpp"
#include "frame/measure.hpp"
#include "frame/report.hpp"
#include "operations.h"
#include "posix/atomics/patch.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr unsigned page_shift = 12;

/// A page of each kind; all but the first are shared.
struct alignas(page_bytes) Page {
  unsigned long word = 0;
};
Page private_page;
struct {
  Page hooked;
  Page native;
} shared_pages;
constexpr std::array<std::uint8_t, 3> native_blocks = {0, 1, 0};

void do_at_once(void* address, std::size_t /*bytes*/, posix::Perform perform, void* state) {
  perform(state, address);
}
void do_nothing() {}

void* load(const std::string& name) {
  void* const handle = ::dlopen((CRATON_BENCH_ATOMICS_FOLDER + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(::dlerror());
  return handle;
}

operation_loop* find(void* handle, const char* name) {
  auto* const found = reinterpret_cast<operation_loop*>(::dlsym(handle, name));
  if (found == nullptr) throw std::runtime_error(::dlerror());
  return found;
}

void patch(void* handle) {
  const auto begin = reinterpret_cast<std::uintptr_t>(&shared_pages);
  const posix::SharedRange range{.begin = begin,
                                 .end = begin + sizeof shared_pages,
                                 .native_blocks = native_blocks.data(),
                                 .block_shift = page_shift};
  const auto map = posix::code_map_at(reinterpret_cast<const void*>(find(handle, "bench_add")));
  const posix::PatchReport report =
      posix::patch(map.value(), {.ranges = {range}, .hooks = {do_at_once, do_nothing, nullptr}});
  if (report.traps.size() != 1 || report.jumps < 5)
    throw std::runtime_error("the loops were not patched as meant");
}

struct Case {
  const char* what;
  const char* loop;
  long times;
};
constexpr std::array cases = {
    Case{"lock add", "bench_add", 10'000}, Case{"lock xadd", "bench_fetch_add", 10'000},
    Case{"xchg", "bench_exchange", 10'000}, Case{"load, lock cmpxchg", "bench_compare_exchange", 10'000},
    Case{"lock inc, by a trap", "bench_increment_trapped", 300}};

void measure(const Arguments& arguments, void* native, void* patched, int round) {
  const auto time = [&](const Case& each, const char* variant, void* handle, unsigned long* word) {
    operation_loop* const loop = find(handle, each.loop);
    loop(word, each.times);
    report_time({"atomics", each.what, variant, round},
                time_runs(arguments.turn_ns, static_cast<std::uint64_t>(each.times),
                          [&] { loop(word, each.times); }));
  };
  for (const Case& each : cases) {
    time(each, "bare", native, &private_page.word);
    time(each, "private", patched, &private_page.word);
    time(each, "block is ours", patched, &shared_pages.native.word);
    time(each, "hook", patched, &shared_pages.hooked.word);
  }
  const Case fence{"fence", "bench_fence", 10'000};
  time(fence, "bare", native, &private_page.word);
  time(fence, "hook", patched, &private_page.word);
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    void* const native = load("/operations_native.so");
    void* const patched = load("/operations_patched.so");
    patch(patched);
    for (int round = arguments.first_round; round < arguments.first_round + arguments.rounds; ++round)
      measure(arguments, native, patched, round);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "atomics: %s\n", error.what());
    return 1;
  }
}
