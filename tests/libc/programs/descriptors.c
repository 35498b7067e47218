/* descriptors [what]: numbers of descriptors that the first thread has opened, in all threads of a region, in
 * every call that takes one; and what has happened to them since. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>

#include "check.h"

enum { lines = 50, files = 40, records = 64, record_bytes = 1024 * 1024 };

static int is_last(void) {
  return omp_get_thread_num() == omp_get_num_threads() - 1;
}

static int print_list(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vdprintf(fd, format, arguments);
  va_end(arguments);
  return length;
}

/* Each thread's lines come whole into the one file. */
static void printing(void) {
  int log = memfd_create("log", 0);
  CHECK(fcntl(log, F_SETFL, O_APPEND), 0);
  char* text = fresh(9001);
  memset(text, 'x', 9000);
  text[9000] = '\0';
  int threads = 1;
#pragma omp parallel shared(threads)
  {
    if (omp_get_thread_num() == 0) threads = omp_get_num_threads();
    for (int i = 0; i < lines; ++i) CHECK(dprintf(log, "a line of %d characters\n", 23), 24);
#pragma omp barrier
#pragma omp critical
    CHECK(print_list(log, "%s\n", text), 9001); /* the C library itself writes it in parts */
  }
  struct stat status;
  CHECK(fstat(log, &status), 0);
  CHECK(status.st_size, (lines * 24L + 9001) * threads);
  FILE* stream = fdopen(log, "r");
  rewind(stream);
  char* line = fresh(10000);
  long right = 0;
  while (fgets(line, 10000, stream) != NULL)
    right += strcmp(line, "a line of 23 characters\n") == 0 || strlen(line) == 9001;
  CHECK(right, (lines + 1L) * threads);
  fclose(stream);
}

static void other_calls(void) {
  char name[] = "/var/tmp/craton-descriptors-XXXXXX";
  int fd = mkstemp(name);
  int counter = eventfd(0, 0);
  int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  int watcher = inotify_init();
  int watch = inotify_add_watch(watcher, name, IN_OPEN);
  int ends[2];
  CHECK(pipe(ends), 0);
  int has_attributes = fsetxattr(fd, "user.craton", "zero", 4, 0) == 0;
  int threads = 1;
#pragma omp parallel shared(threads)
  {
    if (omp_get_thread_num() == 0) threads = omp_get_num_threads();
    CHECK(eventfd_write(counter, 2), 0);
    if (terminal >= 0) {
      struct termios* state = fresh(sizeof *state);
      CHECK(isatty(terminal), 1);
      CHECK(tcgetattr(terminal, state), 0);
      CHECK(tcsetattr(terminal, TCSANOW, state), 0);
    }
    CHECK_ERROR(isatty(fd), ENOTTY);
    CHECK_ERROR(isatty(220), EBADF);
    CHECK(fpathconf(fd, _PC_NAME_MAX), 255);
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL), 0);
    CHECK(posix_fadvise(220, 0, 0, POSIX_FADV_NORMAL), EBADF);
    if (has_attributes) {
      char* value = fresh(10);
      CHECK(fgetxattr(fd, fresh_text("user.craton"), value, 10), 4);
      CHECK(memcmp(value, "zero", 4), 0);
      CHECK(flistxattr(fd, fresh(100), 100) > 0, 1);
    }
    struct iovec* pieces = fresh(2 * sizeof *pieces);
    pieces[0] = (struct iovec){fresh_text("ab"), 2};
    pieces[1] = (struct iovec){fresh_text("cd"), 2};
    CHECK(pwritev2(fd, pieces, 2, 4 * omp_get_thread_num(), 0), 4);
    pieces[0].iov_base = fresh(2);
    CHECK(preadv2(fd, pieces, 2, 4 * omp_get_thread_num(), 0), 4);
    CHECK(memcmp(pieces[0].iov_base, "ab", 2), 0);
    if (is_last()) {
      CHECK(inotify_rm_watch(watcher, watch), 0);
      CHECK(fallocate(fd, 0, 0, 8192), 0);
      CHECK(lockf(fd, F_LOCK, 0), 0);
      CHECK(lockf(fd, F_ULOCK, 0), 0);
      off64_t* offset = fresh(sizeof *offset);
      *offset = 0;
      CHECK(splice(fd, offset, ends[1], NULL, 4, 0), 4);
      CHECK(*offset, 4);
      pieces[0].iov_base = fresh_text("ef");
      CHECK(vmsplice(ends[1], pieces, 1, 0), 2);
    }
  }
  eventfd_t count = 0;
  CHECK(eventfd_read(counter, &count), 0);
  CHECK(count, 2 * threads);
  char text[7] = "";
  CHECK(read(ends[0], text, 6), 6);
  CHECK(strcmp(text, "abcdef"), 0);
  struct stat status;
  CHECK(fstat(fd, &status), 0);
  CHECK(status.st_size, 8192);
  CHECK(unlink(name), 0);
  for (int i = 0; i < 2; ++i) close(ends[i]);
  close(fd);
  close(counter);
  close(watcher);
  if (terminal >= 0) close(terminal);
}

