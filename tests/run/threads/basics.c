/// \file
/// Threads of pthreads: what they are given and give back, where they find data, and how they end.
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "check_threads.h"

enum { most = 64, words = 3000 };

static pthread_t thread_of[most];
static int counts[most][words];
static const char* argument_text;
static _Thread_local int own = 7;
static int* addresses[most];

// ---- What is written before, and by them

struct given {
  int number;
  int* from_heap;
  const int* on_stack;
};

static void* sum(void* value) {
  meet(thread_count());
  struct given* const mine = value;
  long total = mine->number + *mine->on_stack + own + (long)strlen(argument_text);
  for (int i = 0; i < words; ++i) total += mine->from_heap[i];
  for (int i = 0; i < words; ++i) counts[mine->number][i] = mine->number + i;
  own = mine->number;
  addresses[mine->number] = &own;
  free(mine->from_heap);
  free(mine);
  long* const result = malloc(sizeof *result);
  *result = total;
  return result;
}

static void data(int n) {
  const int on_stack = 1000;
  long total = 0;
  for (int i = 0; i < n; ++i) {
    struct given* const mine = malloc(sizeof *mine);
    *mine = (struct given){i, malloc(words * sizeof(int)), &on_stack};
    for (int j = 0; j < words; ++j) mine->from_heap[j] = i * j;
    pthread_create(&thread_of[i], NULL, &sum, mine);
  }
  for (int i = 0; i < n; ++i) {
    void* result = NULL;
    pthread_join(thread_of[i], &result);
    total += *(long*)result;
    free(result);
    for (int j = 0; j < words; ++j) total += counts[i][j];
    for (int j = 0; j < i; ++j) total += 1000000 * (addresses[i] == addresses[j] && i == j);
  }
  check_int("what threads are given and give", total);
  check_int("the thread-local variable of main", own);
}

// ---- pthread_self, which the creator finds too, before the thread has begun

static atomic_int right;

static void* is_found(void* value) {
  const long number = (long)value;
  if (pthread_equal(thread_of[number], pthread_self())) ++right;
  meet(thread_count());
  return NULL;
}

static void selves(int n) {
  right = 0;
  memset(thread_of, 0, sizeof thread_of);
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &is_found, (void*)i);
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  check_int("threads that find themselves", right == n);
}

// ---- Detached ones, of attributes and by others and by themselves

static sem_t done;

static void* detached(void* value) {
  meet(thread_count());
  if (value != NULL) pthread_detach(pthread_self());
  ++right;
  sem_post(&done);
  return NULL;
}

static void detaching(int n) {
  right = 0;
  sem_init(&done, 0, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 1 << 18);
  for (int i = 0; i < n; ++i) {
    pthread_t thread;
    pthread_create(&thread, i % 3 == 0 ? &attributes : NULL, &detached, i % 3 == 1 ? &done : NULL);
    if (i % 3 == 2) pthread_detach(thread);
  }
  for (int i = 0; i < n; ++i) sem_wait(&done);
  pthread_attr_destroy(&attributes);
  check_int("detached threads", right == n);
}

// ---- Signals, cancellation, names and the like from elsewhere

static atomic_int handled, cleaned;
static sem_t ready, may_end;

static void handle(int signal) {
  (void)signal;
  ++handled;
}
static void clean(void* value) {
  cleaned += (int)(long)value;
}

static atomic_int guarded;

/// Rust's library looks for it at the start of each thread.
static int has_guard(void) {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* begin = NULL;
  size_t bytes = 0, guard = 0;
  const char here = 0;
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  return guard >= 4096 && &here > (char*)begin && &here < (char*)begin + bytes;
}

static void* waits(void* value) {
  meet(thread_count());
  guarded += has_guard();
  pthread_cleanup_push(&clean, value);
  sem_post(&ready);
  while (sem_wait(&may_end) != 0 && handled == 0) continue;
  pthread_cleanup_pop(0);
  return value;
}

