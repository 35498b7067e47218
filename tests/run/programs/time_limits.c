/// \file
/// Waits with a time limit on what threads share: by both clocks, and for ever.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t monotonic;
static sem_t semaphore;
static int word;

enum { limit_ms = 30 };

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static struct timespec in_a_moment(clockid_t clock) {
  struct timespec until;
  clock_gettime(clock, &until);
  until.tv_nsec += limit_ms * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

/// \returns whether nobody has signalled, and not before the time
static int passes(pthread_cond_t* condition, clockid_t clock) {
  const long long begin = now_ms();
  const struct timespec until = in_a_moment(clock);
  pthread_mutex_lock(&mutex);
  int error = 0;
  while (error == 0) error = pthread_cond_timedwait(condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  return error == ETIMEDOUT && now_ms() - begin >= limit_ms - 1;
}

static void conditions(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&monotonic, &attributes);
  pthread_condattr_destroy(&attributes);
  int late = 0;
#pragma omp parallel reduction(+ : late)
  {
    take_part();
    late += passes(&changed, CLOCK_REALTIME);
    late += passes(&monotonic, CLOCK_MONOTONIC);
  }
  check_int("conditions that nobody signalled in time", late);
}

/// Times that a clock in nanoseconds cannot count.
static void for_ever(void) {
  const struct timespec never = {LONG_MAX, 0};
  sem_init(&semaphore, 0, 0);
  int got = 0;
#pragma omp parallel reduction(+ : got)
  {
    take_part();
#pragma omp barrier
    if (omp_get_thread_num() == 0) {
      usleep(limit_ms * 1000);
      for (int i = 1; i < omp_get_num_threads(); ++i) sem_post(&semaphore);
    } else {
      got += sem_timedwait(&semaphore, &never) == 0;
    }
#pragma omp barrier
    if (omp_get_thread_num() == 0) {
      usleep(limit_ms * 1000);
      __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
      syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    } else {
      while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) {
        if (syscall(SYS_futex, &word, FUTEX_WAIT, 0, &never, NULL, 0) == -1 && errno == ETIMEDOUT)
          got = -1000;
      }
    }
  }
  check_int("waits for ever that ended", got);
}

int main(void) {
  conditions();
  for_ever();
  return finish();
}
