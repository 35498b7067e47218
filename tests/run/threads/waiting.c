/// \file
/// Who waits: no signal is lost to a thread that stops waiting at the same moment, by a time limit or by
/// cancellation, as many wake as are meant to, and what is waited for may be gone as soon as one may go on.
#define _GNU_SOURCE
#include <errno.h>
#include <semaphore.h>
#include <time.h>

#include "check_threads.h"

enum { most = 64, items = 150, rounds = 40 };

static pthread_t thread_of[most];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t taken = PTHREAD_COND_INITIALIZER;
static sem_t ready;
static int offered, gone, is_over, waiting, woken;

static struct timespec after_us(long us) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += us * 1000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  return until;
}

/// With the lock.
static void take(void) {
  --offered;
  ++gone;
  pthread_cond_signal(&taken);
}

/// Who relies on being signalled.
static void* patient(void* value) {
  meet(thread_count());
  pthread_mutex_lock(&lock);
  while (!is_over) {
    if (offered > 0)
      take();
    else
      pthread_cond_wait(&changed, &lock);
  }
  pthread_mutex_unlock(&lock);
  return value;
}

/// Who gives up again and again without another look; where it was signalled it takes.
static void* hasty(void* value) {
  meet(thread_count());
  pthread_mutex_lock(&lock);
  for (long us = 50; !is_over; us = us % 1000 + 130) {
    const struct timespec until = after_us(us);
    if (pthread_cond_timedwait(&changed, &lock, &until) == 0) {
      if (offered > 0) take();
      continue;
    }
    pthread_mutex_unlock(&lock);
    usleep(200);
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return value;
}

static void unlock(void* mutex) {
  pthread_mutex_unlock(mutex);
}

/// With the lock, after a signal. \returns whether somebody took what was offered, in time
static int is_taken(void) {
  const struct timespec until = after_us(20000000);
  int error = 0;
  while (offered > 0 && error == 0) error = pthread_cond_timedwait(&taken, &lock, &until);
  return offered == 0;
}

/// One item at a time, each with one signal.
static void with_limits(int n) {
  int right = 0;
  offered = gone = is_over = 0;
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, i % 2 == 0 ? &patient : &hasty, NULL);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < items; ++i) {
    ++offered;
    pthread_cond_signal(&changed);
    right += is_taken();
  }
  is_over = 1;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  check_int("signals beside time limits", right);
}

/// Who came first is cancelled while it is signalled: either it takes, or who came after it does.
static void* short_lived(void* value) {
  pthread_mutex_lock(&lock);
  pthread_cleanup_push(&unlock, &lock);
  sem_post(&ready);
  for (;;) {
    pthread_cond_wait(&changed, &lock);
    if (offered > 0) take();
  }
  pthread_cleanup_pop(0);
  return value;
}

static void* successor(void* value) {
  pthread_mutex_lock(&lock);
  sem_post(&ready);
  while (offered == 0 && !is_over) pthread_cond_wait(&changed, &lock);
  if (offered > 0) take();
  pthread_mutex_unlock(&lock);
  return value;
}

static void with_cancellations(void) {
  int right = 0;
  sem_init(&ready, 0, 0);
  for (int i = 0; i < rounds; ++i) {
    offered = is_over = 0;
    pthread_create(&thread_of[0], NULL, &short_lived, NULL);
    sem_wait(&ready);
    pthread_create(&thread_of[1], NULL, &successor, NULL);
    sem_wait(&ready);
    pthread_mutex_lock(&lock);
    pthread_cancel(thread_of[0]);
    if (i % 4 != 0) {
      pthread_mutex_unlock(&lock);
      usleep(i % 4 * 100);
      pthread_mutex_lock(&lock);
    }
    ++offered;
    pthread_cond_signal(&changed);
    right += is_taken();
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread_of[0], NULL);
    pthread_join(thread_of[1], NULL);
  }
  check_int("signals beside cancellations", right);
}

/// A signal wakes one, in the order in which they came.
static void* in_line(void* value) {
  meet(thread_count());
  pthread_mutex_lock(&lock);
  ++waiting;
  sem_post(&ready);
  while (offered == 0) pthread_cond_wait(&changed, &lock);
  --offered;
  ++woken;
  sem_post(&ready);
  pthread_mutex_unlock(&lock);
  return value;
}

