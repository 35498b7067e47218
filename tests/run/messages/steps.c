/// \file
/// A library without OpenMP that one with it needs: see system_libraries.c.
long take_step(void) {
  static long steps;
  return __atomic_add_fetch(&steps, 1, __ATOMIC_SEQ_CST);
}
