/// \file
/// The environment of a program that names its list.
#define _GNU_SOURCE
#include <string.h>

#include "check.h"

enum { many = 50, bytes = 64 };

extern char** environ;

/// How many variables begin so.
static int count(const char* begin) {
  int found = 0;
  for (char** one = environ; one != NULL && *one != NULL; ++one)
    found += strncmp(*one, begin, strlen(begin)) == 0;
  return found;
}

static void set_some(int thread) {
  char name[bytes];
  for (int i = 0; i < many; ++i) {
    snprintf(name, sizeof name, "NAMED_%d_%d", thread, i);
#pragma omp critical
    setenv(name, "1", 1);
  }
}

int main(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    set_some(omp_get_thread_num());
#pragma omp barrier
    right += count("NAMED_") == many * omp_get_num_threads() && getenv("NAMED_0_0") != NULL;
  }
  check_int("set by all threads", right);
#ifndef __clang__  // whose programs use the C library's own variable: another on each rank
  static char* own[] = {"NAMED_OWN=1", NULL};
  environ = own;
  right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += getenv("NAMED_OWN") != NULL && getenv("NAMED_0_0") == NULL;
#pragma omp barrier
    if (omp_get_thread_num() == omp_get_num_threads() - 1) setenv("NAMED_LAST", "1", 1);
#pragma omp barrier
    right += count("NAMED_") == 2 && getenv("NAMED_LAST") != NULL;
  }
  check_int("a list of the program's", right);
#endif
  return finish();
}