static void many_messages(void) {
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
#pragma omp parallel
  {
    struct mmsghdr* messages = fresh(3 * sizeof *messages);
    struct iovec* pieces = fresh(3 * sizeof *pieces);
    memset(messages, 0, 3 * sizeof *messages);
    for (int i = 0; i < 3; ++i) {
      pieces[i] = (struct iovec){fresh_text("message"), (size_t)(2 + i)};
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
#pragma omp critical
    {
      CHECK(sendmmsg(pair[0], messages, 3, 0), 3);
      CHECK(messages[2].msg_len, 4);
      for (int i = 0; i < 3; ++i) pieces[i] = (struct iovec){fresh(10), 10};
      struct timespec limit = {.tv_sec = 10};
      CHECK(recvmmsg(pair[1], messages, 3, 0, &limit), 3);
      CHECK(limit.tv_sec, 9);
      CHECK(messages[1].msg_len, 3);
      CHECK(memcmp(pieces[2].iov_base, "mess", 4), 0);
      CHECK_ERROR(recvmmsg(pair[1], messages, 3, MSG_DONTWAIT, NULL), EAGAIN);
    }
  }
  close(pair[0]);
  close(pair[1]);
}

static void calls(void) {
  printing();
  other_calls();
  many_messages();
}

static int send_number(int socket, int number) {
  char byte = 1;
  struct iovec piece = {&byte, 1};
  char control[CMSG_SPACE(sizeof number)];
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof number);
  memcpy(CMSG_DATA(header), &number, sizeof number);
  return (int)sendmsg(socket, &message, 0);
}

static int receive_number(int socket) {
  char byte = 0;
  struct iovec piece = {&byte, 1};
  char control[CMSG_SPACE(sizeof(int))];
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  int number = -1;
  if (recvmsg(socket, &message, 0) == 1) memcpy(&number, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof number);
  return number;
}

/* What a thread opens for itself never stands before a file of the first thread's. */
static void hidden(void) {
  static int numbers[files];
  const pid_t first = getpid();
  for (int i = 0; i < files; ++i) {
    numbers[i] = memfd_create("numbered", 0);
    CHECK(write(numbers[i], &i, sizeof i), sizeof i);
  }
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
#pragma omp parallel
  if (is_last()) {
    FILE* streams[files];
    DIR* folders[files];
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < files; ++i) {
        streams[i] = i % 4 == 0 ? tmpfile() : i % 4 == 1 ? popen("true", "r") : fopen("/dev/zero", "r");
        folders[i] = opendir("/");
        CHECK(streams[i] != NULL && folders[i] != NULL, 1);
      }
      CHECK(send_number(pair[0], numbers[7]), 1);
      int received = receive_number(pair[1]);
      for (int i = 0; i < files; ++i) {
        int value = -1;
        CHECK(fileno(streams[i]) != numbers[i] && dirfd(folders[i]) != numbers[i], 1);
        CHECK(received != numbers[i], 1);
        CHECK(pread(numbers[i], &value, sizeof value, 0), sizeof value);
        CHECK(value, i);
      }
      int value = -1;
      CHECK(pread(received, &value, sizeof value, 0), sizeof value);
      CHECK(value, 7);
      CHECK(close(received), 0);
      for (int i = 0; i < files; ++i) {
        CHECK(closedir(folders[i]), 0);
        CHECK(i % 4 == 1 ? pclose(streams[i]) : fclose(streams[i]), 0);
      }
    }
  }
  /* Nor do those that are made without the C library's knowledge, or with a number of choice. */
