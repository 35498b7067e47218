/// \file
/// What a process has once: its handlers of signals, directory, file mask and locale are those of all
/// threads.
#define _GNU_SOURCE
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

static int handled[most_threads];

static void count(int signal) {
  (void)signal;
  ++handled[omp_get_thread_num()];
}

static void signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = &count;
  sigaction(SIGUSR1, &action, NULL);
  signal(SIGFPE, &count);
  int failed = 0;
#pragma omp parallel reduction(+ : failed)
  {
    take_part();
    for (int i = 0; i < 3; ++i) failed += raise(SIGUSR1) != 0;
    failed += raise(SIGFPE) != 0;
  }
  long long sum = 0;
  for (int i = 0; i < most_threads; ++i) sum = sum * 3 + handled[i];
  check_int("signals raised in a region", failed == 0 ? sum : -1);
  signal(SIGUSR1, SIG_IGN);
#pragma omp parallel
  {
    take_part();
    raise(SIGUSR1);
  }
  check_int("signals that are ignored", sum);
}

extern void* __libc_stack_end; /* NOLINT: the C library's name */

/* How much of the first thread's stack is used, as R and collectors of garbage find out. */
static void stack(void) {
  const unsigned long end = (unsigned long)__libc_stack_end;
  const unsigned long here = (unsigned long)&end;
  check_int("little of the stack is used", here < end && end - here < 100000);
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long first = 0;
  unsigned long last = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    if (sscanf(line, "%lx-%lx", &first, &last) == 2 && first <= end && end < last) break;
  if (maps != NULL) fclose(maps);
  check_int("its mapping ends there", last - end < 100000);
}

static void places(void) {
  char folder[] = "/tmp/craton-process-XXXXXX";
  int right = mkdtemp(folder) != NULL && chdir(folder) == 0;
  umask(027);
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    char name[32];
    char here[128];
    struct stat status;
    snprintf(name, sizeof name, "of-thread-%d", omp_get_thread_num());
    FILE* file = fopen(name, "w");
    right += file != NULL && fputs("a line\n", file) >= 0 && fclose(file) == 0;
    right += getcwd(here, sizeof here) != NULL && strcmp(here, folder) == 0;
    right += stat(name, &status) == 0 && (status.st_mode & 0777) == 0640;
    right += unlink(name) == 0;
  }
  right += chdir("/") == 0 && rmdir(folder) == 0;
  check_int("directory and file mask", right);
}

static void locales(void) {
  const int has_one = setlocale(LC_ALL, "C.UTF-8") != NULL;
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += !has_one || (strcmp(setlocale(LC_CTYPE, NULL), "C.UTF-8") == 0 && MB_CUR_MAX > 1);
  }
  check_int("the locale", right);
}

/// The generator's state is memory of the program's, which another rank's srandom() changes.
static void given_state(void) {
  static char state[128];
  char others_state[128];
  struct random_data others = {0};
  int right = 0;
  char* const before = initstate(1, state, sizeof state);
  for (int round = 1; round <= 20; ++round) {
#pragma omp parallel
    {
      take_part();
      if (omp_get_thread_num() == omp_get_num_threads() - 1) srandom((unsigned)round);
    }
    int wanted = 0;
    others.state = NULL;
    right += initstate_r((unsigned)round, others_state, sizeof others_state, &others) == 0 &&
             random_r(&others, &wanted) == 0 && random() == wanted;
  }
  setstate(before);
  check_int("random numbers of a given state", right);
}

/// Equal samples on all ranks would be equal sums.
static void random_numbers(void) {
  static long long of_thread[most_threads];
  srand(7);
  int threads = 1;
#pragma omp parallel
  {
    take_part();
#pragma omp master
    threads = omp_get_num_threads();
#pragma omp critical
    for (int i = 0; i < 10; ++i) of_thread[omp_get_thread_num()] += rand() % 100000;
  }
  int equal = 0;
  for (int i = 0; i < threads; ++i) {
    for (int j = 0; j < i; ++j) equal += of_thread[i] == of_thread[j];
  }
  check_int("equal samples", equal);
  srand(7);
  check_int("the first number outside of regions", rand());
}

static void jump(jmp_buf place, int depth) {
  volatile char frame[1000];
  frame[depth] = 1;
  if (depth != 0) jump(place, depth - frame[depth]);
  if (depth == 0) longjmp(place, 5);
}

static void jumps(void) {
  static volatile int right[most_threads];
  int sum = 0;
#pragma omp parallel
  {
    take_part();
    for (volatile int i = 0; i < 50; ++i) {
      jmp_buf place;
      if (setjmp(place) == 0)
        jump(place, 20);
      else
        ++right[omp_get_thread_num()];
    }
  }
  for (int i = 0; i < most_threads; ++i) sum += right[i];
  check_int("jumps within a region", sum);
}

/// The last thread has not touched the page that the command is in.
static void commands(void) {
  char* const command = aligned_alloc(4096, 4096);
  strcpy(command, "exit 4");
  int status = 0;
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) status = system(command);
  }
  check_int("a command's end", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  free(command);
}

int main(void) {
  stack();
  signals();
  places();
  locales();
  given_state();
  random_numbers();
  jumps();
  commands();
  return finish();
}
