/* What these programs share: each thread of a parallel region does the same calls into its own part of shared
 * memory, and what is printed must not depend on where it runs. Without -fopenmp there is one thread. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#else
static inline int omp_get_thread_num(void) {
  return 0;
}
static inline int omp_get_num_threads(void) {
  return 1;
}
#endif

enum { threads_most = 16 };
static long failures;

/* A call whose value is known. Says so only where it is another one. */
#define CHECK(call, wanted)                                                                                \
  do {                                                                                                     \
    errno = 0;                                                                                             \
    long got_ = (long)(call);                                                                              \
    if (got_ != (long)(wanted)) {                                                                          \
      __atomic_fetch_add(&failures, 1, __ATOMIC_SEQ_CST);                                                  \
      fprintf(stderr, "%s:%d: %s is %ld, not %ld (%s)\n", __FILE__, __LINE__, #call, got_, (long)(wanted), \
              strerror(errno));                                                                            \
    }                                                                                                      \
  } while (0)

/* One that fails, and how. */
#define CHECK_ERROR(call, error)             \
  do {                                       \
    errno = 0;                               \
    long result_ = (long)(call);             \
    int error_ = errno;                      \
    CHECK(result_ == -1 || result_ == 0, 1); \
    CHECK(error_, error);                    \
  } while (0)

/* Memory that nobody has touched yet, from the start of a page. */
static inline void* fresh(size_t bytes) {
  void* memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (memory == NULL) abort();
  return memory;
}

/* A text at the start of such memory. */
static inline char* fresh_text(const char* text) {
  return strcpy(fresh(strlen(text) + 1), text);
}

static inline int report(const char* what) {
  printf("%s: %ld failures\n", what, failures);
  return failures == 0 ? 0 : 1;
}
