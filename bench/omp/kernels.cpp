#include "omp/kernels.hpp"

#include <omp.h>

namespace craton::bench {

OmpShared* omp_shared = nullptr;

namespace {

/// Of one construct: how often it is run within a region, at most.
constexpr std::uint64_t batch = 1000;

void take_time(int steps) {
  for (volatile int i = 0; i < steps;) i = i + 1;
}

// None of these captures anything: stacks are not shared here.

void regions(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
#pragma omp parallel
    touch_memory(omp_shared);
  }
}

void barriers(std::uint64_t count) {
  omp_shared->count = count;
#pragma omp parallel
  for (std::uint64_t i = 0, last = omp_shared->count; i < last; ++i) {
#pragma omp barrier
  }
}

void singles(std::uint64_t count) {
  omp_shared->count = count;
#pragma omp parallel
  for (std::uint64_t i = 0, last = omp_shared->count; i < last; ++i) {
#pragma omp single
    touch_memory(omp_shared);
  }
}

void chunks(std::uint64_t count) {
  omp_shared->count = count;
#pragma omp parallel
  {
    const std::uint64_t last = omp_shared->count;
#pragma omp for schedule(dynamic)
    for (std::uint64_t i = 0; i < last; ++i) touch_memory(omp_shared);
  }
}

void criticals(std::uint64_t count) {
  omp_shared->count = count;
#pragma omp parallel
  for (std::uint64_t i = 0, last = omp_shared->count; i < last; ++i) {
#pragma omp critical
    touch_memory(omp_shared);
  }
}

void tasks(std::uint64_t count) {
  omp_shared->count = count;
#pragma omp parallel
#pragma omp single
  for (std::uint64_t i = 0, last = omp_shared->count; i < last; ++i) {
#pragma omp task
    touch_memory(omp_shared);
  }
}

/// About 20 us each: long enough to be worth another rank's time.
void long_tasks(std::uint64_t count) {
  omp_shared->count = count;
#pragma omp parallel
#pragma omp single
  for (std::uint64_t i = 0, last = omp_shared->count; i < last; ++i) {
#pragma omp task
    take_time(20000);
  }
}

struct Construct {
  std::string_view what;
  void (*run)(std::uint64_t count);
  std::uint64_t count;
};
constexpr Construct constructs[] = {{"empty region", &regions, batch},
                                    {"barrier", &barriers, batch},
                                    {"single", &singles, batch},
                                    {"dynamic chunk", &chunks, 100 * batch},
                                    {"critical, contended", &criticals, batch},
                                    {"task", &tasks, 10 * batch},
                                    {"task of 20 us", &long_tasks, batch / 5}};

}  // namespace

void measure_constructs(TimeNs turn_ns,
                        FunctionRef<void(std::string_view what, const Sample& sample)> report) {
  for (const Construct& construct : constructs) {
    construct.run(construct.count);
    report(construct.what,
           time_runs(turn_ns, construct.count, [&construct] { construct.run(construct.count); }));
  }
}

}  // namespace craton::bench
