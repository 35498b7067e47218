// The programs in kernels/ under all dials (dissertation, figures 3.22 and 3.23), what faults and bytes an
// iteration of them costs once it goes round, and what hot blocks and prefetching are worth.
#include <array>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "space/kernel_calls.hpp"
#include "space/kernels/kernels.h"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

struct Program {
  const char* name;
  kernel* run;
  int iterations;
};
constexpr Program programs[] = {{"conjugate gradient", &conjugate_gradient, 25},
                                {"stencil", &stencil, 15},
                                {"matrix product", &matrix_product, 3},
                                {"bucket sort", &bucket_sort, 6}};

struct Variant {
  const char* name;
  craton_home home;
  craton_invalidation invalidation;
  craton_release release;
  bool hot_blocks;
  bool prefetch;
  bool sole_copies = false;
  bool migration = false;
};
constexpr auto fixed = CRATON_HOME_FIXED;
constexpr auto floating = CRATON_HOME_FLOATING;
constexpr auto directory = CRATON_INVALIDATION_DIRECTORY;
constexpr auto leases = CRATON_INVALIDATION_LEASES;
constexpr auto plain = CRATON_RELEASE_PLAIN;
constexpr auto fast = CRATON_RELEASE_FAST;
// The first six without prefetching, sole copies and migration, as in the dissertation.
constexpr Variant variants[] = {{"fixed+directory", fixed, directory, plain, false, false},
                                {"fixed+leases", fixed, leases, plain, false, false},
                                {"floating+directory, plain", floating, directory, plain, false, false},
                                {"floating+directory, fast", floating, directory, fast, true, false},
                                {"floating+leases, plain", floating, leases, plain, false, false},
                                {"floating+leases, fast", floating, leases, fast, true, false},
                                {"all", floating, leases, fast, true, true, true, true},
                                {"all but migration", floating, leases, fast, true, true, true},
                                {"all but sole copies", floating, leases, fast, true, true},
                                {"all but hot blocks", floating, leases, fast, false, true}};
constexpr std::size_t notice_capacities[] = {0, 4, 16, 32, 64, 128, 256, 1024, 4096};

craton_segment_options options_of(const Variant& variant) {
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.home = variant.home;
  options.invalidation = variant.invalidation;
  options.release = variant.release;
  options.hot_blocks = variant.hot_blocks ? 1 : 0;
  options.prefetch = variant.prefetch ? 1 : 0;
  options.sole_copies = variant.sole_copies ? 1 : 0;
  options.migration = variant.migration ? 1 : 0;
  return options;
}

/// What the iterations that count have taken and done.
struct Spent {
  TimeNs ns = 0;
  std::uint64_t faults = 0;
  std::uint64_t probes = 0;  ///< faults that prefetching brought about, to see whether a block is still read
  std::uint64_t bytes = 0;
};

/// A rank's measuring between the marks.
class Meter {
 public:
  explicit Meter(SpaceRank& rank) : protocol_(rank.space.protocol()) {}
  const Spent& spent() const noexcept { return spent_; }
  kernel_marks marks() noexcept { return {.context = this, .begin = &Meter::begin, .end = &Meter::end}; }

 private:
  Spent now() const noexcept {
    using coherence::Counters;
    return {.ns = now_ns(),
            .faults = protocol_.count(&Counters::read_faults) + protocol_.count(&Counters::write_faults),
            .probes = protocol_.count(&Counters::prefetch_hits),
            .bytes = protocol_.count(&Counters::fetched_bytes) + protocol_.count(&Counters::put_bytes)};
  }
  static void begin(void* self) {
    auto& meter = *static_cast<Meter*>(self);
    meter.spent_ = meter.now();
  }
  static void end(void* self) {
    auto& meter = *static_cast<Meter*>(self);
    const Spent before = meter.spent_;
    const Spent after = meter.now();
    meter.spent_ = {.ns = after.ns - before.ns,
                    .faults = after.faults - before.faults,
                    .probes = after.probes - before.probes,
                    .bytes = after.bytes - before.bytes};
  }

