/// \file
/// What pthreads' functions promise beyond the usual: errors, robust mutexes, joins that are cancelled, what
/// a signal finds, threads that are cancelled wherever they are, attributes.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>

#include "check_threads.h"

enum { most = 64 };

static pthread_t thread_of[most];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t ready;
static sem_t go_on;

static void start(int n, void* (*body)(void*)) {
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, body, (void*)i);
}

/// \returns the sum of what they return
static long join_all(int n) {
  long sum = 0;
  for (int i = 0; i < n; ++i) {
    void* result = NULL;
    pthread_join(thread_of[i], &result);
    sum += (long)result;
  }
  return sum;
}

/// The first thing that threads do: a pipe that main has opened is theirs as well.
static int ends_of_pipe[2];

static void* reads(void* value) {
  char byte = 0;
  const long right = read(ends_of_pipe[0], &byte, 1) == 1 && byte == 'x';
  meet(thread_count());
  return (void*)(right + (value == &ready));
}

static void at_once(int n) {
  if (pipe(ends_of_pipe) != 0) abort();
  for (int i = 0; i < n; ++i)
    if (write(ends_of_pipe[1], "x", 1) != 1) abort();
  start(n, &reads);
  const long right = join_all(n);
  close(ends_of_pipe[0]);
  close(ends_of_pipe[1]);
  check_int("reads at once", right);
}

/// Time limits that are none, of what can be had only later.
static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t none;

