/* region_ends HOW: the last thread of a region ends the program in the middle of it, while the others wait.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_thread_num(void) {
  return 0;
}
static inline int omp_get_num_threads(void) {
  return 1;
}
#endif

static void at_exit(void) {
  printf("handler\n");
}

int main(int count, char** words) {
  const char* how = count > 1 ? words[1] : "exit3";
  atexit(&at_exit);
  printf("in main\n");
  fflush(stdout);
#pragma omp parallel
  {
    const int last = strncmp(how, "first", 5) == 0 ? 0 : omp_get_num_threads() - 1;
    if (omp_get_thread_num() == last) {
      if (strcmp(how, "exit3") == 0) exit(3);
      if (strcmp(how, "exit0") == 0) exit(0);
      if (strcmp(how, "_exit4") == 0) _exit(4);
      if (strcmp(how, "first-exit5") == 0) exit(5);
      if (strcmp(how, "first-_exit6") == 0) _exit(6);
      if (strcmp(how, "abort") == 0) abort();
      if (strcmp(how, "raise-segv") == 0) raise(SIGSEGV);
      if (strcmp(how, "thread-bus") == 0) pthread_kill(pthread_self(), SIGBUS);
    }
#pragma omp barrier
  }
  return 99;
}
