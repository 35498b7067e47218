/// \file
/// Keys of thread-specific values, made by any thread and used by all.
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "check.h"

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int ended;
static int of_thread[most_threads];

static void count(void* value) {
  __atomic_fetch_add((int*)value, 1, __ATOMIC_SEQ_CST);
}

static void make_key(void) {
  pthread_key_create(&key, &count);
}

/// \returns how many threads find in it what they have put there, and nothing before
static int used_by(pthread_key_t used) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    int* const own = &of_thread[omp_get_thread_num()];
    const int was_empty = pthread_getspecific(used) == NULL;
#pragma omp barrier
    right += was_empty && pthread_setspecific(used, own) == 0;
#pragma omp barrier
    right += pthread_getspecific(used) == own;
  }
  return right;
}

static void* use_key(void* unused) {
  pthread_setspecific(key, &ended);
  return unused;
}

static void by_the_first_thread(void) {
  pthread_key_create(&key, NULL);
  check_int("a key of the first thread", used_by(key));
  pthread_key_delete(key);
  int gone = 0;
#pragma omp parallel reduction(+ : gone)
  {
    take_part();
    gone += pthread_setspecific(key, &gone) != 0;
  }
  check_int("a key that was deleted", gone);
}

static void by_the_last_thread(void) {
  int made = 0;
#pragma omp parallel reduction(+ : made)
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) made += pthread_key_create(&key, NULL) == 0;
  }
  check_int("a key of the last thread", made * 1000 + used_by(key));
#pragma omp parallel reduction(+ : made)
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) made += pthread_key_delete(key) == 0;
  }
  check_int("deleted by the last thread", made);
}

/// All at once, and for some ranks the others' numbers are taken.
static void by_all(void) {
  static pthread_key_t keys[most_threads][20];
  int right = 0;
  int wrong = 0;
#pragma omp parallel reduction(+ : right, wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 20; ++i) right += pthread_key_create(&keys[self][i], NULL) == 0;
#pragma omp barrier
      for (int thread = 0; thread < omp_get_num_threads(); ++thread) {
        for (int i = 0; i < 20; ++i) {
          wrong += pthread_getspecific(keys[thread][i]) != NULL;
          wrong += pthread_setspecific(keys[thread][i], &keys[thread][i]) != 0;
        }
      }
      for (int thread = 0; thread < omp_get_num_threads(); ++thread) {
        for (int i = 0; i < 20; ++i) wrong += pthread_getspecific(keys[thread][i]) != &keys[thread][i];
      }
#pragma omp barrier
      for (int i = 0; i < 20; ++i) right += pthread_key_delete(keys[self][i]) == 0;
#pragma omp barrier
    }
  }
  check_int("keys of all threads at once", right);
  check_int("values in the wrong key", wrong);
}

/// Keys of which only one process knows, as libraries have them: their numbers are taken there alone.
static void beside_others(void) {
  pthread_key_t numbers[3];
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      const time_t begin = 0;
      pthread_key_t* const in_the_library = (pthread_key_t*)gmtime(&begin);
      for (int i = 0; i < 3; ++i) {
        right += pthread_key_create(in_the_library, NULL) == 0;
        numbers[i] = *in_the_library;
        right += pthread_setspecific(numbers[i], &numbers[i]) == 0;
      }
    }
  }
  right += pthread_key_create(&key, NULL) == 0;
  right += used_by(key);
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      for (int i = 0; i < 3; ++i) right += pthread_getspecific(numbers[i]) == &numbers[i];
      for (int i = 0; i < 3; ++i) right += pthread_key_delete(numbers[i]) == 0;
    }
  }
  pthread_key_delete(key);
  check_int("a key beside those of libraries", right);
}

static void with_destructor(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    pthread_once(&once, &make_key);
    pthread_t thread;
    right += pthread_create(&thread, NULL, &use_key, NULL) == 0 && pthread_join(thread, NULL) == 0;
  }
  check_int("values that were destroyed", right * 1000 + ended);
}

static void of_c11(void) {
  static tss_t made;
  int right = tss_create(&made, NULL) == thrd_success;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    int own = 0;
    right += tss_get(made) == NULL && tss_set(made, &own) == thrd_success && tss_get(made) == &own;
  }
  tss_delete(made);
  check_int("a key of C11", right);
}

int main(void) {
  by_the_first_thread();
  by_the_last_thread();
  by_all();
  beside_others();
  with_destructor();
  of_c11();
  return finish();
}
