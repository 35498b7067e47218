#include "frame/placement.hpp"

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "base/error.hpp"

namespace craton::bench {

void pin(Placement placement, unsigned rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    throw Error::from_errno("cannot see which CPUs may be used", errno);
  std::vector<std::size_t> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) return;

  const std::size_t share = placement == Placement::one_cpu_each ? 1 : cpus.size() / 2;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (std::size_t i = 0; i < share; ++i) CPU_SET(cpus[(rank % 2) * share + i], &chosen);
  if (::sched_setaffinity(0, sizeof chosen, &chosen) != 0)
    throw Error::from_errno("cannot pin to a CPU", errno);
}

}  // namespace craton::bench
