/* Calls in the wrong state and out of range return what craton.h says. Prints "ok" if they do. */
#define _DEFAULT_SOURCE
#include <craton/space.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank.h"

static int checks_failed = 0;
#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) {                                           \
      fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
      ++checks_failed;                                            \
    }                                                             \
  } while (0)

/* It has no part in the job, which goes on. */
static void check_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    checks_failed = 0;
    CHECK(craton_barrier() == CRATON_NOT_SUPPORTED);
    CHECK(strstr(craton_last_error(), "forked") != NULL);
    CHECK(craton_space_open(NULL) == CRATON_NOT_SUPPORTED);
    CHECK(craton_finalize() == CRATON_NOT_SUPPORTED);
    _exit(checks_failed);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

int main(void) {
  CHECK(craton_initialized() == 0);
  CHECK(strcmp(craton_last_error(), "") == 0);
  CHECK(craton_rank() == -1);
  CHECK(strstr(craton_last_error(), "craton_rank") != NULL);
  CHECK(craton_size() == -1);
  CHECK(craton_node() == -1);
  CHECK(craton_barrier() == CRATON_NOT_INITIALISED);
  CHECK(craton_finalize() == CRATON_NOT_INITIALISED);
  must(craton_init(), "craton_init");
  CHECK(getenv("CRATON_CONTROL_FD") == NULL);
  CHECK(getenv("CRATON_RANK") == NULL);
  CHECK(craton_initialized() == 1);
  CHECK(craton_init() == CRATON_INVALID_ARGUMENT);
  CHECK(craton_rank() >= 0 && craton_rank() < craton_size());
  CHECK(craton_node_of(craton_rank()) == craton_node());
  CHECK(craton_node_of(0) == 0);
  CHECK(craton_node_of(-1) == -1);
  CHECK(craton_node_of(craton_size()) == -1);
  CHECK(strstr(craton_last_error(), "the job has ranks 0 to") != NULL);
  CHECK(craton_barrier() == CRATON_OK);
  check_child();
  CHECK(craton_barrier() == CRATON_OK);
  CHECK(craton_finalize() == CRATON_OK);
  CHECK(craton_initialized() == 0);
  CHECK(craton_finalize() == CRATON_NOT_INITIALISED);
  CHECK(craton_init() == CRATON_INVALID_ARGUMENT);
  CHECK(strcmp(craton_status_name(CRATON_PEER_LOST), "peer_lost") == 0);
  CHECK(strcmp(craton_status_name((craton_status)99), "unknown") == 0);
  if (checks_failed == 0) puts("ok");
  return checks_failed == 0 ? 0 : 1;
}
