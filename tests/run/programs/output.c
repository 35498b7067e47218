/// \file
/// What threads print comes out once and in the order that the program gives it.
#include "check.h"

#include <stdlib.h>

int main(void) {
  printf("from the master\n");
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < omp_get_num_threads(); ++turn) {
      if (turn == omp_get_thread_num()) {
        printf("thread %d", turn);
        puts(" is next");
      }
#pragma omp barrier
    }
  }
  check_int("by barriers", 1);
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < 20; ++i) {
    take_part();
    char* const line = malloc(100);
    sprintf(line, "iteration %d", i);
#pragma omp ordered
    fprintf(stdout, "%s\n", line);
    free(line);
  }
  check_int("by order", 2);
  int turn = 0;
#pragma omp parallel
  {
    take_part();
    for (int is_done = 0; !is_done;) {
#pragma omp critical
      {
        is_done = turn >= 20;
        if (!is_done && turn % omp_get_num_threads() == omp_get_thread_num()) {
          fputs("critical ", stdout);
          putchar('a' + turn % 26);
          fwrite("\n", 1, 1, stdout);
          ++turn;
        }
      }
      usleep(20);
    }
  }
  check_int("in critical", 3);
#pragma omp parallel
  {
    take_part();
#pragma omp single
    printf("single\n");
#pragma omp master
    printf("after single\n");
  }
  static char large[20000];
#pragma omp parallel for
  for (int i = 0; i < 19999; ++i) {
    take_part();
    large[i] = (char)(i % 80 == 79 ? '\n' : 'a' + i % 26);
  }
  printf("%s\n", large);
  check_int("a buffer that all filled", 4);
  return finish();
}
