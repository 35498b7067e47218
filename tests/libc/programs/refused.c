/* What a program cannot do that runs on several ranks. Prints what became of it. */
#define _GNU_SOURCE
#include <pty.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  int terminal = -1;
  char* arguments[] = {"true", NULL};
  printf("fork %d", (int)fork());
  printf(" %s\n", strerror(errno));
  printf("_Fork %d", (int)_Fork());
  printf(" %s\n", strerror(errno));
  printf("forkpty %d", forkpty(&terminal, NULL, NULL, NULL));
  printf(" %s\n", strerror(errno));
  printf("execv %d", execv("/bin/true", arguments));
  printf(" %s\n", strerror(errno));
  printf("daemon %d", daemon(1, 1));
  printf(" %s\n", strerror(errno));
  return 0;
}
