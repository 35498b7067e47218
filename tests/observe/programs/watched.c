// Runs until it is given a line: with "share" its threads share a block all the time; without, the first one
// waits for the line, in its own code, and the others wait for the first one at a barrier. A reduction comes
// first: the runtime has a thread for what it leaves to be added.
#include <omp.h>
#include <poll.h>
#include <stdio.h>

static long counters[64];
static int over = 0;

int main(int argc, char** argv) {
  (void)argv;
  int numbers = 0;
#pragma omp parallel num_threads(2) reduction(+ : numbers)
  numbers += omp_get_thread_num() + 1; /* no constant: those are added at once */
#pragma omp parallel num_threads(2)
  {
    const int own = omp_get_thread_num();
    if (own == 0) {
      puts("running");
      fflush(stdout);
      if (argc == 1) over = getchar();
    }
#pragma omp barrier
    while (!over) {
      counters[own]++;
#pragma omp barrier
      struct pollfd input = {.fd = 0, .events = POLLIN};
      if (own == 0) over = poll(&input, 1, 0) > 0;
#pragma omp barrier
    }
  }
  printf("%d\n", counters[0] == counters[1] && numbers == 3);
  return 0;
}
