/// \file
/// What the timed simulator (src/fabric/sim/timing.hpp) predicts for 2 to 1,024 ranks, and how far that is
/// from the truth where both are to be had.
///
///   fit.cpp        the model's parameters of this machine, measured over shm and tcp
///   kernels.cpp    what is run: the same code in simulated and in real ranks
///   simulated.cpp  ranks that are coroutines of one thread, with the protocol's own classes
///   measured.cpp   ranks that are processes
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/sim/timing.hpp"
#include "frame/arguments.hpp"
#include "frame/measure.hpp"
#include "space/mutexes.hpp"

namespace craton::bench {

inline constexpr std::string_view predict_kernel = "predict";
inline constexpr std::size_t predict_block_bytes = 4096;

/// A rank's view of what a kernel runs on. Shared memory is words of 8 bytes, numbered from 0.
class KernelRank {
 public:
  virtual ~KernelRank() = default;
  virtual fabric::Rank rank() const noexcept = 0;
  virtual fabric::Rank size() const noexcept = 0;
  virtual TimeNs now_ns() = 0;
  virtual void barrier(std::uint32_t site) = 0;
  virtual void lock(space::MutexId mutex) = 0;
  virtual void unlock(space::MutexId mutex) = 0;
  virtual double load(std::size_t word) = 0;
  virtual void store(std::size_t word, double value) = 0;
  virtual void compute(TimeNs for_ns) = 0;
  /// A step of the stencil over `cells` words: reads those from `from` and the two beyond its ends, which
  /// hold `left` and `right`; writes those from `to`.
  virtual void sweep(std::size_t from, std::size_t to, std::size_t cells, double left, double right) = 0;
  /// A message that lets another rank return from await_turn() once.
  virtual void pass_turn(fabric::Rank to) = 0;
  virtual void await_turn() = 0;

  /// The time of one operation or iteration; of rank 0 only.
  void note(TimeNs elapsed_ns, std::uint64_t operations = 1) {
    times_ns.push_back(static_cast<double>(elapsed_ns) / static_cast<double>(operations));
  }
  std::vector<double> times_ns;
};

struct Kernel {
  const char* name;
  /// Rank 0 notes `repeats` times. \throws Error protocol where memory is not what it must be
  void (*run)(KernelRank& rank, int repeats);
  /// Of 4 KiB, in the shared segment.
  std::uint64_t (*blocks)(fabric::Rank size);
  int repeats_simulated;  ///< where nothing is left to chance
  int repeats_measured;
  fabric::Rank ranks_at_most;  ///< simulated, so that all of it fits into minutes and gigabytes
};
std::span<const Kernel> kernels();

/// The stencil's step on memory of this process, as sweep() does it where memory is real.
void sweep_memory(const double* from, double* to, std::size_t cells, double left, double right) noexcept;

/// Parameters of the model on some machine.
struct Machine {
  std::string name;
  fabric::sim::Timing timing;
  double cell_ns = 0;  ///< that a cell of the stencil takes
  fabric::Rank ranks_per_node = 1;
};

/// What of a Machine does not depend on the network: faults, copies, the stencil's cell.
struct LocalFit {
  fabric::sim::LocalTimes times;
  double cell_ns = 0;
};
/// Measured for about `turn_ns` each. \throws Error
LocalFit fit_local(TimeNs turn_ns);
/// Over "shm" or "tcp", with two ranks that are processes. \throws Error
fabric::sim::LogGP fit_link(std::string_view transport, TimeNs turn_ns);

/// The time of a get of so many bytes: what nobody fits, to see what the fit is worth.
Sample measure_get(std::string_view transport, std::size_t bytes, TimeNs turn_ns);
TimeNs predict_get(const Machine& machine, std::size_t bytes);

/// Real ranks over "shm" or "tcp". \throws Error
Sample measure(const Kernel& kernel, std::string_view transport, fabric::Rank size);

struct Prediction {
  Sample sample;
  std::uint64_t events = 0;
  TimeNs wall_ns = 0;  ///< that simulating took
};
/// Simulated ranks. \throws Error
Prediction predict(const Kernel& kernel, const Machine& machine, fabric::Rank size);

}  // namespace craton::bench
