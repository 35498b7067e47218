/// \file
/// A handler posts semaphores while its thread is in the middle of atomic operations that take a lock.
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>

enum { semaphores = 2048, rounds = 200 }; /* so many that one shares its lock with the object */
typedef struct {
  long part[3];
} Wide;

static _Atomic Wide wide;
static sem_t posted[semaphores];
static volatile sig_atomic_t calls;

static void post_all(int signal) {
  (void)signal;
  for (int i = 0; i < semaphores; ++i) sem_post(&posted[i]);
  ++calls;
}

int main(void) {
  for (int i = 0; i < semaphores; ++i) sem_init(&posted[i], 0, 0);
#pragma omp parallel
  atomic_store(&wide, (Wide){{0}});
  signal(SIGALRM, &post_all);
  const struct itimerval soon = {.it_value = {.tv_usec = 300}};
  int turns = 0;
  for (int round = 0; round < rounds; ++round) {
    const int before = calls;
    setitimer(ITIMER_REAL, &soon, NULL);
    for (; calls == before; ++turns) {
      Wide value = atomic_load(&wide);
      ++value.part[2];
      atomic_store(&wide, value);
    }
  }
  const Wide last = atomic_load(&wide);
  int value = 0;
  sem_getvalue(&posted[semaphores - 1], &value);
  printf("%s\n", last.part[2] == turns && value == rounds ? "right" : "wrong");
  return 0;
}
