/* Queues of messages and System V's other objects. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

union argument {
  int value;
  struct semid_ds* status;
  unsigned short* values;
};

static void semaphores(void) {
  enum { count = 4 };
  int set = semget(IPC_PRIVATE, count, 0600);
  CHECK(set >= 0, 1);
  union argument argument = {.values = fresh(count * sizeof(unsigned short))};
  for (int i = 0; i < count; ++i) argument.values[i] = (unsigned short)(i + 1);
  CHECK(semctl(set, 0, SETALL, argument), 0);
  argument.value = 9;
  CHECK(semctl(set, 1, SETVAL, argument), 0);
  CHECK(semctl(set, 1, GETVAL), 9);
  argument.values = fresh(count * sizeof(unsigned short));
  CHECK(semctl(set, 0, GETALL, argument), 0);
  CHECK(argument.values[1], 9);
  CHECK(argument.values[3], 4);
  argument.status = fresh(sizeof *argument.status);
  CHECK(semctl(set, 0, IPC_STAT, argument), 0);
  CHECK(argument.status->sem_nsems, count);
  struct sembuf* operation = fresh(sizeof *operation);
  *operation = (struct sembuf){.sem_num = 0, .sem_op = -2, .sem_flg = 0};
  struct timespec* limit = fresh(sizeof *limit);
  *limit = (struct timespec){0, 1000000};
  CHECK_ERROR(semtimedop(set, operation, 1, limit), EAGAIN);
  CHECK(semctl(set, 0, IPC_RMID), 0);
}

static void others(void) {
  int queue = msgget(IPC_PRIVATE, 0600);
  CHECK(queue >= 0, 1);
  struct msqid_ds* status = fresh(sizeof *status);
  CHECK(msgctl(queue, IPC_STAT, status), 0);
  CHECK(status->msg_qnum, 0);
  CHECK(msgctl(queue, IPC_RMID, NULL), 0);
  int memory = shmget(IPC_PRIVATE, 8192, 0600);
  CHECK(memory >= 0, 1);
  struct shmid_ds* shared = fresh(sizeof *shared);
  CHECK(shmctl(memory, IPC_STAT, shared), 0);
  CHECK(shared->shm_segsz, 8192);
  CHECK(shmctl(memory, IPC_RMID, NULL), 0);
}

static sem_t told;
static int* told_value;

/* On a thread of the C library's. */
static void tell(union sigval value) {
  int* place = fresh(sizeof *place);
  *place = value.sival_int;
  __atomic_store_n(&told_value, place, __ATOMIC_SEQ_CST);
  sem_post(&told);
}

static void messages(void) {
  char text[64];
  snprintf(text, sizeof text, "/craton-queues-%d", (int)getpid());
  char* name = fresh_text(text);
  struct mq_attr* wanted = fresh(sizeof *wanted);
  *wanted = (struct mq_attr){.mq_maxmsg = 4, .mq_msgsize = 5000};
  mqd_t queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, wanted);
  CHECK(queue >= 0, 1);
  struct mq_attr* got = fresh(sizeof *got);
  CHECK(mq_getattr(queue, got), 0);
  CHECK(got->mq_msgsize, 5000);
  struct sigevent* event = fresh(sizeof *event);
  memset(event, 0, sizeof *event);
  event->sigev_notify = SIGEV_THREAD;
  event->sigev_notify_function = &tell;
  event->sigev_value.sival_int = 8;
  CHECK(sem_init(&told, 0, 0), 0);
  CHECK(mq_notify(queue, event), 0);
  char* from = fresh(5000);
  memset(from, 'm', 5000);
  CHECK(mq_send(queue, from, 5000, 3), 0);
  CHECK(sem_wait(&told), 0);
  CHECK(*__atomic_load_n(&told_value, __ATOMIC_SEQ_CST), 8);
  unsigned* priority = fresh(sizeof *priority);
  char* to = fresh(9000);
  CHECK(mq_receive(queue, to, 9000, priority), 5000);
  CHECK(memcmp(from, to, 5000), 0);
  CHECK(*priority, 3);
  struct timespec* until = fresh(sizeof *until);
  *until = (struct timespec){1, 0};
  CHECK_ERROR(mq_timedreceive(queue, fresh(9000), 9000, priority, until), ETIMEDOUT);
  CHECK(mq_timedsend(queue, fresh_text("in time"), 8, 0, until), 0);
  CHECK(mq_close(queue), 0);
  queue = mq_open(fresh_text(name), O_RDONLY);
  CHECK(queue >= 0, 1);
  to = fresh(5000);
  CHECK(mq_receive(queue, to, 5000, NULL), 8);
  CHECK(strcmp(to, "in time"), 0);
  CHECK(mq_close(queue), 0);
  CHECK(mq_unlink(fresh_text(name)), 0);
  CHECK_ERROR(mq_open(fresh_text(name), O_RDONLY), ENOENT);
}

int main(void) {
#pragma omp parallel
  {
    semaphores();
    others();
  }
  messages();
  return report("queues");
}