  const coherence::LeaseRelease& protocol_;
  Spent spent_;
};

/// What the ranks have counted, added up.
struct Sums {
  std::atomic<std::uint64_t> faults;
  std::atomic<std::uint64_t> probes;
  std::atomic<std::uint64_t> bytes;
};

Spent run_once(SpaceRank& rank, const Program& program, const Variant& variant, Sums& sums,
               kernel_report& report) {
  const craton_segment_options options = options_of(variant);
  if (rank.rank() == 0) {
    sums.faults = 0;
    sums.probes = 0;
    sums.bytes = 0;
  }
  rank.barrier();
  Meter meter(rank);
  const kernel_marks marks = meter.marks();
  report = {};
  program.run(&options, program.iterations, &marks, &report);
  if (report.correct == 0)
    throw Error(ErrorCode::protocol,
                {std::string("cannot measure ") + program.name, "its result is wrong", variant.name, ""});
  Spent spent = meter.spent();
  sums.faults += spent.faults;
  sums.probes += spent.probes;
  sums.bytes += spent.bytes;
  rank.barrier();
  spent.faults = sums.faults;
  spent.probes = sums.probes;
  spent.bytes = sums.bytes;
  return spent;
}

void report_spent(const std::string& transport, const Program& program, const Variant& variant, int round,
                  const Spent& spent, const kernel_report& report) {
  const std::string name = transport + ": " + program.name;
  const double each_ns = static_cast<double>(spent.ns) / program.iterations;
  report_time({space_kernel, name, variant.name, round},
              {.operations = static_cast<std::uint64_t>(program.iterations),
               .mean_ns = each_ns,
               .p50_ns = each_ns,
               .p99_ns = each_ns});
  const auto count = [&](const char* what, const char* unit, const char* who, double value) {
    report_rate({space_kernel, name + ", " + what, who, round}, unit, value);
  };
  if (std::string_view(variant.name).starts_with("all")) {
    count("faults an iteration", "faults", variant.name,
          static_cast<double>(spent.faults) / program.iterations);
    count("faults an iteration but for probes", "faults", variant.name,
          static_cast<double>(spent.faults - spent.probes) / program.iterations);
  }
  if (variant.name != std::string_view("all")) return;
  count("bytes an iteration", "B", variant.name, static_cast<double>(spent.bytes) / program.iterations);
  count("bytes an iteration", "B", "messages by hand", report.exchanged_bytes);
}

}  // namespace

void measure_dials(const Arguments& arguments, std::string_view transport) {
  const Forked<Sums> sums;
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const Program& program : programs) {
      run_space(transport, 2, {}, [&](SpaceRank& rank) {
        const KernelCalls calls(rank);
        for (const Variant& variant : variants) {
          kernel_report report{};
          const Spent spent = run_once(rank, program, variant, *sums, report);
          if (rank.rank() == 0) report_spent(std::string(transport), program, variant, round, spent, report);
        }
      });
    }
  }
}

void measure_notices(const Arguments& arguments, std::string_view transport) {
  const Forked<Sums> sums;
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const std::size_t capacity : notice_capacities) {
      run_space(transport, 2, {.notice_capacity = capacity}, [&](SpaceRank& rank) {
        const KernelCalls calls(rank);
        for (const Variant& variant : variants) {
          const std::string_view name = variant.name;
          if (name != "all" && name != "floating+leases, fast") continue;
          kernel_report report{};
          const Spent spent = run_once(rank, programs[0], variant, *sums, report);
          if (rank.rank() != 0) continue;
          const double each_ns = static_cast<double>(spent.ns) / programs[0].iterations;
          report_time(
              {space_kernel, std::string(transport) + ": notices, at most " + std::to_string(capacity),
               variant.name, round},
              {.operations = static_cast<std::uint64_t>(programs[0].iterations),
               .mean_ns = each_ns,
               .p50_ns = each_ns,
               .p99_ns = each_ns});
        }
      });
    }
  }
}

}  // namespace craton::bench
