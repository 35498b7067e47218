/// \file
/// One of the many libraries of libraries.c: a counter of its own. COUNT names its function.
long COUNT(void) {
  static long counter;
  long seen;
#pragma omp atomic capture
  seen = ++counter;
  return seen;
}
