/* ended KIND CODE: the last rank tells its node, by a control frame of this kind, that the program has ended
 * with this code; then all wait to be ended. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  int rank = atoi(getenv("CRATON_RANK"));
  if (rank == atoi(getenv("CRATON_SIZE")) - 1) {
    struct {
      uint32_t length;
      uint16_t kind;
      uint16_t mark;
      uint32_t code;
    } frame = {4, (uint16_t)atoi(argv[1]), 0xC7A7, (uint32_t)atoi(argv[2])};
    printf("said before\n");
    fflush(stdout);
    if (write(atoi(getenv("CRATON_CONTROL_FD")), &frame, sizeof frame) != (ssize_t)sizeof frame) return 98;
  }
  for (;;) pause();
}