#pragma omp parallel
  if (is_last()) {
    int zeros[files];
    for (int i = 0; i < files; ++i) zeros[i] = (int)syscall(SYS_openat, AT_FDCWD, "/dev/zero", O_RDONLY);
    for (int chosen = 256; chosen < 256 + 2 * files; ++chosen) CHECK(dup2(zeros[0], chosen), chosen);
    for (int i = 0; i < files; ++i) {
      int value = -1;
      CHECK(pread(numbers[i], &value, sizeof value, 0), sizeof value);
      CHECK(value, i);
    }
    for (int chosen = 256; chosen < 256 + 2 * files; ++chosen) {
      int value = -1;
      CHECK(read(chosen, &value, sizeof value), sizeof value);
      CHECK(value, 0);
      CHECK(close(chosen), 0);
    }
  }
  /* A stream of a borrowed number does not take the number along when it goes. */
#pragma omp parallel
  if (is_last()) {
    const int number = numbers[11];
    if (getpid() != first) {
      FILE* stream = fdopen(number, "r");
      CHECK(stream != NULL, 1);
      CHECK(fileno(stream) != number, 1);
      CHECK(fclose(stream), 0);
    }
    int other[files];
    for (int i = 0; i < files; ++i) other[i] = open("/dev/zero", O_RDWR);
    for (int i = 0; i < files; ++i) {
      int value = -1;
      CHECK(pread(numbers[i], &value, sizeof value, 0), sizeof value);
      CHECK(value, i);
    }
    for (int i = 0; i < files; ++i) CHECK(close(other[i]), 0);
  }
  for (int i = 0; i < files; ++i) close(numbers[i]);
  for (int i = 0; i < 2; ++i) close(pair[i]);
}

/* Each read or write moves the offset as one: nobody else's is in the middle of it. */
static void records_of(size_t bytes, int count, int mode) {
  char name[] = "/tmp/craton-descriptors-XXXXXX"; /* what has no file system behind it has no such lock */
  int fd = mkostemp(name, mode);
  CHECK(unlink(name), 0);
#pragma omp parallel
  {
    unsigned char* record = malloc(bytes);
#pragma omp for schedule(dynamic)
    for (int i = 0; i < count; ++i) {
      memset(record, 1 + i, bytes);
      CHECK(write(fd, record, bytes), bytes);
    }
    free(record);
  }
  CHECK(lseek(fd, 0, SEEK_CUR), bytes * (size_t)count);
  const size_t last = bytes / 3; /* the file ends within a record */
  const size_t all = bytes * (size_t)count + last;
  char* rest = malloc(last);
  memset(rest, 1 + count, last);
  CHECK(write(fd, rest, last), last);
  free(rest);
  CHECK(lseek(fd, 0, SEEK_SET), 0);
  long seen = 0;
#pragma omp parallel reduction(+ : seen)
  {
    unsigned char* record = malloc(bytes);
    struct iovec halves[2] = {{record, bytes / 2}, {record + bytes / 2, bytes - bytes / 2}};
    for (int i = 0;; ++i) {
      const ssize_t got = i % 2 == 0 ? read(fd, record, bytes) : readv(fd, halves, 2);
      if (got == 0) break;
      CHECK(got, record[0] == 1 + count ? last : bytes);
      ssize_t same = 0;
      while (same < got && record[same] == record[0]) ++same;
      CHECK(same, got);
      seen += record[0];
    }
    free(record);
  }
  CHECK(seen, (long)(count + 1) * (count + 2) / 2);
  CHECK(lseek(fd, 0, SEEK_CUR), all);
  close(fd);
}

