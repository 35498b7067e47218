// One-sided operations between two ranks of a node, beside bare copies through the same mapping.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "base/error.hpp"
#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/target_control.hpp"
#include "frame/two_ranks.hpp"
#include "shm_rma/shm_rma.hpp"

namespace craton::bench {
namespace {

constexpr fabric::RegionId region = 1;
constexpr std::size_t region_bytes = std::size_t{1} << 20;

#define CASES(bytes) \
  {"get", bytes, craton_get<bytes>, bare_get<bytes>}, {"put", bytes, craton_put<bytes>, bare_put<bytes>},
constexpr CopyCase cases[] = {CRATON_COPY_SIZES(CASES){"fetch_add", 8, craton_fetch_add, bare_fetch_add}};
#undef CASES

/// A number that is wrong because nothing was copied would look very good.
void check_copies(const Copies& copies) {
  std::memset(copies.local, 0x5a, region_bytes);
  fabric::Completion completion;
  copies.fabric.put(copies.remote, copies.local, region_bytes, completion);
  if (copies.fabric.wait(completion) != fabric::Status::ok ||
      std::memcmp(copies.mapped, copies.local, region_bytes) != 0) {
    throw Error(ErrorCode::protocol,
                {"cannot measure shared memory", "a put did not reach the mapping", "", ""});
  }
}

void measure(const Arguments& arguments, fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  const fabric::RegionMemory local("bench-local", region_bytes);
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  const Copies copies{fabric, {1, region, 0}, fabric.direct(1, region), local.data()};
  if (copies.mapped == nullptr) {
    throw Error(ErrorCode::not_supported,
                {"cannot compare with a bare copy", "rank 1's memory is not mapped here", "", ""});
  }
  check_copies(copies);
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const CopyCase& each : cases) {
      const std::string what = std::string(each.operation) + " " + size_text(each.bytes);
      report_time({"shm_rma", what, "craton", round}, each.craton(copies, arguments.turn_ns));
      report_time({"shm_rma", what, "bare", round}, each.bare(copies, arguments.turn_ns));
    }
  }
  control.set_mode(TargetMode::quit);
  fabric.unregister_region(region);
}

void serve(fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  control.serve();
  fabric.unregister_region(region);
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    run_pair(
        over_shm(), [&arguments](auto& fabric) { measure(arguments, fabric); }, serve);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shm_rma: %s\n", error.what());
    return 1;
  }
  return 0;
}
