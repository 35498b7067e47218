/// \file
/// A library whose own regions count in its data: see system_libraries.c.
static long calls;

long count_calls(int calls_a_thread) {
#pragma omp parallel
  for (int i = 0; i < calls_a_thread; ++i) {
#pragma omp atomic
    ++calls;
  }
  return calls;
}
