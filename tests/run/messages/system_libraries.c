/// \file
/// A program whose library has the regions, and lies where those of the system do: the loader is told a path
/// that begins there.
#include <omp.h>
#include <stdio.h>

extern long count_calls(int calls_a_thread);

enum { calls_a_thread = 50 };

int main(void) {
  puts(count_calls(calls_a_thread) == (long)omp_get_max_threads() * calls_a_thread ? "right" : "wrong");
  return 0;
}