static void one_by_one(int n) {
  int right = 0;
  offered = waiting = woken = 0;
  sem_init(&ready, 0, 0);
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &in_line, NULL);
  for (int i = 0; i < n; ++i) sem_wait(&ready);
  for (int i = 0; i < n; ++i) {
    pthread_mutex_lock(&lock);
    ++offered;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    sem_wait(&ready);
    pthread_mutex_lock(&lock);
    right += woken == i + 1 && offered == 0;
    pthread_mutex_unlock(&lock);
  }
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  check_int("signals one by one", right == n);
}

/// A barrier that its last thread destroys at once, and makes anew in the same place.
static pthread_barrier_t barriers[2];
static int data[2 * rounds][most];

static void* meets(void* value) {
  const int n = thread_count();
  const int self = (int)(long)value;
  int wrong = 0;
  meet(n);
  for (int round = 0; round < 2 * rounds; ++round) {
    data[round][self] = round + self;
    if (pthread_barrier_wait(&barriers[round % 2]) == PTHREAD_BARRIER_SERIAL_THREAD) {
      pthread_barrier_destroy(&barriers[round % 2]);
      pthread_barrier_init(&barriers[round % 2], NULL, (unsigned)n);
    }
    for (int other = 0; other < n; ++other) wrong += data[round][other] != round + other;
  }
  return (void*)(long)wrong;
}

static void made_anew(int n) {
  long wrong = 0;
  for (int i = 0; i < 2; ++i) pthread_barrier_init(&barriers[i], NULL, (unsigned)n);
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &meets, (void*)i);
  for (int i = 0; i < n; ++i) {
    void* result = NULL;
    pthread_join(thread_of[i], &result);
    wrong += (long)result;
  }
  check_int("barriers that are made anew", wrong);
}

/// Each thread waits for a condition on its own stack, which is gone when it goes on.
struct place {
  pthread_cond_t condition;
  int is_free;
};
static struct place* places[most];

static void* on_stack(void* value) {
  const int self = (int)(long)value;
  meet(thread_count());
  for (int round = 0; round < 10; ++round) {
    struct place own = {PTHREAD_COND_INITIALIZER, 0};
    pthread_mutex_lock(&lock);
    places[self] = &own;
    pthread_cond_signal(&taken);
    while (!own.is_free) pthread_cond_wait(&own.condition, &lock);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&own.condition);
  }
  return NULL;
}

static void conditions_on_stacks(int n) {
  int served = 0;
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &on_stack, (void*)i);
  pthread_mutex_lock(&lock);
  while (served < 10 * n) {
    int found = 0;
    for (int i = 0; i < n; ++i) {
      if (places[i] == NULL) continue;
      places[i]->is_free = 1;
      pthread_cond_signal(&places[i]->condition);
      places[i] = NULL;
      ++found;
    }
    served += found;
    if (found == 0) pthread_cond_wait(&taken, &lock);
  }
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  check_int("conditions on stacks", served);
}

/// Semaphores and locks whose waiting threads give up.
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static sem_t tokens;
static int writes;

static void* gives_up(void* value) {
  const int self = (int)(long)value;
  meet(thread_count());
  for (int i = 0; i < 40; ++i) {
    struct timespec until = after_us(100 + 37 * self);
    while (sem_timedwait(&tokens, &until) != 0) until = after_us(300);
    until = after_us(100 + 23 * self);
    while (pthread_mutex_timedlock(&lock, &until) != 0) until = after_us(300);
    ++gone;
    pthread_mutex_unlock(&lock);
    sem_post(&tokens);
    until = after_us(200);
    if ((i + self) % 3 == 0) {
      while (pthread_rwlock_timedwrlock(&table, &until) != 0) until = after_us(300);
      ++writes;
    } else {
      while (pthread_rwlock_timedrdlock(&table, &until) != 0) until = after_us(300);
    }
    pthread_rwlock_unlock(&table);
  }
  return value;
}

static void giving_up(int n) {
  gone = writes = 0;
  sem_init(&tokens, 0, 2);
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &gives_up, (void*)i);
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  int value = 0;
  sem_getvalue(&tokens, &value);
  check_int("threads that give up and come again", gone * 1000 + writes * 10 + value);
}

int main(void) {
  const int n = thread_count();
  with_limits(n);
  with_cancellations();
  one_by_one(n);
  made_anew(n);
  conditions_on_stacks(n);
  giving_up(n);
  return finish();
}
