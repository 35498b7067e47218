/* What all test programs need. */
#ifndef CRATON_TESTS_PROGRAMS_RANK_H
#define CRATON_TESTS_PROGRAMS_RANK_H

#include <craton/craton.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with code 70 if a Craton function fails. */
static inline void must(craton_status status, const char* what) {
  if (status == CRATON_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, craton_status_name(status), craton_last_error());
  exit(70);
}

#endif
