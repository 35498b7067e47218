/* Calls a function of jemalloc's own, which a library has: this file, too, compiled for that. */
#include <stddef.h>

void* mallocx(size_t bytes, int flags);

#ifdef CRATON_LIBRARY
void* mallocx(size_t bytes, int flags) {
  static char memory[16];
  return bytes > sizeof memory || flags != 0 ? NULL : memory;
}
#else
int main(void) {
#pragma omp parallel
  mallocx(16, 0);
  return 0;
}
#endif
