/// \file
/// Memory of calloc is zero: large memory that was never used without being touched, what was used before as
/// well.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long resident_pages(void) {
  long all = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) return -1;
  fclose(file);
  return resident;
}

static int is_zero(const unsigned char* bytes, size_t count, size_t step) {
  for (size_t i = 0; i < count; i += step) {
    if (bytes[i] != 0) return 0;
  }
  return 1;
}

int main(void) {
  const size_t large = (size_t)1 << 30, used = (size_t)8 << 20;
  const long before = resident_pages();
  unsigned char* const fresh = calloc(1, large);
  const long grown = resident_pages() - before;
  if (fresh == NULL || before < 0) return 1;
  if (grown > (long)(large / 4096 / 8)) printf("calloc touched %ld pages\n", grown);
  printf("fresh is zero: %d\n", is_zero(fresh, large, large / 64));
  for (int i = 0; i < 8; ++i) {
    unsigned char* const again = calloc(used + (size_t)i, 1);
    if (again == NULL || !is_zero(again, used, 1)) printf("what was used comes back\n");
    memset(again, 0xff, used);
#pragma omp parallel
#pragma omp single
    free(again);
  }
  unsigned char* const small = calloc(3, 5);
  printf("small is zero: %d\n", is_zero(small, 15, 1));
  return 0;
}
