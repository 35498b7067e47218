/// \file
/// Handles SIGINT and SIGTERM as long computations do: the handler sets a flag, and the loop ends in order.
/// With an argument, the loop is in a region.
#define _GNU_SOURCE
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void catch_it(int signal) {
  caught = signal;
}

int main(int count, char** words) {
  (void)words;
  signal(SIGINT, &catch_it);
  signal(SIGTERM, &catch_it);
  int team = 0;
#pragma omp parallel reduction(+ : team)
  {
    ++team;
    if (count > 1) {
#pragma omp master
      {
        printf("working\n");
        fflush(stdout);
        while (!caught) usleep(1000);
      }
    }
  }
  if (count == 1) {
    printf("working\n");
    fflush(stdout);
    while (!caught) usleep(1000);
  }
  printf("ended in order by %s, %d threads\n", strsignal(caught), team);
  return 5;
}