static void from_elsewhere(int n) {
  struct sigaction action = {.sa_handler = &handle};
  sigaction(SIGUSR1, &action, NULL);
  sem_init(&ready, 0, 0);
  sem_init(&may_end, 0, 0);
  handled = cleaned = right = 0;
  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &waits, (void*)(i + 1));
  for (int i = 0; i < n; ++i) sem_wait(&ready);
  for (int i = 0; i < n; ++i) {
    char name[16] = "";
    right += pthread_setname_np(thread_of[i], "worker") == 0;
    right += pthread_getname_np(thread_of[i], name, sizeof name) == 0 && strcmp(name, "worker") == 0;
    right += pthread_getname_np(thread_of[i], name, 3) == ERANGE;
    right += pthread_setname_np(thread_of[i], "much longer than a name may be") == ERANGE;
    int policy = -1;
    struct sched_param parameters = {.sched_priority = -1};
    right += pthread_getschedparam(thread_of[i], &policy, &parameters) == 0 && policy == SCHED_OTHER &&
             parameters.sched_priority == 0;
    right += pthread_setschedparam(thread_of[i], SCHED_IDLE, &parameters) == 0;
    right += pthread_getschedparam(thread_of[i], &policy, &parameters) == 0 && policy == SCHED_IDLE;
    right += pthread_setschedprio(thread_of[i], 0) == 0;
    right += pthread_setschedprio(thread_of[i], 5) == EINVAL;
    cpu_set_t set;
    right += pthread_getaffinity_np(thread_of[i], sizeof set, &set) == 0 && CPU_COUNT(&set) > 0;
    right += pthread_setaffinity_np(thread_of[i], sizeof set, &set) == 0;
    CPU_ZERO(&set);
    right += pthread_setaffinity_np(thread_of[i], sizeof set, &set) == EINVAL;
    right += pthread_kill(thread_of[i], 0) == 0;
    right += pthread_kill(thread_of[i], 1000) == EINVAL;
    right += pthread_tryjoin_np(thread_of[i], NULL) == EBUSY;
    right += pthread_cancel(thread_of[i]) == 0;
  }
  int cancelled = 0;
  for (int i = 0; i < n; ++i) {
    void* result = NULL;
    pthread_join(thread_of[i], &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  check_int("calls for threads", right == 16 * n);
  check_int("threads that are cancelled", cancelled == n && cleaned == n * (n + 1) / 2);
  check_int("stacks with a guard", guarded == n);

  for (long i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &waits, (void*)(i + 1));
  for (int i = 0; i < n; ++i) sem_wait(&ready);
  right = 0;
  // One after the other, again and again: a handler may run before its thread waits.
  for (int i = 0; i < n; ++i) {
    void* result = NULL;
    handled = 0;
    for (int error = EBUSY; error == EBUSY; error = pthread_tryjoin_np(thread_of[i], &result)) {
      if (i % 2 == 0)
        pthread_kill(thread_of[i], SIGUSR1);
      else
        pthread_sigqueue(thread_of[i], SIGUSR1, (union sigval){.sival_int = i});
      usleep(200);
    }
    right += result == (void*)(long)(i + 1) && handled >= 1;
  }
  check_int("threads that are signalled", right == n);
}

// ---- What a thread takes over

static void* takes_over(void* value) {
  (void)value;
  meet(thread_count());
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  right += sigismember(&blocked, SIGUSR2) == 1 && sigismember(&blocked, SIGUSR1) == 0;
  right += fegetround() == FE_UPWARD;
  right += sigismember(&blocked, SIGHUP) == 0;
  return NULL;
}

static void taking_over(int n) {
  right = 0;
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &one, &before);
  fesetround(FE_UPWARD);
  for (int i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &takes_over, NULL);
  fesetround(FE_TONEAREST);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  check_int("masks and rounding that threads take over", right == 3 * n);
}

// ---- Threads of threads

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long leaves;

static void* divide(void* value) {
  meet(0);
  const long depth = (long)value;
  if (depth == 0) {
    pthread_mutex_lock(&lock);
    ++leaves;
    pthread_mutex_unlock(&lock);
    pthread_exit((void*)1);
  }
  pthread_t halves[2];
  long total = 0;
  for (int i = 0; i < 2; ++i) pthread_create(&halves[i], NULL, &divide, (void*)(depth - 1));
  for (int i = 0; i < 2; ++i) {
    void* result = NULL;
    pthread_join(halves[i], &result);
    total += (long)result;
  }
  return (void*)total;
}

static void dividing(void) {
  void* const result = divide((void*)4);
  check_int("threads of threads", (long)result + leaves);
}

// ---- Many, one after the other and at a time

/// Calls that succeed leave errno as it is.
static void* keeps_errno(void* file) {
  char line[64];
  int kept = 0;
  for (int i = 0; i < 20; ++i) {
    errno = 0;
    pthread_mutex_lock(&lock);
    kept += errno == 0 && ftell(file) >= 0 && errno == 0;
    kept += fgets(line, sizeof line, file) != NULL && errno == 0;
    pthread_mutex_unlock(&lock);
    kept += errno == 0;
  }
  meet(thread_count());
  right += kept + (errno == 0);
  return NULL;
}

static void keeping_errno(int n) {
  right = 0;
  FILE* const file = tmpfile();
  for (int i = 0; i < 20 * n; ++i) fprintf(file, "line %d\n", i);
  rewind(file);
  for (int i = 0; i < n; ++i) pthread_create(&thread_of[i], NULL, &keeps_errno, file);
  errno = 0;
  for (int i = 0; i < n; ++i) pthread_join(thread_of[i], NULL);
  const int own = errno;
  fclose(file);
  check_int("errno after what succeeds", right == 61 * n && own == 0);
}

static void* end_at_once(void* value) {
  return value;
}

static void* meet_and_end(void* value) {
  meet(most);
  return value;
}

static void many(int n) {
  long total = 0;
  for (long i = 0; i < 200; ++i) {
    void* result = NULL;
    pthread_create(&thread_of[0], NULL, &end_at_once, (void*)i);
    pthread_create(&thread_of[1], NULL, &end_at_once, (void*)i);
    pthread_join(thread_of[1], &result);
    total += (long)result;
    pthread_join(thread_of[0], NULL);
  }
  for (long i = 0; i < most; ++i) pthread_create(&thread_of[i], NULL, &meet_and_end, (void*)i);
  for (int i = 0; i < most; ++i) {
    void* result = NULL;
    pthread_join(thread_of[i], &result);
    total += (long)result;
  }
  check_int("many threads", total + n);
}

int main(int count, char** arguments) {
  const int n = thread_count();
  argument_text = count > 1 ? arguments[1] : "";
  data(n);
  selves(n);
  detaching(n);
  from_elsewhere(n);
  taking_over(n);
  dividing();
  keeping_errno(n);
  many(n);
  check_int("processors", sysconf(_SC_NPROCESSORS_ONLN) > 0 && get_nprocs() == sysconf(_SC_NPROCESSORS_ONLN));
  return finish();
}
