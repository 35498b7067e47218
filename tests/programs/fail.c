/* fail HOW [RANK]: one rank (2, or the last of a smaller job) fails in a way of its own after the first
 * barrier, while the others wait in the second one. segfault, kill, abort, exit0, exit3: how it ends; hang:
 * it computes for ever; sleep: it sleeps in the kernel */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "rank.h"

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "segfault";
  must(craton_init(), "craton_init");
  int failing = argc > 2 ? atoi(argv[2]) : 2;
  if (failing >= craton_size()) failing = craton_size() - 1;
  if (strcmp(how, "hang") != 0) must(craton_barrier(), "craton_barrier");
  if (craton_rank() == failing) {
    if (strcmp(how, "segfault") == 0) {
      volatile int* volatile nowhere = (volatile int*)16; /* not null, which a sanitizer would catch first */
      signal(SIGSEGV, SIG_DFL);                           /* nor its handler */
      *nowhere = 1;
    }
    if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "exit0") == 0) exit(0);
    if (strcmp(how, "exit3") == 0) exit(3);
    for (volatile unsigned long work = 0;; ++work) {
      if (strcmp(how, "sleep") == 0) pause();
    }
  }
  must(craton_barrier(), "craton_barrier");
  must(craton_finalize(), "craton_finalize");
  return 0;
}
