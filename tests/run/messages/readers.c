/// \file
/// A thread of each rank reads from a stream that nothing comes into when main returns: from standard input,
/// or from a pipe. What another stream holds is written all the same.
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void* read_line(void* stream) {
  char line[64];
  if (fgets(line, sizeof line, stream) != NULL) puts("read a line");
  return NULL;
}

int main(void) {
#pragma omp parallel
  {
    int ends[2];
    pthread_t thread;
    const int is_first = omp_get_thread_num() == 0;
    if (!is_first && pipe(ends) != 0) ends[0] = STDIN_FILENO;
    if (pthread_create(&thread, NULL, read_line, is_first ? stdin : fdopen(ends[0], "r")) != 0)
      puts("no thread");
    usleep(200000);  // they hold the locks of their streams now
  }
  setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
  printf("main returns");
  return 3;
}
