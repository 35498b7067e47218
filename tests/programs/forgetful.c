/* forgetful JOIN READY LOOK SEEN [dies]: joins its job by control frames of these kinds, and leaves the first
 * question of who watches it without an answer, or dies before it has read it. */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct header {
  uint32_t length;
  uint16_t kind;
  uint16_t mark;
};

static int control;

/* A frame of so many bytes: 0 but for a time, where there is room. */
static void say(int kind, uint32_t length, uint64_t at_ns) {
  struct {
    struct header header;
    char body[64];
  } frame = {{length, (uint16_t)kind, 0xC7A7}, {0}};
  memcpy(frame.body + 4, &at_ns, sizeof at_ns);
  ssize_t bytes = (ssize_t)(sizeof frame.header + length);
  if (write(control, &frame, (size_t)bytes) != bytes) exit(98);
}

/* Reads a frame to its end. Returns its kind. */
static int hear(void) {
  struct header header;
  char byte;
  if (read(control, &header, sizeof header) != (ssize_t)sizeof header) exit(97);
  for (uint32_t i = 0; i < header.length; ++i) {
    if (read(control, &byte, 1) != 1) exit(97);
  }
  return header.kind;
}

int main(int argc, char** argv) {
  if (argc < 5) return 99;
  control = atoi(getenv("CRATON_CONTROL_FD"));
  say(atoi(argv[1]), 0, 0);
  hear(); /* the welcome */
  say(atoi(argv[2]), 0, 0);
  printf("ready\n");
  fflush(stdout);
  if (argc > 5) {
    struct pollfd question = {.fd = control, .events = POLLIN};
    poll(&question, 1, -1);
    raise(SIGKILL);
  }
  for (uint64_t questions = 0;;) {
    if (hear() != atoi(argv[3])) continue;
    if (++questions > 1) say(atoi(argv[4]), 60, questions); /* a RankLook */
  }
}
