/// \file
/// Files and descriptors of the first thread, used by threads of all ranks of a node: mapped memory, waiting
/// for pipes, and descriptors with numbers of the program's choice.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/shm.h>
#include <unistd.h>

enum { count = 100000 };

static int failures;

static void expect(const char* what, long long is, long long wanted) {
  if (is == wanted) return;
  printf("%s: %lld, not %lld (%s)\n", what, is, wanted, strerror(errno));
  ++failures;
}

static long long sum_of(const long* numbers) {
  long long sum = 0;
#pragma omp parallel for schedule(static, 5) reduction(+ : sum)
  for (int i = 0; i < count; ++i) sum += numbers[i];
  return sum;
}

static void mapped_files(const char* name, int fd) {
  const size_t bytes = count * sizeof(long);
  const long long all = (long long)count * (count - 1) / 2;
  expect("ftruncate", ftruncate(fd, bytes), 0);
  long* numbers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#pragma omp parallel for
  for (int i = 0; i < count; ++i) numbers[i] = i;
  expect("shared mapping", sum_of(numbers), all);
  long last = 0;
  expect("pread", pread(fd, &last, sizeof last, bytes - sizeof last), sizeof last);
  expect("what the file has", last, count - 1);
  /* Only to be read, from the middle, and of a file that has no name any more. */
  expect("unlink", unlink(name), 0);
  const int again = dup(fd);
  long* half = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, again, 40960);
  expect("close", close(again), 0);
  int right = 0;
#pragma omp parallel reduction(+ : right)
  right += half[0] == 5120 && half[511] == 5631;
  expect("private mapping", right, omp_get_max_threads());
  expect("munmap", munmap(half, 4096) + munmap(numbers, bytes), 0);
  numbers = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  expect("mapped again", sum_of(numbers), all);
  expect("munmap", munmap(numbers, bytes), 0);
}

/// Of System V.
static void attached_segments(void) {
  const int segment = shmget(IPC_PRIVATE, count * sizeof(long), IPC_CREAT | 0600);
  for (int turn = 1; turn <= 3; ++turn) {
    long* numbers = shmat(segment, NULL, 0);
    const long* same = shmat(segment, NULL, SHM_RDONLY);
    if (turn == 3) expect("shmctl", shmctl(segment, IPC_RMID, NULL), 0);
#pragma omp parallel for
    for (int i = 0; i < count; ++i) numbers[i] += i;
    expect("attached segment", sum_of(numbers), turn * ((long long)count * (count - 1) / 2));
    expect("attached twice", sum_of(same), turn * ((long long)count * (count - 1) / 2));
    expect("shmdt", shmdt(numbers) + shmdt(same), 0);
  }
  expect("shmat", shmat(-1, NULL, 0) == (void*)-1 && errno == EINVAL, 1);
}

/// The last thread waits for what the first one writes.
static void waits(const char* how) {
  int ends[2];
  expect("pipe", pipe(ends), 0);
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = ends[0]}};
  expect("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
  long got = 0;
  int ready = 0;
#pragma omp parallel
  {
    if (omp_get_thread_num() == 0) {
      const long value = 42;
      usleep(5000);
      expect("write", write(ends[1], &value, sizeof value), sizeof value);
    } else if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      if (strcmp(how, "poll") == 0) {
        struct pollfd list[2] = {{.fd = -1, .events = POLLIN}, {.fd = ends[0], .events = POLLIN}};
        ready = poll(list, 2, 10000);
        if (list[0].revents != 0 || list[1].revents != POLLIN) ready = -2;
      } else if (strcmp(how, "select") == 0) {
        fd_set set;
        struct timeval limit = {.tv_sec = 10};
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        ready = select(ends[0] + 1, &set, NULL, NULL, &limit);
        if (!FD_ISSET(ends[0], &set)) ready = -2;
        limit.tv_sec = limit.tv_usec = 0;
        FD_SET(ends[0], &set);
        long value;
        if (read(ends[0], &value, sizeof value) == sizeof value) got = value;
        if (select(ends[0] + 1, &set, NULL, NULL, &limit) != 0 || FD_ISSET(ends[0], &set)) ready = -3;
      } else {
        struct epoll_event seen;
        ready = epoll_wait(epoll, &seen, 1, 10000);
        if (seen.data.fd != ends[0]) ready = -2;
      }
      if (got == 0) read(ends[0], &got, sizeof got);
    }
  }
  expect(how, ready, 1);
  expect("what came", got, 42);
  close(ends[0]);
  close(ends[1]);
  close(epoll);
}

static void numbers_of_choice(int fd) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    const int wanted = 900 + omp_get_thread_num();
    long first = 0;
    right += dup2(fd, wanted) == wanted && pread(wanted, &first, sizeof first, 8) == sizeof first &&
             first == 1 && close(wanted) == 0 && pread(wanted, &first, sizeof first, 8) == -1 &&
             errno == EBADF;
  }
  expect("dup2", right, omp_get_max_threads());
}

int main(void) {
  char name[] = "/tmp/craton-files-XXXXXX";
  const int fd = mkstemp(name);
  mapped_files(name, fd);
  attached_segments();
  waits("poll");
  waits("select");
  waits("epoll");
  numbers_of_choice(fd);
  printf("%d failures\n", failures);
  return 0;
}