static void whole(void) {
  records_of(record_bytes, records, 0);
  records_of(record_bytes, records, O_APPEND);
  records_of(20 * record_bytes, 6, 0);
}

static void too_late(int signal) {
  (void)signal;
  static const char text[] = "a closed descriptor is still open somewhere\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(3);
}

/* What the first thread closes is closed. */
static void closed(void) {
  signal(SIGALRM, &too_late);
  alarm(20);
  for (int how = 0; how < 3; ++how) {
    int ends[2];
    CHECK(pipe(ends), 0);
    int threads = 1;
#pragma omp parallel shared(threads)
    {
      if (omp_get_thread_num() == 0) threads = omp_get_num_threads();
      CHECK(write(ends[1], "x", 1), 1);
    }
    if (how == 0) CHECK(close(ends[1]), 0);
    if (how == 1) CHECK(dup2(STDERR_FILENO, ends[1]), ends[1]);
    if (how == 2) CHECK(fclose(fdopen(ends[1], "w")), 0);
    long got = 0;
    for (char byte; read(ends[0], &byte, 1) == 1;) ++got;
    CHECK(got, threads);
    if (how == 1) close(ends[1]);
    close(ends[0]);
  }
  char name[] = "/tmp/craton-descriptors-XXXXXX";
  int fd = mkstemp(name);
#pragma omp parallel
  if (is_last()) CHECK(flock(fd, LOCK_EX), 0);
  CHECK(close(fd), 0);
  fd = open(name, O_RDWR);
  CHECK(flock(fd, LOCK_EX | LOCK_NB), 0);
  CHECK(unlink(name), 0);
  close(fd);
  /* Closed ones are not passed over. */
#pragma omp parallel
  {
    struct pollfd list = {.fd = fd, .events = POLLIN};
    CHECK(poll(&list, 1, 0), 1);
    CHECK(list.revents, POLLNVAL);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    CHECK_ERROR(select(fd + 1, &set, NULL, NULL, NULL), EBADF);
    CHECK_ERROR(dup2(fd, fd), EBADF);
  }
  /* The number comes again, and means the new file at once. */
  for (int i = 0; i < 20; ++i) {
    int number = memfd_create("again", 0);
    CHECK(write(number, &i, sizeof i), sizeof i);
#pragma omp parallel
    {
      int value = -1;
      CHECK(pread(number, &value, sizeof value, 0), sizeof value);
      CHECK(value, i);
    }
    close(number);
#pragma omp parallel
    {
      int value;
      CHECK_ERROR(pread(number, &value, sizeof value, 0), EBADF);
    }
  }
  alarm(0);
}

/* One set, whoever changes it. */
static void sets(void) {
  int set = epoll_create1(0);
  int ends[2];
  CHECK(pipe(ends), 0);
  const int low = ends[0]; /* another rank may have the same number for it; not so this one */
  ends[0] = fcntl(low, F_DUPFD, 150);
  CHECK(close(low), 0);
  struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 1}};
  CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
#pragma omp parallel
  if (is_last()) {
    struct epoll_event* other = fresh(sizeof *other);
    *other = (struct epoll_event){.events = EPOLLIN, .data = {.u64 = 2}};
    CHECK_ERROR(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], other), EEXIST);
    CHECK(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], other), 0);
    CHECK_ERROR(epoll_ctl(set, EPOLL_CTL_ADD, 220, other), EBADF);
    CHECK(write(ends[1], "x", 1), 1);
  }
  CHECK(epoll_wait(set, &event, 1, 10000), 1);
  CHECK(event.data.u64, 2);
#pragma omp parallel
  if (is_last()) {
    CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), 0);
    CHECK_ERROR(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), ENOENT);
    struct epoll_event other = {.events = EPOLLIN, .data = {.u64 = 3}};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &other), 0);
  }
  CHECK(epoll_wait(set, &event, 1, 10000), 1);
  CHECK(event.data.u64, 3);
  CHECK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], NULL), 0);
  CHECK(epoll_wait(set, &event, 1, 0), 0);
  for (int i = 0; i < 2; ++i) close(ends[i]);
  close(set);
}

