/* Semaphores with names: as a lock, from thread to thread, opened again by threads, and unlinked. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#include "check_threads.h"

enum { rounds = 50, numbers = 900 };

static char name[64];
static sem_t* lock;
static sem_t* turns[2];
static long counts[numbers];
static long handed;

static int start_all(int count, void* (*body)(void*)) {
  pthread_t* const threads = malloc((size_t)count * sizeof *threads);
  long sum = 0;
  for (long i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, body, (void*)i) != 0) exit(2);
  for (int i = 0; i < count; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    sum += (long)result;
  }
  free(threads);
  return (int)sum;
}

static void* count_up(void* self) {
  (void)self;
  meet(thread_count());
  for (int round = 0; round < rounds; ++round) {
    sem_wait(lock);
    for (int i = 0; i < numbers; ++i) ++counts[i];
    sem_post(lock);
  }
  return NULL;
}

/* Two take turns; the others wait for a time that passes. */
static void* hand_over(void* self) {
  const long number = (long)self;
  meet(thread_count());
  if (number > 1) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, ++until.tv_sec;
    sem_t* const never = sem_open(name, O_CREAT, 0600, 1); /* the same as `lock`, which is taken */
    sem_t* const again = sem_open(name, 0);
    const int result =
        again == lock && sem_timedwait(never, &until) == -1 && errno == ETIMEDOUT && sem_trywait(never) == -1;
    sem_close(never);
    sem_close(again);
    return (void*)(long)result;
  }
  for (int round = 0; round < rounds; ++round) {
    sem_wait(turns[number]);
    handed = handed * 3 % 1000003 + number;
    sem_post(turns[1 - number]);
  }
  return NULL;
}

int main(void) {
  snprintf(name, sizeof name, "/craton-names-%d", (int)getpid());
  lock = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
  if (lock == SEM_FAILED) return 1;
  check_int("made twice", sem_open(name, O_CREAT | O_EXCL, 0600, 1) == SEM_FAILED && errno == EEXIST);
  check_int("made with a bad value", sem_open("/craton-names", O_CREAT, 0600, ~0U) == SEM_FAILED);
  start_all(thread_count(), &count_up);
  long right = 0;
  for (int i = 0; i < numbers; ++i) right += counts[i] == (long)thread_count() * rounds;
  check_int("right", right);

  for (int i = 0; i < 2; ++i) {
    char other[80];
    snprintf(other, sizeof other, "%s-%d", name, i);
    turns[i] = sem_open(other, O_CREAT, 0600, i == 0);
    sem_unlink(other);
  }
  sem_wait(lock);
  check_int("timed out", start_all(thread_count(), &hand_over));
  check_int("handed over", handed);
  sem_post(lock);
  int value = 0;
  sem_getvalue(lock, &value);
  check_int("value", value);
  for (int i = 0; i < 2; ++i) sem_close(turns[i]);
  /* It keeps its value as long as it has a name. */
  sem_post(lock);
  sem_close(lock);
  lock = sem_open(name, O_CREAT, 0600, 7);
  sem_getvalue(lock, &value);
  check_int("value of one opened again", value);
  for (int i = 0; i < 1000; ++i) {
    char other[80];
    snprintf(other, sizeof other, "%s-%d", name, i);
    sem_t* const shortly = sem_open(other, O_CREAT | O_EXCL, 0600, 1);
    if (shortly == SEM_FAILED || sem_wait(shortly) != 0 || sem_unlink(other) != 0 || sem_close(shortly) != 0)
      exit(3);
  }
  sem_close(lock);
  check_int("unlinked", sem_unlink(name));
  check_int("unlinked again", sem_unlink(name) == -1 && errno == ENOENT);
  check_int("opened then", sem_open(name, 0) == SEM_FAILED && errno == ENOENT);
  return finish();
}
