/// \file
/// Tasks with events and variables to destroy, in a group that is cancelled before they are made; the events
/// are fulfilled all the same. LLVM's own runtime fails an assertion.
#include <omp.h>

#include <cstdio>

namespace {

struct Noted {
  int* destroyed;
  ~Noted() {
#pragma omp atomic
    ++*destroyed;
  }
};

}  // namespace

int main() {
  int runs = 0;
  int destroyed = 0;
#pragma omp parallel
  {
#pragma omp single
#pragma omp taskgroup
    {
#pragma omp task if (0)
      {
#pragma omp cancel taskgroup
      }
      for (int i = 0; i < 20; ++i) {
        Noted noted{&destroyed};
        omp_event_handle_t event{};
#pragma omp task detach(event) firstprivate(noted) shared(runs)
        {
#pragma omp atomic
          runs += noted.destroyed != nullptr;
        }
        omp_fulfill_event(event);
      }
    }
  }
  std::printf("%d run, %d destroyed\n", runs, destroyed);
}
