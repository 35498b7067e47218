// What the timed simulator predicts, beside what is measured where that can be (2 ranks; 4, which on two CPUs
// take turns), and then for as many ranks as no machine here has. The fit of a round serves the predictions
// of that round; the median fit serves the large ones, which are made once. `--ranks=N`: no more ranks than
// that.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "frame/report.hpp"
#include "predict/predict.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

/// The parameters with which the authors of ATLAHS replay traces (https://github.com/spcl/atlahs,
/// demo/hpc/03_run_loggopsim.sh, commit 80daee1: -L 3700 -o 200 -g 5 -G 0.04). Its latency is between
/// programs on different nodes of a large machine; two machines at one switch have less.
constexpr fabric::sim::LogGP published_rdma{.latency_ns = 3700,
                                            .overhead_ns = 200,
                                            .gap_ns = 5,
                                            .gap_ns_per_byte = 0.04,
                                            .one_sided = fabric::sim::OneSided::target_nic};
constexpr fabric::Rank fat_node = 32;

struct Fit {
  LocalFit local;
  fabric::sim::LogGP shm;
  fabric::sim::LogGP tcp;
};

std::vector<Machine> machines_of(const Fit& fit) {
  const auto machine = [&](const char* name, const fabric::sim::LogGP& network, fabric::Rank ranks_per_node) {
    return Machine{.name = name,
                   .timing = {.network = network, .neighbours = fit.shm, .local = fit.local.times},
                   .cell_ns = fit.local.cell_ns,
                   .ranks_per_node = ranks_per_node};
  };
  fabric::sim::LogGP rdma = published_rdma;
  rdma.wake_ns = fit.tcp.wake_ns;  // which is the operating system's
  return {machine("shm", {}, fabric::max_ranks), machine("tcp", fit.tcp, 1), machine("rdma", rdma, 1),
          machine("rdma, 32 ranks a node", rdma, fat_node)};
}

/// The middle one of each parameter.
Fit median_of(const std::vector<Fit>& fits) {
  Fit result = fits.front();
  const auto take = [&](auto member) {
    std::vector<double> values;
    for (Fit each : fits) values.push_back(static_cast<double>(member(each)));
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    using Value = std::remove_reference_t<decltype(member(result))>;
    member(result) = static_cast<Value>(values[values.size() / 2]);
  };
  for (fabric::sim::LogGP Fit::*link : {&Fit::shm, &Fit::tcp}) {
    take([link](Fit& fit) -> TimeNs& { return (fit.*link).latency_ns; });
    take([link](Fit& fit) -> TimeNs& { return (fit.*link).overhead_ns; });
    take([link](Fit& fit) -> TimeNs& { return (fit.*link).gap_ns; });
    take([link](Fit& fit) -> double& { return (fit.*link).gap_ns_per_byte; });
    take([link](Fit& fit) -> TimeNs& { return (fit.*link).access_ns; });
    take([link](Fit& fit) -> TimeNs& { return (fit.*link).wake_ns; });
  }
  take([](Fit& fit) -> TimeNs& { return fit.local.times.fault_ns; });
  take([](Fit& fit) -> TimeNs& { return fit.local.times.protect_ns; });
  take([](Fit& fit) -> double& { return fit.local.times.copy_ns_per_byte; });
  take([](Fit& fit) -> double& { return fit.local.cell_ns; });
  return result;
}

void report_parameter(const std::string& whose, const char* what, const char* unit, double value, int round) {
  report_rate({predict_kernel, whose + ": parameter " + what, "fitted", round}, unit, value);
}

void report_link(const std::string& name, const fabric::sim::LogGP& link, int round) {
  report_parameter(name, "L", "ns", static_cast<double>(link.latency_ns), round);
  report_parameter(name, "o", "ns", static_cast<double>(link.overhead_ns), round);
  report_parameter(name, "g", "ns", static_cast<double>(link.gap_ns), round);
  report_parameter(name, "G", "ns/B", link.gap_ns_per_byte, round);
  report_parameter(name, "wake", "ns", static_cast<double>(link.wake_ns), round);
  if (link.access_ns != 0) report_parameter(name, "access", "ns", static_cast<double>(link.access_ns), round);
}

