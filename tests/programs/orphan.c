/* orphan HOW: starts a grandchild that leaves session and process group, ignores SIGTERM and sleeps for ever;
 * then exit: exits with 0; wait: sleeps for ever; fail: rank 1 exits with 9, the others sleep for ever.
 * Prints "ready" once the grandchild is on its own. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "exit";
  int ready[2];
  if (pipe(ready) != 0) return 2;
  if (fork() == 0) {
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      setsid();
      if (write(ready[1], "x", 1) != 1) _exit(2);
      for (;;) pause();
    }
    _exit(0);
  }
  char byte = 0;
  if (read(ready[0], &byte, 1) != 1) return 2;
  puts("ready");
  fflush(stdout);
  if (strcmp(how, "exit") == 0) return 0;
  if (strcmp(how, "fail") == 0 && strcmp(getenv("CRATON_RANK"), "1") == 0) return 9;
  for (;;) pause();
}