/* The same with a number that the actions of children() leave alone, whatever a process inherits. */
static int moved_up(int low) {
  const int high = fcntl(low, F_DUPFD, 20);
  CHECK(close(low), 0);
  return high;
}

/* A child that a thread starts gets what its actions name: of the first thread's, of its own, and what the
 * actions themselves have made, which may have the number of one of the first thread's. */
static void children(void) {
  int log = moved_up(memfd_create("log", 0));
  int input = moved_up(memfd_create("input", 0));
  int folder = moved_up(open("/proc/sys/kernel", O_RDONLY | O_DIRECTORY));
  CHECK(fcntl(log, F_SETFL, O_APPEND), 0);
  CHECK(write(input, "of the first", 12), 12);
#pragma omp parallel
#pragma omp critical
  {
    CHECK(lseek(input, 0, SEEK_SET), 0);
    char* words[] = {"sh", "-c", "cat; cat <&7; pwd; cat <&8", NULL};
    char* environment[] = {"PATH=/bin:/usr/bin", NULL};
    char text[100];
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int ends[2];
    CHECK(pipe(ends), 0);
    ends[0] = moved_up(ends[0]);
    CHECK(write(ends[1], "of its own", 10), 10);
    CHECK(close(ends[1]), 0);
    CHECK(posix_spawn_file_actions_init(&actions), 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, log, 1), 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, input, 0), 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, ends[0], 7), 0);
    CHECK(posix_spawn_file_actions_addfchdir_np(&actions, folder), 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, folder, "/proc/sys/kernel/ostype", O_RDONLY, 0), 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, folder, 8), 0);
    CHECK(posix_spawn(&child, "/bin/sh", &actions, NULL, words, environment), 0);
    int status = -1;
    CHECK(waitpid(child, &status, 0), child);
    CHECK(status, 0);
    CHECK(posix_spawn_file_actions_destroy(&actions), 0);
    CHECK(close(ends[0]), 0);
    const char* wanted = "of the firstof its own/proc/sys/kernel\nLinux\n";
    CHECK(pread(log, text, sizeof text, 0), strlen(wanted));
    CHECK(memcmp(text, wanted, strlen(wanted)), 0);
    CHECK(ftruncate(log, 0), 0);
    CHECK(posix_spawn_file_actions_init(&actions), 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, 230, 1), 0); /* nobody has it */
    CHECK(posix_spawn(&child, "/bin/true", &actions, NULL, words, environment), EBADF);
    CHECK(posix_spawn_file_actions_destroy(&actions), 0);
  }
  for (int fd = 0; fd < 3; ++fd) close(fd == 0 ? log : fd == 1 ? input : folder);
}

/* Another mask for a descriptor of signals of the first thread's. */
static void signal_masks(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL), 0);
  int fd = signalfd(-1, &set, SFD_NONBLOCK);
  sigaddset(&set, SIGUSR2);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL), 0);
#pragma omp parallel
  if (is_last()) {
    CHECK(signalfd(fd, &set, 0), fd);
    CHECK_ERROR(signalfd(231, &set, 0), EBADF);
    CHECK_ERROR(signalfd(STDIN_FILENO, &set, 0), EINVAL);
  }
  CHECK(raise(SIGUSR2), 0);
  struct signalfd_siginfo seen;
  CHECK(read(fd, &seen, sizeof seen), sizeof seen);
  CHECK(seen.ssi_signo, SIGUSR2);
  close(fd);
}

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "calls";
  if (strcmp(what, "calls") == 0) calls();
  if (strcmp(what, "hidden") == 0) hidden();
  if (strcmp(what, "whole") == 0) whole();
  if (strcmp(what, "closed") == 0) closed();
  if (strcmp(what, "sets") == 0) sets();
  if (strcmp(what, "children") == 0) children();
  if (strcmp(what, "signals") == 0) signal_masks();
  return report(what);
}
