/// \file
/// `teams` on the host, `error`.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "omp/gomp/abi.hpp"
#include "omp/runtime.hpp"

namespace craton::omp::gomp {

extern "C" int omp_get_max_teams();
extern "C" int omp_get_teams_thread_limit();

/// The teams of a league run one after the other.
CRATON_GOMP void GOMP_teams_reg(Function function, void* data, unsigned teams, unsigned thread_limit,
                                unsigned /*flags*/) {
  Thread& thread = self();
  Icvs& icvs = thread.task->icvs;
  const std::uint32_t limit_before = icvs.thread_limit;
  if (thread_limit == 0) thread_limit = static_cast<unsigned>(omp_get_teams_thread_limit());
  if (thread_limit != 0) icvs.thread_limit = thread_limit;
  if (teams == 0) teams = static_cast<unsigned>(std::max(omp_get_max_teams(), 1));
  const League before = thread.state.league;
  for (std::uint32_t number = 0; number < teams; ++number) {
    thread.state.league = {.number = number, .count = teams};
    function(data);
  }
  thread.state.league = before;
  icvs.thread_limit = limit_before;
}

/// In a target region: its thread limit. The number of teams is the runtime's to choose.
CRATON_GOMP void GOMP_teams(unsigned /*teams*/, unsigned thread_limit) {
  if (thread_limit != 0) self().task->icvs.thread_limit = thread_limit;
}
/// In a target region, before each team. \returns whether there is one more, which the caller runs
CRATON_GOMP bool GOMP_teams4(unsigned teams_at_least, unsigned /*teams_at_most*/, unsigned thread_limit,
                             bool is_first) {
  Thread& thread = self();
  League& league = thread.state.league;
  if (is_first) {
    if (thread_limit != 0) thread.task->icvs.thread_limit = thread_limit;
    league = {.number = 0, .count = std::max(teams_at_least, 1U)};
    return true;
  }
  if (league.number + 1 >= league.count) return false;
  ++league.number;
  return true;
}

// ---- The error directive

namespace {

/// \param bytes of the text; all ones: it ends with a zero byte \returns what libgomp says
std::string error_line(const char* text, std::size_t bytes) {
  std::string line = "error directive encountered";
  if (text == nullptr) return line;
  return line + ": " + std::string(text, bytes == ~std::size_t{0} ? std::strlen(text) : bytes);
}

}  // namespace

CRATON_GOMP void GOMP_warning(const char* text, std::size_t bytes) {
  static_cast<void>(std::fprintf(stderr, "\nlibgomp: %s\n", error_line(text, bytes).c_str()));
}
CRATON_GOMP void GOMP_error(const char* text, std::size_t bytes) {
  static_cast<void>(std::fprintf(stderr, "\nlibgomp: fatal error: %s\n", error_line(text, bytes).c_str()));
  if (runtime() != nullptr) runtime()->platform().fail("the program's error directive has ended it");
  std::exit(1);
}

}  // namespace craton::omp::gomp
