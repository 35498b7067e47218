/// \file
/// What a process has once, and several threads change at a time: all threads find the same afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"

enum { rounds = 30, name_bytes = 64 };

typedef struct {
  char directory[name_bytes];
  mode_t mask;
  void (*handler)(int);
  char locale[name_bytes];
} State;

static State states[most_threads];
static char folder[] = "/tmp/craton-changes-XXXXXX";

static void first(int signal) {
  (void)signal;
}
static void second(int signal) {
  (void)signal;
}

static void change_all(int thread) {
  char name[name_bytes];
  snprintf(name, sizeof name, "%s/%d", folder, thread);
  if (chdir(name) != 0) abort();
  umask(022 + thread);
  signal(SIGUSR1, thread % 2 == 0 ? &first : &second);
  setlocale(LC_CTYPE, thread % 2 == 0 ? "C" : "C.UTF-8");
}

/// The mask as the kernel says, since umask() changes it.
static mode_t mask_now(void) {
  FILE* const status = fopen("/proc/thread-self/status", "r");
  if (status == NULL) abort();
  char line[256];
  unsigned mask = 0;
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "Umask: %o", &mask);
  fclose(status);
  return mask;
}

static void look(State* state) {
  if (getcwd(state->directory, sizeof state->directory) == NULL) abort();
  state->mask = mask_now();
  struct sigaction action;
  sigaction(SIGUSR1, NULL, &action);
  state->handler = action.sa_handler;
  strcpy(state->locale, setlocale(LC_CTYPE, NULL));
}

static int is_same(const State* one, const State* other) {
  return strcmp(one->directory, other->directory) == 0 && one->mask == other->mask &&
         one->handler == other->handler && strcmp(one->locale, other->locale) == 0;
}

static void at_a_time(void) {
  int apart = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 0; round < rounds; ++round) {
#pragma omp barrier
      change_all(self);
#pragma omp barrier
      look(&states[self]);
#pragma omp barrier
#pragma omp master
      for (int other = 1; other < omp_get_num_threads(); ++other)
        apart += !is_same(&states[0], &states[other]);
    }
  }
  check_int("threads that find another state than the first", apart);
}

static void in_vain(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    errno = 0;
    right += chdir("/tmp/craton-changes-of-nobody") == -1 && errno == ENOENT;
    errno = 0;
    right += fchdir(-1) == -1 && errno == EBADF;
    errno = 0;
    right += signal(SIGKILL, &first) == SIG_ERR && errno == EINVAL;
    right += setlocale(LC_CTYPE, "of nobody") == NULL;
  }
  check_int("what can not be changed", right);
}

int main(void) {
  int right = mkdtemp(folder) != NULL;
  char name[name_bytes];
  for (int i = 0; i < most_threads; ++i) {
    snprintf(name, sizeof name, "%s/%d", folder, i);
    right += mkdir(name, 0700) == 0;
  }
  check_int("folders", right);
  at_a_time();
  in_vain();
  right = chdir("/") == 0;
  for (int i = 0; i < most_threads; ++i) {
    snprintf(name, sizeof name, "%s/%d", folder, i);
    right += rmdir(name) == 0;
  }
  check_int("folders that are gone", right + (rmdir(folder) == 0));
  return finish();
}
