/// \file
/// left_open FOLDER HOW: each thread writes a line into a file of its own and leaves it open; then main
/// returns, or the last thread calls exit.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char** words) {
  if (count != 3) return 2;
  const int exits = strcmp(words[2], "exit") == 0;
#pragma omp parallel
  {
    char name[4096];
    snprintf(name, sizeof name, "%s/%d", words[1], omp_get_thread_num());
    FILE* const file = fopen(name, "w");
    if (file != NULL) fprintf(file, "a line of thread %d\n", omp_get_thread_num());
#pragma omp barrier
    if (exits && omp_get_thread_num() == omp_get_num_threads() - 1) exit(0);
#pragma omp barrier
  }
  return 0;
}
