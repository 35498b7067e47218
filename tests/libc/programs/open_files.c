/* open_files [memory | wide | wide_text | wide_input | wide_words | directory | copy | asynchronous | list]:
 * what the first thread has opened, used by all threads of a region. */
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "check.h"

/* Of the first thread's in each thread. */
static void read_later(int fd, int in_list) {
  char first = 0;
  struct aiocb request = {.aio_fildes = fd, .aio_buf = &first, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ};
  struct aiocb* list[] = {NULL, &request};
  CHECK(in_list ? lio_listio(LIO_WAIT, list, 2, NULL) : aio_read(&request), 0);
  while (aio_error(&request) == EINPROGRESS) usleep(100);
  CHECK(aio_return(&request), 1);
}

int main(int count, char** words) {
  const char* what = count > 1 ? words[1] : "descriptor";
  char name[64];
  snprintf(name, sizeof name, "/tmp/craton-open-files-%d", (int)getpid());
  int fd = open(name, O_CREAT | O_RDWR | O_EXCL, 0600);
  int other = open("/proc/self/exe", O_RDONLY);
  FILE* stream = fopen("/proc/self/exe", "r");
  char memory[] = "in memory";
  FILE* memory_stream = fmemopen(memory, sizeof memory, "r");
  DIR* directory = opendir("/proc/self/fd");
  CHECK(unlink(name), 0);
  int threads = 1;
  int number = -1;
#pragma omp parallel shared(threads)
  {
    const int me = omp_get_thread_num();
    if (me == 0) threads = omp_get_num_threads();
    char text[10];
    snprintf(text, sizeof text, "%04d", me);
    CHECK(pwrite(fd, text, 4, 4 * me), 4);
    struct stat* status = fresh(sizeof *status);
    CHECK(fstat(fd, status), 0);
    CHECK(S_ISREG(status->st_mode), 1);
    char magic[5];
    CHECK(pread(other, magic, 4, 0), 4);
    CHECK(memcmp(magic, "\177ELF", 4), 0);
    if (strcmp(what, "memory") == 0) getc(memory_stream);
    if (strcmp(what, "wide") == 0) fgetwc(stream);
    if (strcmp(what, "wide_text") == 0) fwprintf(stream, L"text");
    if (strcmp(what, "wide_input") == 0) getwchar();
    if (strcmp(what, "wide_words") == 0) wscanf(L" ");
    if (strcmp(what, "directory") == 0) (void)readdir(directory);
    if (strcmp(what, "copy") == 0) CHECK(close(dup(fd)), 0);
    if (strcmp(what, "asynchronous") == 0) read_later(other, 0);
    if (strcmp(what, "list") == 0) read_later(other, 1);
    /* Descriptors of its own, of which no two threads have the same. */
    int own = open("/dev/zero", O_RDONLY);
    CHECK(own >= 0, 1);
    CHECK(own != fd && own != other, 1);
    CHECK(read(own, fresh(100), 100), 100);
    CHECK(close(own), 0);
    int ends[2];
    CHECK(pipe(ends), 0);
    CHECK(write(ends[1], text, 4), 4);
    CHECK(read(ends[0], text, 4), 4);
    CHECK(close(ends[0]), 0);
    CHECK(close(ends[1]), 0);
    CHECK_ERROR(read(200, text, 4), EBADF);
  }
  char* all = fresh(4 * threads_most);
  CHECK(pread(fd, all, 4 * threads_most, 0), 4 * threads);
  for (int i = 0; i < threads; ++i) CHECK(atoi(strndup(all + 4 * i, 4)), i);
  /* The same number, another file. */
  CHECK(close(other), 0);
  number = open("/dev/zero", O_RDONLY);
  CHECK(number, other);
  /* One offset for all. */
  CHECK(lseek(fd, 0, SEEK_SET), 0);
#pragma omp parallel
  {
    char zero[4] = "abc";
    CHECK(pread(number, zero, 4, 0), 4);
    CHECK(zero[0] | zero[1] | zero[2] | zero[3], 0);
    CHECK(read(fd, zero, 4), 4);
  }
  CHECK(lseek(fd, 0, SEEK_CUR), 4 * threads);
  return report("open files");
}
