/// \file
/// Puts files under standard output as the first argument says, and prints from all threads of a region,
/// first there and then where standard output went before.
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print(const char* where) {
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < 8; ++i) {
#pragma omp ordered
    printf("%s %d\n", where, i);
  }
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  print("before");
  if (strcmp(argv[1], "end") == 0) return fclose(stdout);
  const int kept = dup(STDOUT_FILENO);
  if (strcmp(argv[1], "freopen") == 0) {
    if (freopen(argv[2], "w", stdout) == NULL) return 3;
  } else if (strcmp(argv[1], "close") == 0) {
    close(STDOUT_FILENO);
    if (open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600) != STDOUT_FILENO) return 3;
  } else {
    const int file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (dup2(file, STDOUT_FILENO) != STDOUT_FILENO) return 3;
    close(file);
  }
  print("file");
  if (dup2(kept, STDOUT_FILENO) != STDOUT_FILENO) return 3;
  print("after");
  return 0;
}
