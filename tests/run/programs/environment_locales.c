// The locale changes on all ranks, by what the environment says, while that is one that other ranks have not
// seen yet.
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { rounds = 30 };

int main(void) {
  int right = 0;
  for (int round = 0; round < rounds; ++round) {
    char name[32];
    for (int i = 0; i < 20; ++i) {
      snprintf(name, sizeof name, "OF_ROUND_%d_%d", round, i);
      setenv(name, name, 1);
    }
    const char* const locale = round % 2 == 0 ? "C.UTF-8" : "C";
    right += setlocale(LC_ALL, locale) != NULL;
#pragma omp parallel reduction(+ : right)
    {
      take_part();
      right += strcmp(setlocale(LC_CTYPE, NULL), locale) == 0 && strcmp(getenv(name), name) == 0;
    }
  }
  check_int("locales", right);
  return finish();
}
