/// \file
/// Threads that one thread of the team starts and another joins or detaches.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "check.h"

static pthread_t started[most_threads];
static int work_of[most_threads][1000];
static sem_t may_end;

static void* work(void* number) {
  int* const own = work_of[(long)number];
  usleep(2000);
  for (int i = 0; i < 1000; ++i) own[i] += (int)(long)number + i;
  return &own[999];
}

static void* wait_to_end(void* value) {
  while (sem_wait(&may_end) != 0) continue;
  return value;
}

static void* end_at_once(void* value) {
  return value;
}

/// The thread that the one before this has started.
static int neighbour(void) {
  return (omp_get_thread_num() + omp_get_num_threads() - 1) % omp_get_num_threads();
}

static void joined_by_another(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    const long self = omp_get_thread_num();
    right += pthread_create(&started[self], NULL, &work, (void*)self) == 0;
#pragma omp barrier
    const int other = neighbour();
    void* result = NULL;
    right += pthread_join(started[other], &result) == 0;
    right += result == &work_of[other][999];
    for (int i = 0; i < 1000; ++i) right += work_of[other][i] == other + i;
  }
  check_int("threads joined by others", right);
}

static struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec until;
  clock_gettime(clock, &until);
  until.tv_nsec += ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

static void with_limits(void) {
  sem_init(&may_end, 0, 0);
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    const int self = omp_get_thread_num();
    right += pthread_create(&started[self], NULL, &wait_to_end, &right) == 0;
#pragma omp barrier
    const pthread_t other = started[neighbour()];
    right += pthread_tryjoin_np(other, NULL) == EBUSY;
    const struct timespec soon = in_ms(CLOCK_REALTIME, 5);
    right += pthread_timedjoin_np(other, NULL, &soon) == ETIMEDOUT;
    const struct timespec as_soon = in_ms(CLOCK_MONOTONIC, 5);
    right += pthread_clockjoin_np(other, NULL, CLOCK_MONOTONIC, &as_soon) == ETIMEDOUT;
#pragma omp barrier
    sem_post(&may_end);
    const struct timespec later = in_ms(CLOCK_MONOTONIC, 60000);
    right += pthread_clockjoin_np(other, NULL, CLOCK_MONOTONIC, &later) == 0;
  }
  check_int("joins with limits", right);
}

static void detached_by_another(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    const int self = omp_get_thread_num();
    right += pthread_create(&started[self], NULL, &wait_to_end, NULL) == 0;
#pragma omp barrier
    right += pthread_detach(started[neighbour()]) == 0;
#pragma omp barrier
    right += pthread_join(started[self], NULL) == EINVAL;
#pragma omp barrier
    sem_post(&may_end);
  }
  check_int("threads detached by others", right);
}

/// More than there are at a time: each leaves its stack to the next.
static void many(void) {
  int right = 0;
  for (int i = 0; i < 600; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, &end_at_once, NULL) != 0) break;
    int error = pthread_tryjoin_np(thread, NULL);
    for (; error == EBUSY; error = pthread_tryjoin_np(thread, NULL)) usleep(20);
    right += error == 0;
  }
  check_int("threads after another", right);
}

int main(void) {
  joined_by_another();
  with_limits();
  detached_by_another();
  many();
  return finish();
}
