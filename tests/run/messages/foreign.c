/// \file
/// Uses memory of one rank in a region of all: of brk (foreign brk), or of a library that is loaded while the
/// program runs (foreign PATH).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char** words) {
  if (count < 2) return 2;
  int* numbers;
  if (strcmp(words[1], "brk") == 0) {
    numbers = sbrk(1 << 20);
  } else {
    void* library = dlopen(words[1], RTLD_NOW);
    numbers = library == NULL ? NULL : dlsym(library, "numbers_of_library");
    if (numbers == NULL) {
      printf("%s\n", dlerror());
      return 3;
    }
  }
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) {
    numbers[i] = i;
    sum += numbers[i];
  }
  printf("sum %d\n", sum);
  return 0;
}
