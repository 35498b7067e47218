/// \file
/// The environment and limits, changed by any thread and found by all.
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "check.h"

enum { many = 100, bytes = 64 };

static char of_thread[most_threads][bytes];

static int is(const char* name, const char* value) {
  const char* const found = getenv(name);
  return found != NULL && strcmp(found, value) == 0;
}

/// \returns how many threads find it so
static int find(const char* name, const char* value) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += value == NULL ? getenv(name) == NULL : is(name, value);
  }
  return right;
}

static void by_one(void) {
  setenv("CHECK_FIRST", "of the first", 1);
  check_int("set by the first thread", find("CHECK_FIRST", "of the first"));
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      setenv("CHECK_LAST", "of the last", 1);
      setenv("CHECK_FIRST", "not this", 0);
    }
  }
  check_int("set by the last thread", find("CHECK_LAST", "of the last"));
  check_int("not set by the last thread", find("CHECK_FIRST", "of the first"));
  setenv("CHECK_LAST", "of the first", 1);
  check_int("set again", find("CHECK_LAST", "of the first"));
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) unsetenv("CHECK_FIRST");
  }
  check_int("no longer set", find("CHECK_FIRST", NULL));
}

/// Each thread makes variables of its own, so that lists grow.
static void by_all(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    const int self = omp_get_thread_num();
    char name[bytes];
    char value[bytes];
    for (int i = 0; i < many; ++i) {
      snprintf(name, sizeof name, "CHECK_%d_%d", self, i);
      snprintf(value, sizeof value, "%d", i * self);
#pragma omp critical
      {
        setenv(name, value, 1);
        right += is(name, value) && is("CHECK_LAST", "of the first");
      }
    }
#pragma omp barrier
    const int next = (self + 1) % omp_get_num_threads();
    for (int i = 0; i < many; ++i) {
      snprintf(name, sizeof name, "CHECK_%d_%d", next, i);
      snprintf(value, sizeof value, "%d", i * next);
      right += is(name, value);
    }
  }
  check_int("set by all threads", right);
}

static void by_texts(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    const int self = omp_get_thread_num();
    snprintf(of_thread[self], bytes, "CHECK_TEXT_%d=first", self);
#pragma omp critical
    putenv(of_thread[self]);
#pragma omp barrier
    const int next = (self + 1) % omp_get_num_threads();
    char name[bytes];
    snprintf(name, sizeof name, "CHECK_TEXT_%d", next);
    right += is(name, "first");
#pragma omp barrier
    snprintf(of_thread[self], bytes, "CHECK_TEXT_%d=second", self);
#pragma omp barrier
    right += is(name, "second");
  }
  check_int("texts of the program", right);
  FILE* const child = popen("echo $CHECK_TEXT_0", "r");
  char line[bytes] = "";
  if (child != NULL && fgets(line, sizeof line, child) == NULL) line[0] = '\0';
  if (child != NULL) pclose(child);
  check_text("of a child", line);
}

static void limits(void) {
  int right = 0;
#pragma omp parallel
  {
    take_part();
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 8192};
    if (omp_get_thread_num() == omp_get_num_threads() - 1) setrlimit(RLIMIT_CORE, &limit);
  }
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    struct rlimit limit;
    right += getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 4096 && limit.rlim_max == 8192;
  }
  struct rlimit before;
  struct rlimit limit = {.rlim_cur = 0, .rlim_max = 4096};
  right += prlimit(getpid(), RLIMIT_CORE, &limit, &before) == 0 && before.rlim_cur == 4096;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    struct rlimit found;
    right += prlimit(0, RLIMIT_CORE, NULL, &found) == 0 && found.rlim_cur == 0 && found.rlim_max == 4096;
  }
  limit.rlim_cur = 8192;  // more than the most
  right += setrlimit(RLIMIT_CORE, &limit) == -1;
  // Of memory, as programs set it that are told how much they may take: more than this one needs.
  getrlimit(RLIMIT_AS, &before);
  limit = (struct rlimit){.rlim_cur = 4UL << 30, .rlim_max = before.rlim_max};
  right += setrlimit(RLIMIT_AS, &limit) == 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    struct rlimit found;
    right += getrlimit(RLIMIT_AS, &found) == 0 && found.rlim_cur == 4UL << 30;
    void* const block = malloc(8 << 20);
    right += block != NULL;
    free(block);
  }
  // Less than they want: all that is to be had together.
  limit.rlim_cur = 1UL << 30;
  right += setrlimit(RLIMIT_AS, &limit) == 0;
  int blocks = 0;
#pragma omp parallel reduction(+ : right, blocks)
  {
    take_part();
    enum { most = 40, block_bytes = 64 << 20 };
    void* had[most];
    int count = 0;
    errno = 0;
    while (count < most && (had[count] = malloc(block_bytes)) != NULL) ++count;
    right += count < most && errno == ENOMEM;
    const size_t more = 2UL << 30;
    right += mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM;
    right += mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
             errno == ENOMEM;
    blocks += count;
#pragma omp barrier
    while (count > 0) free(had[--count]);
  }
  right += blocks > 0 && blocks < 16;  // some of it was in use
  right += setrlimit(RLIMIT_AS, &before) == 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    void* const block = malloc(1UL << 30);
    right += block != NULL;
    free(block);
  }
  check_int("limits", right);
}

int main(void) {
  by_one();
  by_all();
  by_texts();
  limits();
  clearenv();
  check_int("nothing set", find("CHECK_LAST", NULL));
  return finish();
}
