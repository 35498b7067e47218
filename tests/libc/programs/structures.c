/* Calls that fill structures, and that wait. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* One page each, untouched. */
static struct { char page[4096]; } __attribute__((aligned(4096))) untouched[threads_most];

static void structures(int me) {
  CHECK(gettimeofday(fresh(sizeof(struct timeval)), NULL), 0);
  CHECK(clock_gettime(CLOCK_MONOTONIC, (struct timespec*)&untouched[me]), 0);
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, fresh(sizeof(struct timespec))), 0);
  CHECK(clock_getres(CLOCK_REALTIME, fresh(sizeof(struct timespec))), 0);
  CHECK(times(fresh(sizeof(struct tms))) > 0, 1);
  CHECK(getrusage(RUSAGE_SELF, fresh(sizeof(struct rusage))), 0);
  struct utsname* name = fresh(sizeof *name);
  CHECK(uname(name), 0);
  CHECK(strcmp(name->sysname, "Linux"), 0);
  CHECK(sysinfo(fresh(sizeof(struct sysinfo))), 0);
  CHECK(getrlimit(RLIMIT_CORE, fresh(sizeof(struct rlimit))), 0);
  cpu_set_t* set = fresh(sizeof *set);
  CHECK(sched_getaffinity(0, sizeof *set, set), 0);
  CHECK(CPU_COUNT(set) > 0, 1);
  CHECK(pthread_getaffinity_np(pthread_self(), sizeof *set, fresh(sizeof *set)), 0);
  CHECK(pthread_setaffinity_np(pthread_self(), sizeof *set, set), 0);
  struct timespec* little = fresh(sizeof *little);
  *little = (struct timespec){0, 1000};
  CHECK(nanosleep(little, fresh(sizeof *little)), 0);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, little, NULL), 0);
  CHECK(getgroups(0, NULL) >= 0, 1);
  CHECK(syscall(SYS_getrusage, RUSAGE_SELF, fresh(sizeof(struct rusage))), 0);
  CHECK(getresuid(fresh(sizeof(uid_t)), fresh(sizeof(uid_t)), fresh(sizeof(uid_t))), 0);
  CHECK(getresgid(fresh(sizeof(gid_t)), fresh(sizeof(gid_t)), fresh(sizeof(gid_t))), 0);
  CHECK(sched_rr_get_interval(0, fresh(sizeof(struct timespec))), 0);
  char* called = fresh(16);
  CHECK(prctl(PR_SET_NAME, fresh_text("worker")), 0);
  CHECK(prctl(PR_GET_NAME, called), 0);
  CHECK(strcmp(called, "worker"), 0);
  CHECK(prctl(PR_GET_PDEATHSIG, fresh(sizeof(int))), 0);
  char* locked = fresh(65536);
  CHECK(mlock(locked, 65536), 0);
  CHECK(munlock(locked, 65536), 0);
  unsigned char* pages = fresh(16);
  CHECK(mincore(locked, 65536, pages), 0);
  char* list = fresh(8192);
  CHECK(syscall(SYS_getcwd, list, 8192) > 0, 1);
}

static void waiting(void) {
  int* ends = fresh(2 * sizeof *ends);
  CHECK(pipe(ends), 0);
  CHECK(write(ends[1], "x", 1), 1);
  struct pollfd* ready = fresh(2 * sizeof *ready);
  ready[0] = (struct pollfd){ends[0], POLLIN, 0};
  ready[1] = (struct pollfd){ends[1], POLLIN, 0};
  CHECK(poll(ready, 2, 0), 1);
  CHECK(ready[0].revents, POLLIN);
  struct timespec* none = fresh(sizeof *none);
  *none = (struct timespec){0, 0};
  CHECK(ppoll(ready, 2, none, NULL), 1);
  fd_set* set = fresh(sizeof *set);
  FD_ZERO(set);
  FD_SET(ends[0], set);
  struct timeval* limit = fresh(sizeof *limit);
  *limit = (struct timeval){5, 0};
  CHECK(select(ends[0] + 1, set, NULL, NULL, limit), 1);
  CHECK(FD_ISSET(ends[0], set) != 0, 1);
  int epoll = epoll_create1(0);
  struct epoll_event* event = fresh(sizeof *event);
  *event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 99};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], event), 0);
  struct epoll_event* events = fresh(10 * sizeof *events);
  CHECK(epoll_wait(epoll, events, 10, 1000), 1);
  CHECK(events[0].data.u64, 99);
  int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec* time = fresh(sizeof *time);
  *time = (struct itimerspec){{0, 0}, {0, 1000}};
  CHECK(timerfd_settime(timer, 0, time, fresh(sizeof *time)), 0);
  CHECK(read(timer, fresh(8), 8), 8);
}

static void children(void) {
  int* status = fresh(sizeof *status);
  pid_t child = vfork();
  if (child == 0) _exit(7);
  CHECK(waitpid(child, status, 0), child);
  CHECK(WEXITSTATUS(*status), 7);
  child = vfork();
  if (child == 0) _exit(8);
  status = fresh(sizeof *status);
  CHECK(wait4(child, status, 0, fresh(sizeof(struct rusage))), child);
  CHECK(WEXITSTATUS(*status), 8);
}

/* Functions that the C library calls on threads of its own: their first accesses are faults. */
static sem_t told;
static int* told_value;

static void tell(union sigval value) {
  int* place = fresh(sizeof *place);
  *place = value.sival_int;
  __atomic_store_n(&told_value, place, __ATOMIC_SEQ_CST);
  sem_post(&told);
}

static void notifications(void) {
  struct sigevent* event = fresh(sizeof *event);
  memset(event, 0, sizeof *event);
  event->sigev_notify = SIGEV_THREAD;
  event->sigev_notify_function = &tell;
  event->sigev_value.sival_int = 7;
  CHECK(sem_init(&told, 0, 0), 0);
  timer_t* timer = fresh(sizeof *timer);
  CHECK(timer_create(CLOCK_MONOTONIC, event, timer), 0);
  struct itimerspec* time = fresh(sizeof *time);
  *time = (struct itimerspec){{0, 1000000}, {0, 1000000}};
  CHECK(timer_settime(*timer, 0, time, NULL), 0);
  for (int i = 0; i < 20; ++i) CHECK(sem_wait(&told), 0);
  CHECK(*__atomic_load_n(&told_value, __ATOMIC_SEQ_CST), 7);
  CHECK(timer_delete(*timer), 0);
}

int main(void) {
#pragma omp parallel
  structures(omp_get_thread_num());
  waiting();
  notifications();
  children();
  return report("structures");
}
