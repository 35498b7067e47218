/* mapped_lock FILE: threads count under a mutex and a semaphore that lie in a file which they have mapped, as
 * processes share them. Says how many counts are right. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { threads = 6, rounds = 100, numbers = 900 };

static struct {
  pthread_mutex_t lock;
  sem_t semaphore;
  pthread_barrier_t meeting;
} * mapped;
static long counts[2][numbers];
static int processes[threads];

static void* count_up(void* self) {
  processes[(long)self] = (int)getpid();
  pthread_barrier_wait(&mapped->meeting);
  for (int round = 0; round < rounds; ++round) {
    pthread_mutex_lock(&mapped->lock);
    for (int i = 0; i < numbers; ++i) ++counts[0][i];
    pthread_mutex_unlock(&mapped->lock);
    sem_wait(&mapped->semaphore);
    for (int i = 0; i < numbers; ++i) ++counts[1][i];
    sem_post(&mapped->semaphore);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
  if (file < 0 || ftruncate(file, 4096) != 0) return 1;
  mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return 1;
  pthread_mutexattr_t of_lock;
  pthread_mutexattr_init(&of_lock);
  pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&mapped->lock, &of_lock);
  sem_init(&mapped->semaphore, 1, 1);
  pthread_barrierattr_t of_meeting;
  pthread_barrierattr_init(&of_meeting);
  pthread_barrierattr_setpshared(&of_meeting, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&mapped->meeting, &of_meeting, threads);
  pthread_t made[threads];
  for (long i = 0; i < threads; ++i)
    if (pthread_create(&made[i], NULL, &count_up, (void*)i) != 0) return 1;
  for (int i = 0; i < threads; ++i) pthread_join(made[i], NULL);
  int right = 0;
  for (int i = 0; i < numbers; ++i)
    right += (counts[0][i] == threads * rounds) + (counts[1][i] == threads * rounds);
  int others = 0;
  for (int i = 0; i < threads; ++i) others += processes[i] != processes[0];
  printf("%d right, %s\n", right, others != 0 ? "over ranks" : "in one process");
  return 0;
}
