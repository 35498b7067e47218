/// \file
/// Uses memory of one rank in a region of all: of brk (foreign brk), for code (foreign code), a segment of
/// System V where ranks are on several nodes (foreign segment), or of a library that is loaded while the
/// program runs (foreign PATH).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

int main(int count, char** words) {
  if (count < 2) return 2;
  int* numbers;
  if (strcmp(words[1], "brk") == 0) {
    numbers = sbrk(1 << 20);
  } else if (strcmp(words[1], "code") == 0) {
    numbers = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else if (strcmp(words[1], "segment") == 0) {
    const int segment = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
    numbers = shmat(segment, NULL, 0);
    shmctl(segment, IPC_RMID, NULL);
    numbers[7] = 7;
    printf("by itself %d\n", numbers[7]);
    fflush(stdout);
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
