/// \file
/// User-level threads: what is measured, and who does it. Each file makes its own list of ways; the workloads
/// are written once (workloads.hpp) and instantiated over each library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "frame/measure.hpp"

namespace craton::bench {

enum class Workload : std::uint8_t {
  context_switch,  ///< there and back, between two stacks on one kernel thread
  fork_join,       ///< fib(n), a fork for every two calls (dissertation, figure 5.3)
  mutex,           ///< 50 threads of control and one mutex (figure 5.4)
  yielding_mutex,  ///< the same, and every 16th critical section yields inside, so that others come to wait
  barrier,         ///< 50 threads of control and one barrier (figure 5.5)
  yield,           ///< two threads of control that yield to each other
  uncontended_mutex,  ///< lock and unlock by one thread of control
};

struct Load {
  unsigned workers;  ///< kernel threads that run user-level threads; for kernel threads, the CPUs that they
                     ///< may use
  TimeNs turn_ns;
};

/// One workload by one library. The turn has a process of its own, pinned to as many CPUs as there are
/// workers.
struct Way {
  Workload workload;
  std::string_view variant;
  Sample (*turn)(const Load& load);
};

std::vector<Way> craton_ways();
std::vector<Way> kernel_thread_ways();
// Those that CMake has found.
std::vector<Way> boost_context_ways();
std::vector<Way> boost_fiber_ways();
std::vector<Way> onetbb_ways();
std::string boost_version();
std::string onetbb_version();

}  // namespace craton::bench
