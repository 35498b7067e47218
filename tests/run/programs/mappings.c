/// \file
/// Memory that the program maps itself: without a file, and private copies of a file. What it asks for in
/// ways that are none, and alignments.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

enum { count = 200000 };

static long* map(size_t bytes, int flags, int fd) {
  long* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory != MAP_FAILED) return memory;
  perror("mmap");
  exit(1);
}

static long long fill_and_sum(long* memory, int size) {
  long long sum = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp for
    for (int i = 0; i < size; ++i) memory[i] += i;
#pragma omp for schedule(static, 7) reduction(+ : sum)
    for (int i = 0; i < size; ++i) sum += memory[i] * (1 + i % 3);
  }
  return sum;
}

static int is_invalid(const void* memory) {
  return memory == MAP_FAILED && errno == EINVAL;
}

static void wrong_calls(void) {
  char* const memory = (char*)map(8 * 4096, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  memset(memory, 7, 8 * 4096);
  const int protection = PROT_READ | PROT_WRITE;
  int right = is_invalid(mmap(NULL, 4096, protection, MAP_ANONYMOUS, -1, 0));
  right += is_invalid(mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 100));
  right += munmap(memory, 0) == -1 && errno == EINVAL;
  right += madvise(memory + 1, 4096, MADV_DONTNEED) == -1 && errno == EINVAL;
  right += madvise(memory, 4096, 12345) == -1 && errno == EINVAL;
  int kept = 0;
  for (int i = 0; i < 8 * 4096; ++i) kept += memory[i] == 7;
  check_int("what is refused", right);
  check_int("and leaves the memory as it was", kept);
  right = madvise(memory, 4097, MADV_DONTNEED);
  for (int i = 0; i < 8 * 4096; ++i) right += memory[i] == (i < 2 * 4096 ? 0 : 7);
  check_int("whole pages are made zero", right);
  munmap(memory, 8 * 4096);
}

/* Also such as are no power of two. */
static void alignments(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    for (size_t alignment = 1; alignment < 20000; alignment = alignment * 3 / 2 + 1)
      for (size_t size = 1; size < 30000; size *= 7) {
        char* const memory = memalign(alignment, size);
        right += memory != NULL && (unsigned long)memory % (alignment & -alignment) == 0;
        memset(memory, 1, size);
        free(memory);
      }
    right += memalign(((size_t)-1 / 2) + 2, 1) == NULL && errno == EINVAL;
  }
  check_int("aligned memory", right);
}

int main(void) {
  wrong_calls();
  alignments();
  const size_t bytes = count * sizeof(long);
  long* memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  check_int("mapped memory", fill_and_sum(memory, count));
  memory = mremap(memory, bytes, 2 * bytes, MREMAP_MAYMOVE);
  check_int("the same, larger", fill_and_sum(memory, 2 * count));
  /* Its first half is given back, then the rest. */
  const size_t half = bytes / 4096 * 4096;
  check_int("unmapped in part", munmap(memory, half));
  long* rest = (long*)((char*)memory + half);
  check_int("what is left", fill_and_sum(rest, 1000));
  check_int("made zero", madvise(rest, 4096, MADV_DONTNEED));
  check_int("is zero", rest[0] + rest[511] + (rest[513] != 0));
  check_int("unmapped", munmap(rest, 2 * bytes - half));

  memory = map(bytes, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  check_int("shared memory without a file", fill_and_sum(memory, count));
  check_int("unmapped", munmap(memory, bytes));
  /* What is mapped anew is zero, whoever had it. */
  memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  check_int("mapped again", fill_and_sum(memory, count));
  check_int("protected", mprotect(memory, 4096, PROT_READ) + mprotect(memory, 4096, PROT_READ | PROT_WRITE));
  check_int("unmapped", munmap(memory, bytes));

  char name[] = "/tmp/craton-mappings-XXXXXX";
  const int fd = mkstemp(name);
  long* numbers = malloc(bytes);
  for (int i = 0; i < count; ++i) numbers[i] = 3;
  check_int("written", write(fd, numbers, bytes) == (ssize_t)bytes);
  memory = map(bytes, MAP_PRIVATE, fd);
  check_int("private copy of a file", fill_and_sum(memory, count));
  check_int("the file", pread(fd, numbers, bytes, 0) == (ssize_t)bytes ? numbers[count - 1] : -1);
  check_int("unmapped", munmap(memory, bytes));
  const int read_only = open(name, O_RDONLY);
  const long* shared = mmap(NULL, bytes, PROT_READ, MAP_SHARED, read_only, 0);
  long sum = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp for reduction(+ : sum)
    for (int i = 0; i < count; ++i) sum += shared == MAP_FAILED ? 0 : shared[i] * (1 + i % 3);
  }
  check_int("a file that is only read", sum);
  check_int("unmapped", munmap((void*)shared, bytes));
  /* By threads of all ranks, from a descriptor of the first; on another node that means a copy. */
  long failures = 0;
  sum = 0;
#pragma omp parallel reduction(+ : sum, failures)
  {
    take_part();
    failures += (fcntl(read_only, F_GETFL) & O_ACCMODE) != O_RDONLY;
    for (int way = 0; way < 2; ++way) {
      const int flags = way == 0 ? MAP_SHARED : MAP_PRIVATE;
      long* mine = mmap(NULL, bytes, PROT_READ | (way == 0 ? 0 : PROT_WRITE), flags, read_only, 4096);
      if (mine == MAP_FAILED) {
        failures += 1;
        continue;
      }
      if (way == 1) mine[0] = 3;
#pragma omp for nowait
      for (int i = 0; i < count - 512; ++i) sum += mine[i] * (1 + i % 3);
      failures += munmap(mine, bytes) != 0;
    }
  }
  check_int("mapped by threads", sum);
  check_int("which failed", failures);
  close(read_only);
  close(fd);
  unlink(name);
  free(numbers);
  return finish();
}
