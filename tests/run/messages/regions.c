/// \file
/// A library whose own regions count in its data, and in those of steps.c.
extern long take_step(void);

static long calls;

long call_steps(int calls_a_thread) {
#pragma omp parallel
  for (int i = 0; i < calls_a_thread; ++i) {
    take_step();
#pragma omp atomic
    ++calls;
  }
  return calls;
}
