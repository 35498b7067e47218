// The rival: the same constructs with libgomp's two threads. The kernel beside it runs this once a round.
#include <omp.h>

#include <cstdio>
#include <exception>

#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "omp/kernels.hpp"

int main(int argc, char** argv) {
  using namespace craton::bench;
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    static OmpShared shared;
    omp_shared = &shared;
    omp_set_num_threads(2);
    measure_constructs(arguments.turn_ns, [&](std::string_view what, const Sample& sample) {
      report_time({"omp", what, "libgomp", arguments.first_round}, sample);
    });
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "omp: %s\n", error.what());
    return 1;
  }
}