Fit fit_and_report(TimeNs turn_ns, int round) {
  const Fit fit{
      .local = fit_local(turn_ns), .shm = fit_link("shm", turn_ns), .tcp = fit_link("tcp", turn_ns)};
  report_link("shm", fit.shm, round);
  report_link("tcp", fit.tcp, round);
  report_parameter("local", "fault", "ns", static_cast<double>(fit.local.times.fault_ns), round);
  report_parameter("local", "protect", "ns", static_cast<double>(fit.local.times.protect_ns), round);
  report_parameter("local", "copy", "ns/B", fit.local.times.copy_ns_per_byte, round);
  report_parameter("local", "cell", "ns", fit.local.cell_ns, round);
  return fit;
}

void validate(const Fit& fit, TimeNs turn_ns, int round) {
  const std::vector<Machine> machines = machines_of(fit);
  for (const Machine* const machine : {&machines[0], &machines[1]}) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{65536}}) {
      const std::string what = machine->name + ": get " + size_text(bytes);
      const double predicted_ns = static_cast<double>(predict_get(*machine, bytes));
      report_time({predict_kernel, what, "predicted", round},
                  {.operations = 1, .mean_ns = predicted_ns, .p50_ns = predicted_ns, .p99_ns = predicted_ns});
      report_time({predict_kernel, what, "measured", round}, measure_get(machine->name, bytes, turn_ns));
    }
    for (const Kernel& kernel : kernels()) {
      for (const fabric::Rank size : {2U, 4U}) {
        const std::string what = machine->name + ": " + kernel.name + ", " + std::to_string(size) + " ranks";
        report_time({predict_kernel, what, "predicted", round}, predict(kernel, *machine, size).sample);
        report_time({predict_kernel, what, "measured", round}, measure(kernel, machine->name, size));
      }
    }
  }
}

/// A rank has some ten regions, each with a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));  // what it was too low for says so
}

void scale(const Fit& fit, fabric::Rank ranks_at_most) {
  for (const Machine& machine : machines_of(fit)) {
    for (const Kernel& kernel : kernels()) {
      for (fabric::Rank size = 2; size <= std::min(ranks_at_most, kernel.ranks_at_most); size *= 2) {
        const Prediction prediction = predict(kernel, machine, size);
        const std::string what = machine.name + ": " + kernel.name + ", " + std::to_string(size) + " ranks";
        report_time({predict_kernel, what, "scaled", 0}, prediction.sample);
        report_rate({predict_kernel, what + ", simulating", "scaled", 0}, "s",
                    static_cast<double>(prediction.wall_ns) / 1e9);
        report_rate({predict_kernel, what + ", events", "scaled", 0}, "events",
                    static_cast<double>(prediction.events));
      }
    }
  }
}

void run(const Arguments& arguments, fabric::Rank ranks_at_most) {
  raise_descriptor_limit();
  std::vector<Fit> fits;
  for (int round = 0; round < arguments.rounds; ++round) {
    fits.push_back(fit_and_report(arguments.turn_ns, round));
    validate(fits.back(), arguments.turn_ns, round);
  }
  scale(median_of(fits), ranks_at_most);
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  std::vector<char*> others(argv, argv + argc);
  craton::fabric::Rank ranks_at_most = 1024;
  constexpr std::string_view option = "--ranks=";
  if (argc > 1 && std::string_view(argv[1]).starts_with(option)) {
    ranks_at_most = static_cast<craton::fabric::Rank>(std::atoi(argv[1] + option.size()));
    others.erase(others.begin() + 1);
  }
  try {
    run(parse_arguments(static_cast<int>(others.size()), others.data()), ranks_at_most);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "predict: %s\n", error.what());
    return 1;
  }
}
