/// \file
/// What ends waits early: handlers of signals, and cancellation, which ends nothing else in the middle.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "check.h"

static sem_t nothing;
static pthread_mutex_t mutex;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int cleaned;
static long long sum;

static void handle(int signal) {
  (void)signal;
}

static void set(int signal, int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = &handle;
  action.sa_flags = flags;
  sigaction(signal, &action, NULL);
}

struct Disturbed {
  pthread_t thread;
  int signal;
  int has_returned;
  int posts_after;  ///< so many signals, or at the end; 0: never
};

/// Sends signals to a thread until that has returned from its wait.
static void* disturb(void* of_whom) {
  struct Disturbed* const one = of_whom;
  int sent = 0;
  while (!__atomic_load_n(&one->has_returned, __ATOMIC_SEQ_CST)) {
    usleep(2000);
    pthread_kill(one->thread, one->signal);
    if (++sent == one->posts_after) sem_post(&nothing);
  }
  if (sent < one->posts_after) sem_post(&nothing);  // its thread took another's
  return NULL;
}

/// \returns 0, or the wait's error
static int wait_disturbed(int signal, const struct timespec* until, int posts_after) {
  struct Disturbed self = {pthread_self(), signal, 0, posts_after};
  pthread_t other;
  pthread_create(&other, NULL, &disturb, &self);
  const int result = until == NULL ? sem_wait(&nothing) : sem_timedwait(&nothing, until);
  const int error = result == 0 ? 0 : errno;
  __atomic_store_n(&self.has_returned, 1, __ATOMIC_SEQ_CST);
  pthread_join(other, NULL);
  return error;
}

static void handlers(void) {
  set(SIGUSR1, 0);
  set(SIGUSR2, SA_RESTART);
  sem_init(&nothing, 0, 0);
  struct timespec later;
  clock_gettime(CLOCK_REALTIME, &later);
  later.tv_sec += 60;
  int interrupted = 0;
  int restarted = 0;
#pragma omp parallel reduction(+ : interrupted, restarted)
  {
    take_part();
    interrupted += wait_disturbed(SIGUSR1, NULL, 0) == EINTR;
    interrupted += wait_disturbed(SIGUSR1, &later, 0) == EINTR;
#pragma omp barrier
    restarted += wait_disturbed(SIGUSR2, NULL, 3) == 0;
  }
  check_int("waits that handlers interrupted", interrupted);
  check_int("waits that went on after handlers", restarted);
}

static void note_locked(void* unused) {
  (void)unused;
  // Only its owner can unlock it.
  if (pthread_mutex_unlock(&mutex) == 0) __atomic_fetch_add(&cleaned, 1, __ATOMIC_SEQ_CST);
}

static void* wait_on_condition(void* unused) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(&note_locked, NULL);
  for (;;) pthread_cond_wait(&never, &mutex);
  pthread_cleanup_pop(0);
  return unused;
}

static void* wait_on_semaphore(void* unused) {
  while (sem_wait(&nothing) != 0) continue;
  return unused;
}

/// No cancellation point before its end.
static void* add_up(void* unused) {
  for (int i = 0; i < 300; ++i) {
    pthread_mutex_lock(&mutex);
    sum += i;
    pthread_mutex_unlock(&mutex);
  }
  for (;;) pause();
  return unused;
}

/// \returns how many of the team's threads were cancelled
static int cancel_each(void* (*body)(void*), int after_ms) {
  int cancelled = 0;
#pragma omp parallel reduction(+ : cancelled)
  {
    take_part();
    pthread_t thread;
    void* result = NULL;
    pthread_create(&thread, NULL, body, NULL);
    usleep(after_ms * 1000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  return cancelled;
}

static void cancellation(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&mutex, &attributes);
  check_int("cancelled in a condition", cancel_each(&wait_on_condition, 5));
  check_int("which found the mutex locked", cleaned);
  check_int("with nobody left on it", pthread_cond_destroy(&never));
  check_int("cancelled in a semaphore", cancel_each(&wait_on_semaphore, 5));
  sem_post(&nothing);
  check_int("which took nothing", sem_trywait(&nothing));
  check_int("cancelled elsewhere", cancel_each(&add_up, 0));
  check_int("which all added up", sum);
}

enum { poked_rounds = 3 };
static int poked;
static long long written[most_threads];

/// Needs, late, what others have changed meanwhile.
static void count_late(int signal) {
  (void)signal;
  usleep(30000);
  __atomic_fetch_add(&poked, 1, __ATOMIC_SEQ_CST);
}

static void* poke(void* thread) {
  usleep(5000);
  pthread_kill(*(pthread_t*)thread, SIGUSR1);
  return NULL;
}

/// Handlers that run where their threads wait in a barrier, and need what others do when they have left it.
static void handlers_in_barriers(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = &count_late;
  sigaction(SIGUSR1, &action, NULL);
  long long sums = 0;
#pragma omp parallel reduction(+ : sums)
  {
    take_part();
    const int self = omp_get_thread_num();
    pthread_t thread = pthread_self();
    for (int round = 1; round <= poked_rounds; ++round) {
      pthread_t other;
      written[self] = round;
      if (self == 0)
        usleep(15000);
      else
        pthread_create(&other, NULL, &poke, &thread);
#pragma omp barrier
      __atomic_fetch_add(&poked, 1, __ATOMIC_SEQ_CST);
      for (int i = 0; i < omp_get_num_threads(); ++i) sums += written[i];
      if (self != 0) pthread_join(other, NULL);
#pragma omp barrier
    }
  }
  // Who is poked when it has left the last wait counts later than anybody looks.
  for (int all = 2 * omp_get_max_threads() - 1;
       __atomic_load_n(&poked, __ATOMIC_SEQ_CST) < poked_rounds * all;)
    usleep(1000);
  check_int("in barriers that others leave", sums * 1000 + poked);
  signal(SIGUSR1, SIG_DFL);
}

int main(void) {
  handlers();
  handlers_in_barriers();
  cancellation();
  return finish();
}
