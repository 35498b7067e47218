/// \file
/// What runs when main has ended: destructors of static objects and exit handlers use OpenMP as main did.
#include "check.h"

#include <cstdio>
#include <cstdlib>

namespace {

void use(const char* when) {
  int from_task = 0;
#pragma omp task shared(from_task)
  from_task = 7;
#pragma omp taskwait
  int threads = 0;
  int levels = 0;
#pragma omp parallel reduction(+ : threads, levels)
  {
    take_part();
    ++threads;
    levels += omp_get_level();
  }
  std::printf("%s: %d thread of level %d, a task's %d, then %d threads of the same level\n", when,
              omp_get_num_threads(), omp_get_level(), from_task, levels == threads ? threads : -1);
}

struct Static {
  ~Static() { use("destructor"); }
};
const Static object;

}  // namespace

int main() {
  int threads = 0;
#pragma omp parallel reduction(+ : threads)
  {
    take_part();
    ++threads;
  }
  check_int("threads", threads);
  std::atexit([] { use("exit handler"); });
  return finish();
}