static void* no_times(void* value) {
  const struct timespec wrong[] = {{.tv_sec = 1, .tv_nsec = -1}, {.tv_sec = 1, .tv_nsec = 1000000000}};
  meet(thread_count());
  long right = value == &none;
  for (int i = 0; i < 2; ++i) {
    const struct timespec* const until = &wrong[i];
    right += pthread_mutex_timedlock(&taken, until) == EINVAL;
    right += pthread_mutex_clocklock(&taken, CLOCK_MONOTONIC, until) == EINVAL;
    right += pthread_rwlock_timedrdlock(&written, until) == EINVAL;
    right += pthread_rwlock_timedwrlock(&written, until) == EINVAL;
    right += pthread_rwlock_clockrdlock(&written, CLOCK_MONOTONIC, until) == EINVAL;
    right += sem_timedwait(&none, until) == -1 && errno == EINVAL;
    right += sem_clockwait(&none, CLOCK_MONOTONIC, until) == -1 && errno == EINVAL;
    pthread_mutex_lock(&lock);
    right += pthread_cond_timedwait(&never, &lock, until) == EINVAL;
    right += pthread_cond_clockwait(&never, &lock, CLOCK_MONOTONIC, until) == EINVAL;
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  right += pthread_mutex_timedlock(&own, &wrong[0]) == 0;
  return (void*)right;
}

static void time_limits(int n) {
  sem_init(&none, 0, 0);
  pthread_mutex_lock(&taken);
  pthread_rwlock_wrlock(&written);
  start(n, &no_times);
  const long right = join_all(n);
  pthread_rwlock_unlock(&written);
  pthread_mutex_unlock(&taken);
  check_int("times that are none", right == 19L * n);
}

/// No more than a semaphore can count.
static sem_t full;

static void* posts(void* value) {
  meet(thread_count());
  return (void*)(long)(value != &full && sem_post(&full) == -1 && errno == EOVERFLOW);
}

static void overflow(int n) {
  sem_init(&full, 0, SEM_VALUE_MAX);
  start(n, &posts);
  const long refused = join_all(n);
  int value = 0;
  sem_getvalue(&full, &value);
  check_int("a semaphore at its end", refused == n && value == SEM_VALUE_MAX);
}

/// One thread after the other ends with a robust mutex. Who comes next is told, and puts things in order.
static pthread_mutex_t robust;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long protected, turn, told;

static void make_robust(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&robust, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static void take_over(int result) {
  if (result != EOWNERDEAD) return;
  ++told;
  pthread_mutex_consistent(&robust);
}

static void* leaves_it_locked(void* value) {
  meet(thread_count());
  const int result = (long)value % 2 == 0 ? pthread_mutex_lock(&robust) : pthread_mutex_trylock(&robust);
  if (result == EBUSY) return leaves_it_locked((void*)((long)value + 1));
  take_over(result);
  ++protected;
  if ((long)value % 3 == 0) pthread_exit(NULL);
  return NULL;
}

/// Who waits for a condition finds out when it has the mutex again.
static void* waits_for_turn(void* value) {
  meet(thread_count());
  take_over(pthread_mutex_lock(&robust));
  while (turn != (long)value) take_over(pthread_cond_wait(&turned, &robust));
  ++turn;
  pthread_cond_broadcast(&turned);
  return NULL;
}

static void robust_mutexes(int n) {
  make_robust();
  start(n, &leaves_it_locked);
  join_all(n);
  const int last = pthread_mutex_lock(&robust);
  take_over(last);
  pthread_mutex_unlock(&robust);
  check_int("robust mutexes left locked", protected * 100 + told * 10 + (last == EOWNERDEAD));
  told = 0;
  start(n, &waits_for_turn);
  join_all(n);
  take_over(pthread_mutex_lock(&robust));
  pthread_mutex_unlock(&robust);
  check_int("conditions of a robust mutex", turn * 100 + (told >= n));
}

/// Who does not put it in order leaves a mutex that nobody gets. One after the other.
static sem_t turns[most];

static void* comes_late(void* value) {
  meet(thread_count());
  sem_wait(&turns[(long)value]);
  const int result = pthread_mutex_lock(&robust);
  if (result == EOWNERDEAD) pthread_mutex_unlock(&robust);
  return (void*)(long)result;  // the first one with the mutex
}

static void lost_for_good(int n) {
  make_robust();
  for (int i = 0; i < n; ++i) sem_init(&turns[i], 0, 0);
  start(n, &comes_late);
  int right = 0;
  for (int i = 0; i < n; ++i) {
    sem_post(&turns[i]);
    void* result = NULL;
    pthread_join(thread_of[i], &result);
    right += (long)result == (i == 0 ? 0 : i == 1 ? EOWNERDEAD : ENOTRECOVERABLE);
  }
  check_int("a mutex that nobody gets", right);
}

/// What a thread has locked it cannot wait for, and another may unlock what has no owner.
static pthread_rwlock_t tables[most];
static pthread_mutex_t handed[most];

static void* locks_its_own(void* value) {
  meet(thread_count());
  pthread_rwlock_t* const table = &tables[(long)value];
  const struct timespec past = {.tv_sec = 1};
  long right = pthread_rwlock_wrlock(table) == 0;
  right += pthread_rwlock_rdlock(table) == EDEADLK;
  right += pthread_rwlock_wrlock(table) == EDEADLK;
  right += pthread_rwlock_timedrdlock(table, &past) == EDEADLK;
  right += pthread_rwlock_timedwrlock(table, &past) == EDEADLK;
  right += pthread_rwlock_tryrdlock(table) == EBUSY;
  right += pthread_rwlock_unlock(table) == 0;
  right += pthread_rwlock_rdlock(table) == 0;
  right += pthread_rwlock_unlock(table) == 0;
  return (void*)(right + (pthread_mutex_lock(&handed[(long)value]) == 0));
}

static void own_locks(int n) {
  for (int i = 0; i < n; ++i) {
    pthread_rwlock_init(&tables[i], NULL);
    handed[i] = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
  }
  start(n, &locks_its_own);
  check_int("locks of one's own", join_all(n));
  int right = 0;
  for (int i = 0; i < n; ++i) {
    right += pthread_mutex_destroy(&handed[i]) == EBUSY;
    right += pthread_mutex_unlock(&handed[i]) == 0;
    right += pthread_mutex_trylock(&handed[i]) == 0;
    right += pthread_mutex_unlock(&handed[i]) == 0;
    right += pthread_mutex_destroy(&handed[i]) == 0;
  }
  check_int("mutexes that others have locked", right);
}

/// A join that is cancelled leaves the thread to another one.
static void* is_joined(void* value) {
  meet(thread_count());
  sem_wait(&go_on);
  return (void*)((long)value + 1);
}

static void* joins_in_vain(void* thread) {
  sem_post(&ready);
  pthread_join((pthread_t)thread, NULL);
  return NULL;
}

static void cancelled_joins(int n) {
  sem_init(&ready, 0, 0);
  sem_init(&go_on, 0, 0);
  start(n, &is_joined);
  long cancelled = 0;
  for (int i = 0; i < n; ++i) {
    pthread_t joiner;
    pthread_create(&joiner, NULL, &joins_in_vain, (void*)thread_of[i]);
    sem_wait(&ready);
    if (i % 2 == 0) usleep(2000);  // half of them when they wait by now, half at once: both must end
    pthread_cancel(joiner);
    void* result = NULL;
    pthread_join(joiner, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  for (int i = 0; i < n; ++i) sem_post(&go_on);
  check_int("cancelled joins", cancelled * 1000 + join_all(n));
}

/// Who gets a signal finds what was written before it was sent.
static volatile pthread_t receiver;
static volatile long wrong_receivers;

static void handle(int number) {
  if (number != SIGUSR1 || receiver != pthread_self()) wrong_receivers = 1;
  sem_post(&ready);
}

static void signals_in_order(int n) {
  signal(SIGUSR1, &handle);
  sem_init(&go_on, 0, 0);
  start(n, &is_joined);
  for (int i = 0; i < 5 * n; ++i) {
    receiver = thread_of[i % n];
    pthread_kill(thread_of[i % n], SIGUSR1);
    while (sem_wait(&ready) != 0) continue;
  }
  for (int i = 0; i < n; ++i) sem_post(&go_on);
  join_all(n);
  check_int("what signals find", wrong_receivers);
}

/// Threads that compute on memory of all ranks, and call nothing, are cancelled where they are.
static long numbers[1 << 15];

static void* computes(void* value) {
  meet(thread_count());
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  sem_post(&ready);
  for (unsigned long at = (unsigned long)value;; at = at * 5 + 1)
    ((volatile long*)numbers)[at % (sizeof numbers / sizeof numbers[0])] += 1;
  return NULL;
}

static void cancelled_anywhere(int n) {
  long cancelled = 0;
  for (int round = 0; round < 3; ++round) {
    start(n, &computes);
    for (int i = 0; i < n; ++i) sem_wait(&ready);
    for (int i = 0; i < n; ++i) pthread_cancel(thread_of[i]);
    for (int i = 0; i < n; ++i) {
      void* result = NULL;
      pthread_join(thread_of[i], &result);
      cancelled += result == PTHREAD_CANCELED;
    }
    if (round < 2) count_processes("cancelled while they compute");
  }
  check_int("cancelled while they compute", cancelled);
}

/// Children of the process are those of all threads.
static pid_t child_of[most];

static int start_child(long number) {
  char text[32];
  snprintf(text, sizeof text, "exit %ld", number);
  char* const words[] = {"sh", "-c", text, NULL};
  return posix_spawn(&child_of[number], "/bin/sh", NULL, NULL, words, environ);
}

static int ends_with(long number, int wanted) {
  int status = 0;
  siginfo_t information = {0};
  const int is_known = waitid(P_PID, (id_t)child_of[number], &information, WEXITED | WNOWAIT) == 0 &&
                       information.si_pid == child_of[number];
  return is_known && waitpid(child_of[number], &status, 0) == child_of[number] && WIFEXITED(status) &&
         WEXITSTATUS(status) == wanted;
}

static void* waits_for_child(void* value) {
  meet(thread_count());
  return (void*)(long)ends_with((long)value, (int)(long)value);
}

static void* starts_child(void* value) {
  meet(thread_count());
  return (void*)(long)(start_child((long)value) == 0);
}

static void children(int n) {
  long right = 0;
  for (long i = 0; i < n; ++i) right += start_child(i) == 0;
  start(n, &waits_for_child);
  check_int("waited for by threads", right + join_all(n));
  start(n, &starts_child);
  right = join_all(n);
  for (int i = 0; i < n; ++i) right += ends_with(i, i);
  check_int("started by threads", right);
  check_int("none is left", waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

/// What a thread is to be, and cannot.
static void* on_one_processor(void* value) {
  meet(thread_count());
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  return (void*)(long)(value != numbers && CPU_COUNT(&mask) == 1);
}

static void* has_signal_blocked(void* value) {
  meet(thread_count());
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  return (void*)(long)(value != numbers && sigismember(&mask, SIGUSR2) == 1);
}

static void* meet_others(void* value) {
  meet(thread_count());
  return value;
}

static void attributes_of_threads(int n) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  cpu_set_t all;
  cpu_set_t one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int i = 0; CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], &attributes, &on_one_processor, (void*)i);
  check_int("bound by their attributes", join_all(n));

  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_attr_setsigmask_np(&attributes, &blocked);
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], &attributes, &has_signal_blocked, (void*)i);
  check_int("masked by their attributes", join_all(n));
  pthread_attr_setsigmask_np(&attributes, NULL);

  // Each to one of all that there are, of which other ranks may have some.
  int bound = 0;
  for (int i = 0, processor = 0; i < n; ++i, ++processor) {
    while (!CPU_ISSET(processor % CPU_SETSIZE, &all)) ++processor;
    CPU_ZERO(&one);
    CPU_SET(processor % CPU_SETSIZE, &one);
    pthread_attr_setaffinity_np(&attributes, sizeof one, &one);
    bound += pthread_create(&thread_of[i], &attributes, &meet_others, NULL) == 0;
    bound += pthread_setaffinity_np(thread_of[i], sizeof one, &one) == 0;
  }
  join_all(n);
  bound += sched_setaffinity(0, sizeof one, &one) == 0;
  sched_setaffinity(0, sizeof all, &all);
  check_int("bound to any", bound);
  check_int("processors that are bound to", CPU_COUNT(&all) >= get_nprocs());
  pthread_attr_setaffinity_np(&attributes, sizeof all, &all);

  // A priority of one policy, and another policy.
  const struct sched_param high = {.sched_priority = sched_get_priority_max(SCHED_FIFO)};
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
  pthread_attr_setschedparam(&attributes, &high);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  int refused = 0;
  for (int i = 0; i < n; ++i)
    refused += pthread_create(&thread_of[i], &attributes, &on_one_processor, NULL) == EINVAL;
  pthread_attr_destroy(&attributes);
  check_int("priorities that are none", refused);
}

int main(void) {
  const int n = thread_count();
  sem_init(&ready, 0, 0);
  at_once(n);
  time_limits(n);
  overflow(n);
  robust_mutexes(n);
  lost_for_good(n);
  own_locks(n);
  cancelled_joins(n);
  signals_in_order(n);
  cancelled_anywhere(n);
  children(n);
  attributes_of_threads(n);
  return finish();
}
