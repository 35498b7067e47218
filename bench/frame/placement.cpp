#include "frame/placement.hpp"

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "base/error.hpp"

namespace craton::bench {
namespace {

std::vector<std::size_t> usable_cpus() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    throw Error::from_errno("cannot see which CPUs may be used", errno);
  std::vector<std::size_t> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin_to(const cpu_set_t& chosen) {
  if (::sched_setaffinity(0, sizeof chosen, &chosen) != 0)
    throw Error::from_errno("cannot pin to a CPU", errno);
}

}  // namespace

void pin(Placement placement, unsigned rank) {
  const std::vector<std::size_t> cpus = usable_cpus();
  if (cpus.size() < 2 || placement == Placement::anywhere) return;

  const std::size_t share = placement == Placement::one_cpu_each ? 1 : cpus.size() / 2;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (std::size_t i = 0; i < share; ++i) CPU_SET(cpus[(rank % 2) * share + i], &chosen);
  pin_to(chosen);
}

void pin_to_first(unsigned count) {
  const std::vector<std::size_t> cpus = usable_cpus();
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (std::size_t i = 0; i < cpus.size() && i < count; ++i) CPU_SET(cpus[i], &chosen);
  pin_to(chosen);
}

}  // namespace craton::bench
