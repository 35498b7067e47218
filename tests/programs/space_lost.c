/* The last rank kills itself, and the others say what a barrier says, twice, until they are ended. */
#define _DEFAULT_SOURCE
#include <craton/space.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "rank.h"

static void say(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) _exit(71);
}

int main(void) {
  must(craton_init(), "craton_init");
  must(craton_space_open(NULL), "craton_space_open");
  signal(SIGTERM, SIG_IGN); /* there is some time left */
  must(craton_space_barrier(0), "craton_space_barrier");
  if (craton_rank() == craton_size() - 1) kill(getpid(), SIGKILL);
  for (int i = 0; i < 2; ++i) {
    const craton_status status = craton_space_barrier(0);
    say(status == CRATON_PEER_LOST ? "lost\n" : craton_status_name(status));
  }
  for (;;) pause();
}
