/* babble BYTES [LENGTH [RANK]]: writes about BYTES bytes in lines of LENGTH bytes (100), "r<rank> <number>
 * xxx...", and at the end "r<rank> end" without a newline. With RANK, only that rank does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  const char* rank = getenv("CRATON_RANK");
  const long bytes = argc > 1 ? atol(argv[1]) : 1000;
  const int length = argc > 2 ? atoi(argv[2]) : 100;
  if (rank == NULL || length < 32) return 2;
  if (argc > 3 && strcmp(argv[3], rank) != 0) return 0;
  char* line = malloc((size_t)length + 1);
  memset(line, 'x', (size_t)length);
  line[length - 1] = '\n';
  for (long number = 0; number < bytes / length; ++number) {
    char head[32];
    const int head_length = snprintf(head, sizeof head, "r%s %ld ", rank, number);
    memset(line, 'x', sizeof head - 1);
    memcpy(line, head, (size_t)head_length);
    if (fwrite(line, 1, (size_t)length, stdout) != (size_t)length) return 1;
  }
  printf("r%s end", rank);
  free(line);
  return fflush(stdout) == 0 ? 0 : 1;
}
