/// \file
/// A program whose libraries have the regions, and lie where those of the system do: the loader is told a
/// path that begins there.
#include <omp.h>
#include <stdio.h>

extern long call_steps(int calls_a_thread);
extern long take_step(void);

enum { calls_a_thread = 50 };

int main(void) {
  const long all = (long)omp_get_max_threads() * calls_a_thread;
  const int right = call_steps(calls_a_thread) == all;
  const int other_right = take_step() == all + 1;
  printf("%s, %s\n", right ? "right" : "wrong", other_right ? "right" : "wrong");
  return 0;
}
