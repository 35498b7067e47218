// Four threads of rank 0 write what rank 1 has written before. They go on until there is a line, or the end
// of the input; the program goes on until there is another.
#include <pthread.h>
#include <stdio.h>

enum { threads = 4, pages = 64, page_bytes = 4096 };
static volatile unsigned char written[threads][pages][page_bytes] __attribute__((aligned(page_bytes)));
static pthread_barrier_t have_written;
static pthread_mutex_t over = PTHREAD_MUTEX_INITIALIZER;

static void write_to(volatile unsigned char (*part)[page_bytes]) {
  for (int page = 0; page < pages; ++page) part[page][0]++;
}

static void* write_part(void* part) {
  write_to(part);
  pthread_barrier_wait(&have_written);
  pthread_mutex_lock(&over);
  pthread_mutex_unlock(&over);
  return NULL;
}

int main(void) {
#pragma omp parallel for num_threads(2) schedule(static, 1)
  for (int rank = 0; rank < 2; ++rank)
    for (int i = 0; rank == 1 && i < threads; ++i) write_to(written[i]);

  pthread_t started[threads];
  pthread_barrier_init(&have_written, NULL, threads + 1);
  pthread_mutex_lock(&over);
  for (int i = 0; i < threads; ++i) pthread_create(&started[i], NULL, write_part, (void*)written[i]);
  pthread_barrier_wait(&have_written);
  puts("running");
  fflush(stdout);
  getchar();
  pthread_mutex_unlock(&over);
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  puts("joined");
  fflush(stdout);
  getchar();
  return written[0][0][0] == 2 ? 0 : 1;
}
