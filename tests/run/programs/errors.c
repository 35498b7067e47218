/// \file
/// errno is each thread's own, and what OpenMP does leaves it alone: programs look at it after a construct
/// for what a call before it has left there.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "check.h"

static int shared_value[4096];
static int changed;

static void note(int expected) {
  if (errno != expected) {
#pragma omp atomic
    ++changed;
  }
}

static void critical_sections(void) {
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50; ++i) {
      const int fd = open("/nonexistent", O_RDONLY);
      if (fd >= 0) close(fd);
#pragma omp critical
      {
        note(ENOENT);
        ++shared_value[i];
      }
      note(ENOENT);
    }
  }
  check_int("changed by critical sections", changed);
}

static void locks(void) {
  omp_lock_t lock;
  omp_init_lock(&lock);
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50; ++i) {
      errno = ERANGE;
      omp_set_lock(&lock);
      ++shared_value[i];
      omp_unset_lock(&lock);
      note(ERANGE);
    }
  }
  omp_destroy_lock(&lock);
  check_int("changed by locks", changed);
}

static void work(void) {
#pragma omp parallel
  {
    take_part();
    for (int round = 0; round < 10; ++round) {
      errno = EDOM;
#pragma omp barrier
      note(EDOM);
#pragma omp for schedule(dynamic, 16)
      for (int i = 0; i < 4096; ++i) shared_value[i] += i;
      note(EDOM);
#pragma omp single
      shared_value[round] = round;
      note(EDOM);
#pragma omp for ordered
      for (int i = 0; i < 16; ++i) {
#pragma omp ordered
        shared_value[i] += round;
      }
      note(EDOM);
#pragma omp single
      for (int i = 0; i < 16; ++i) {
#pragma omp task firstprivate(i)
        shared_value[i] += i;
      }
#pragma omp taskwait
      note(EDOM);
    }
  }
  check_int("changed by work that is shared", changed);
}

int main(void) {
  critical_sections();
  locks();
  work();
  return finish();
}
