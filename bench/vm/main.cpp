// A fault that is resolved on the spot, and changes of many blocks at once, beside a bare SIGSEGV handler
// that calls mprotect and beside mprotect itself.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "frame/arguments.hpp"
#include "frame/measure.hpp"
#include "frame/report.hpp"
#include "vm/vm.hpp"

namespace craton::bench {
namespace {

using vm::Access;

struct Variant {
  const char* name;
  bool is_bare;
  vm::Mechanism mechanism;
};
constexpr Variant variants[] = {{"bare", true, vm::Mechanism::mprotect},
                                {"userfaultfd", false, vm::Mechanism::userfaultfd},
                                {"mprotect", false, vm::Mechanism::mprotect}};

struct FaultCase {
  const char* name;
  Access from;
  bool write;
};
constexpr FaultCase fault_cases[] = {{"fault none to read", Access::none, false},
                                     {"fault none to write", Access::none, true},
                                     {"fault read to write", Access::read, true}};

std::vector<Variant> usable_variants() {
  std::vector<Variant> usable(std::begin(variants), std::end(variants));
  if (const vm::Mechanisms there = vm::probe(); !there.userfaultfd) {
    report_problem("userfaultfd", there.why_not);
    std::erase_if(usable, [](const Variant& each) { return each.mechanism == vm::Mechanism::userfaultfd; });
  }
  return usable;
}

std::unique_ptr<Protection> make(const Variant& variant, bool read_only) {
  auto protection = variant.is_bare ? make_bare(read_only) : make_craton(variant.mechanism);
  // Every page has been touched once: mprotect keeps the page table entries that this makes.
  const vm::Run all{.first = 0, .count = vm_blocks};
  protection->set_access({&all, 1}, Access::write);
  for (std::uint64_t block = 0; block < vm_blocks; ++block)
    static_cast<volatile std::byte*>(protection->view())[block * 4096] = std::byte{1};
  protection->set_access({&all, 1}, Access::none);
  return protection;
}

/// Repeats `prepare`, which is not timed, and `timed`, which does `operations`, until `turn_ns` have passed.
template <typename Prepare, typename Timed>
Sample measure(TimeNs turn_ns, std::uint64_t operations, Prepare&& prepare, Timed&& timed) {
  std::vector<double> times_ns;
  TimeNs all_ns = 0;
  const TimeNs until = now_ns() + turn_ns;
  prepare();
  timed();
  do {
    prepare();
    const TimeNs start = now_ns();
    timed();
    const TimeNs elapsed = now_ns() - start;
    all_ns += elapsed;
    times_ns.push_back(static_cast<double>(elapsed) / static_cast<double>(operations));
  } while (now_ns() < until);
  return summarise(times_ns, operations * times_ns.size(), all_ns);
}

void measure_faults(const Arguments& arguments, std::span<const Variant> usable, int round) {
  std::vector<std::uint64_t> order(vm_blocks);
  std::iota(order.begin(), order.end(), 0);
  const vm::Run all{.first = 0, .count = vm_blocks};
  for (const bool shuffled : {false, true}) {
    if (shuffled) std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
    for (const FaultCase& each : fault_cases) {
      const std::string what = std::string(each.name) + (shuffled ? ", any order" : ", in order");
      for (const Variant& variant : usable) {
        const auto protection = make(variant, !each.write);
        volatile std::byte* const view = protection->view();
        const Sample sample = measure(
            arguments.turn_ns, vm_blocks,
            [&] {
              protection->set_access({&all, 1}, Access::none);
              if (each.from != Access::none) protection->set_access({&all, 1}, each.from);
            },
            [&] {
              for (const std::uint64_t block : order) {
                if (each.write) {
                  view[block * 4096] = std::byte{2};
                } else {
                  static_cast<void>(view[block * 4096]);
                }
              }
            });
        report_time({"vm", what, variant.name, round}, sample);
      }
    }
  }
}

struct BulkCase {
  const char* name;
  Access from;
  Access to;
};
constexpr BulkCase bulk_cases[] = {{"none to read", Access::none, Access::read},
                                   {"none to write", Access::none, Access::write},
                                   {"read to write", Access::read, Access::write},
                                   {"write to read", Access::write, Access::read},
                                   {"write to none", Access::write, Access::none}};

void measure_bulk(const Arguments& arguments, std::span<const Variant> usable, int round) {
  std::vector<vm::Run> alternating;
  for (std::uint64_t block = 0; block < vm_blocks; block += 2)
    alternating.push_back({.first = block, .count = 1});
  const std::vector<vm::Run> one{{.first = 0, .count = 256}};
  const vm::Run all{.first = 0, .count = vm_blocks};
  for (const bool scattered : {false, true}) {
    const std::vector<vm::Run>& runs = scattered ? alternating : one;
    const std::uint64_t pages = scattered ? alternating.size() : one[0].count;
    for (const BulkCase& each : bulk_cases) {
      const std::string what =
          std::string(each.name) + (scattered ? ", every other of 1024" : ", run of 256");
      for (const Variant& variant : usable) {
        const auto protection = make(variant, false);
        const Sample sample = measure(
            arguments.turn_ns, pages,
            [&] {
              protection->set_access({&all, 1}, each.from);
            },
            [&] { protection->set_access(runs, each.to); });
        report_time({"vm", what, variant.name, round}, sample);
      }
    }
  }
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    const std::vector<Variant> usable = usable_variants();
    for (int round = arguments.first_round; round < arguments.first_round + arguments.rounds; ++round) {
      measure_faults(arguments, usable, round);
      measure_bulk(arguments, usable, round);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vm: %s\n", error.what());
    return 1;
  }
}
