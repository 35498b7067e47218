/// \file
/// `teams` on the host, cancellation (which is off), `error`.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "omp/gomp/abi.hpp"
#include "omp/runtime.hpp"

namespace craton::omp::gomp {

extern "C" int omp_get_max_teams();
extern "C" int omp_get_teams_thread_limit();

/// The teams of a league run one after the other.
CRATON_GOMP void GOMP_teams_reg(Function function, void* data, unsigned teams, unsigned thread_limit,
                                unsigned /*flags*/) {
  if (runtime() == nullptr) return function(data);
  Icvs& icvs = self().task->icvs;
  const std::uint32_t limit_before = icvs.thread_limit;
  if (thread_limit == 0) thread_limit = static_cast<unsigned>(omp_get_teams_thread_limit());
  if (thread_limit != 0) icvs.thread_limit = thread_limit;
  if (teams == 0) teams = static_cast<unsigned>(std::max(omp_get_max_teams(), 1));
  Runtime::Teams& league = runtime()->teams();
  league.count = teams;
  for (league.number = 0; league.number < teams; ++league.number) function(data);
  league = {};
  icvs.thread_limit = limit_before;
}

// ---- Cancellation: OMP_CANCELLATION is off

CRATON_GOMP bool GOMP_cancel(int /*which*/, bool /*does_it*/) {
  return false;
}
CRATON_GOMP bool GOMP_cancellation_point(int /*which*/) {
  return false;
}

// ---- The error directive

CRATON_GOMP void GOMP_warning(const char* text, std::size_t bytes) {
  const std::string line = text == nullptr ? "" : ": " + std::string(std::string_view(text, bytes));
  static_cast<void>(std::fprintf(stderr, "libgomp: error directive encountered%s\n", line.c_str()));
}
CRATON_GOMP void GOMP_error(const char* text, std::size_t bytes) {
  const std::string line = text == nullptr ? "" : ": " + std::string(std::string_view(text, bytes));
  const std::string message = "the program's error directive ends it" + line;
  if (runtime() != nullptr) runtime()->platform().fail(message);
  refuse("GOMP_error");
}

}  // namespace craton::omp::gomp
