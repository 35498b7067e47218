/* forwarded [input]: streams that one thread has opened, and descriptors of the first one's, used by all;
 * standard input, read by all. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { lines = 240, forwarded_most = 1024 * 1024, long_bytes = 3 * forwarded_most };

static const char* word_of(int number) {
  static const char* const words[] = {"zero", "one", "two", "three", "four", "five", "six"};
  return words[number % 7];
}

/* "12 five" and so on, in each way that there is. */
static void write_line(FILE* stream, int i) {
  char* text = fresh(100);
  const int length = snprintf(text, 100, "%d %s\n", i, word_of(i));
  switch (i % 7) {
    case 0:
      CHECK(fprintf(stream, "%d %s\n", i, word_of(i)), length);
      break;
    case 1:
      CHECK(fputs(text, stream) >= 0, 1);
      break;
    case 2:
      CHECK(fwrite(text, 1, (size_t)length, stream), length);
      break;
    case 3:
      for (int at = 0; at < length; ++at) CHECK(fputc(text[at], stream), text[at]);
      break;
    case 4:
      flockfile(stream);
      for (int at = 0; at < length; ++at) CHECK(putc_unlocked(text[at], stream), text[at]);
      funlockfile(stream);
      break;
    case 5:
      CHECK(fwrite(text, (size_t)length, 1, stream), 1);
      CHECK(fflush(stream), 0);
      break;
    default:
      CHECK(fputs_unlocked(text, stream) >= 0, 1);
  }
  free(text);
}

static void read_line(FILE* stream, int i) {
  char* text = fresh(100);
  char wanted[100];
  const int length = snprintf(wanted, sizeof wanted, "%d %s\n", i, word_of(i));
  int number = -1;
  char* own = NULL;
  size_t room = 0;
  const long place = ftell(stream);
  switch (i % 6) {
    case 0:
      CHECK(fgets(text, 100, stream) == text, 1);
      break;
    case 1:
      CHECK(getline(&own, &room, stream), length);
      strcpy(text, own);
      free(own);
      break;
    case 2:
      CHECK(fscanf(stream, "%d", &number), 1);
      CHECK(number, i);
      CHECK(fscanf(stream, " %99[a-z]", text), 1);
      CHECK(strcmp(text, word_of(i)), 0);
      CHECK(getc(stream), '\n');
      strcpy(text, wanted);
      break;
    case 3:
      flockfile(stream);
      for (int at = 0; at < length; ++at) text[at] = (char)getc_unlocked(stream);
      text[length] = '\0';
      CHECK(feof_unlocked(stream), 0);
      funlockfile(stream);
      break;
    case 4:
      CHECK(fread(text, 1, (size_t)length, stream), length);
      text[length] = '\0';
      break;
    default: {
      const int first = fgetc(stream);
      CHECK(ungetc(first, stream), first);
      fpos_t position;
      fpos64_t larger;
      CHECK(fgetpos(stream, &position), 0);
      CHECK(fgetpos64(stream, &larger), 0);
      CHECK(larger.__pos, position.__pos);
      CHECK(fgets(text, 3, stream) == text, 1);
      CHECK(strlen(text), 2);
      CHECK(i % 4 < 2 ? fsetpos(stream, &position) : fsetpos64(stream, &larger), 0);
      CHECK(fgets(text, 100, stream) == text, 1);
    }
  }
  CHECK(strcmp(text, wanted), 0);
  CHECK(ftell(stream), place + length);
  free(text);
}

/* Each line by another thread. */
static void take_turns(FILE* stream) {
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < lines; ++i) {
#pragma omp ordered
    write_line(stream, i);
  }
  rewind(stream);
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < lines; ++i) {
#pragma omp ordered
    read_line(stream, i);
  }
#pragma omp parallel
  {
    const int last = omp_get_num_threads() - 1;
    const int me = omp_get_thread_num();
    if (me == last) {
      CHECK(getc(stream), EOF);
      CHECK(feof(stream) != 0, 1);
      CHECK(feof_unlocked(stream) != 0, 1);
    }
#pragma omp barrier
    if (me == 0) CHECK(feof(stream) != 0, 1);
#pragma omp barrier
    if (me == last) {
      clearerr(stream);
      CHECK(feof(stream), 0);
      CHECK(fseek(stream, -3, SEEK_END), 0);
      CHECK(getc_unlocked(stream) >= 'a', 1);
      CHECK_ERROR(fseek(stream, -1, SEEK_SET), EINVAL);
    }
#pragma omp barrier
    if (me == 0) CHECK(getc(stream) >= 'a', 1);
  }
}

/* What a thread has written is there for its own next call, of whichever kind. */
static void look_back(const char* name) {
  FILE* stream = fopen(name, "w+");
#pragma omp parallel
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      long place = 0;
      for (int i = 0; i < lines; ++i) {
        char line[100];
        place += fprintf(stream, "%d\n", i);
        place += fprintf(stream, "%s\n", word_of(i));
        switch (i % 4) {
          case 0:
            CHECK(ftell(stream), place);
            break;
          case 1:
            CHECK(fseek(stream, -(long)strlen(word_of(i)) - 1, SEEK_CUR), 0);
            CHECK(fgets(line, sizeof line, stream) == line, 1);
            CHECK(strncmp(line, word_of(i), strlen(word_of(i))), 0);
            CHECK(fseek(stream, 0, SEEK_END), 0);
            break;
          case 2: {
            CHECK(fflush(i % 8 == 2 ? stream : NULL), 0);
            struct stat status;
            CHECK(fstat(fileno(stream), &status), 0);
            CHECK(status.st_size, place);
            break;
          }
          default:
            flockfile(stream);
            place += fprintf(stream, "%d\n", i);
            funlockfile(stream);
        }
      }
    }
  }
  CHECK(fclose(stream), 0);
  /* More than waits at once, by all threads; none of it is locked. */
  stream = fopen(name, "w");
  enum { many = 20000 };
#pragma omp parallel for
  for (int i = 0; i < many; ++i) fprintf(stream, "%d\n", i);
  CHECK(fclose(stream), 0);
  stream = fopen(name, "r");
  char* seen = calloc(many, 1);
  int number = 0;
  while (fscanf(stream, "%d ", &number) == 1) ++seen[number];
  int wrong = 0;
  for (int i = 0; i < many; ++i) wrong += seen[i] != 1;
  CHECK(wrong, 0);
  free(seen);
  CHECK(fclose(stream), 0);
}

/* Streams of each thread, with something in them, that another one has written. */
static void flush_all_streams(const char* name) {
  FILE* streams[threads_most];
#pragma omp parallel shared(streams)
  {
    const int me = omp_get_thread_num();
    char own[100];
    snprintf(own, sizeof own, "%s-%d", name, me);
    streams[me] = fopen(own, "w");
#pragma omp barrier
    fprintf(streams[(me + 1) % omp_get_num_threads()], "%s\n", word_of(me));
#pragma omp barrier
    if (me == omp_get_num_threads() - 1) {
      CHECK(fflush(NULL), 0);
      for (int i = 0; i < omp_get_num_threads(); ++i) {
        struct stat status;
        snprintf(own, sizeof own, "%s-%d", name, i);
        CHECK(stat(own, &status), 0);
        CHECK(status.st_size >= 4, 1);
        CHECK(unlink(own), 0);
      }
    }
#pragma omp barrier
    CHECK(fclose(streams[me]), 0);
  }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int turn;

static int is_my_turn(int way, int me) {
  int is_mine = 0;
  switch (way) {
    case 0:
#pragma omp critical(turns)
      is_mine = turn == me;
      break;
    case 1:
      pthread_mutex_lock(&mutex);
      is_mine = turn == me;
      pthread_mutex_unlock(&mutex);
      break;
    case 2:
      is_mine = __atomic_fetch_add(&turn, 0, __ATOMIC_SEQ_CST) == me;
      break;
    default: {
#pragma omp flush
      is_mine = *(volatile int*)&turn == me;
    }
  }
  return is_mine;
}

static void give_turn(int way, int next) {
  switch (way) {
    case 0:
#pragma omp critical(turns)
      turn = next;
      break;
    case 1:
      pthread_mutex_lock(&mutex);
      turn = next;
      pthread_mutex_unlock(&mutex);
      break;
    case 2:
      __atomic_exchange_n(&turn, next, __ATOMIC_SEQ_CST);
      break;
    default: {
#pragma omp flush
      *(volatile int*)&turn = next;
#pragma omp flush
    }
  }
}

/* Threads tell each other in all ways that it is the other one's turn to write: what each has written by then
 * is in the file, before what the next one writes. Where there are many, every fourth writes all the time. */
static void hand_over(const char* name) {
  enum { rounds = 30, ways = 4, each = 3 };
  FILE* stream = fopen(name, "w+");
  int threads = 1;
  for (int way = 0; way < ways; ++way) {
    turn = 0;
#pragma omp parallel shared(threads)
    {
      const int me = omp_get_thread_num();
      const int all = omp_get_num_threads();
      if (me == 0) threads = all;
      if (me % 4 == 3) {
        for (int i = 0; i < 50 * rounds; ++i) {
          fprintf(stream, "beside\n");
#pragma omp critical(beside)
          { fprintf(stream, "beside\n"); }
        }
      } else {
        const int next = (me + 1) % all % 4 == 3 ? (me + 2) % all : (me + 1) % all;
        for (int round = 0; round < rounds; ++round) {
          while (!is_my_turn(way, me)) usleep(10);
          for (int i = 0; i < each; ++i) fprintf(stream, "%d %d %d\n", way, round, me);
          give_turn(way, next);
        }
      }
    }
  }
  rewind(stream);
  char line[100];
  for (int way = 0; way < ways; ++way) {
    for (int i = 0; i < rounds * threads * each; ++i) {
      int got[3] = {-1, -1, -1};
      if (i / each % threads % 4 == 3) continue;
      do {
        if (fgets(line, sizeof line, stream) == NULL) break;
      } while (strcmp(line, "beside\n") == 0);
      CHECK(sscanf(line, "%d %d %d", &got[0], &got[1], &got[2]), 3);
      CHECK(got[0], way);
      CHECK(got[1], i / each / threads);
      CHECK(got[2], i / each % threads);
    }
  }
  CHECK(fclose(stream), 0);
}

/* Whole lines of all threads, in no order; and pairs of them that belong together. */
static void write_at_once(const char* name) {
  enum { rounds = 20, singles = 20 };
  for (int round = 0; round < rounds; ++round) {
    FILE* stream = fopen(name, "w+");
    int threads = 1;
#pragma omp parallel shared(threads)
    {
      const int me = omp_get_thread_num();
      if (me == 0) threads = omp_get_num_threads();
      fprintf(stream, "begin %d %s%s", me, word_of(me), "\n");
#pragma omp barrier
      if ((me + round) % 2 == 0) {
        flockfile(stream);
        fprintf(stream, "first %d\n", me);
        usleep(200);
        fprintf(stream, "second %d\n", me);
        funlockfile(stream);
      } else {
        for (int i = 1; i < singles; ++i) {
          fprintf(stream, "begin %d %s%s", me, word_of(me), "\n");
          usleep(10);
        }
      }
    }
    rewind(stream);
    char line[100];
    int seen[threads_most] = {0};
    while (fgets(line, sizeof line, stream) != NULL) {
      int number = -1;
      int pair = -1;
      char word[100];
      if (sscanf(line, "begin %d %99s", &number, word) == 2) {
        CHECK(strcmp(word, word_of(number)), 0);
        ++seen[number];
      } else {
        CHECK(sscanf(line, "first %d", &number), 1);
        CHECK(fscanf(stream, "second %d ", &pair), 1);
        CHECK(pair, number);
        if (number >= 0) seen[number] += singles - 1;
      }
    }
    for (int i = 0; i < threads; ++i) CHECK(seen[i], singles);
    CHECK(fclose(stream), 0);
  }
}

static char byte_at(int i) {
  return (char)('a' + (i * 7 + i / 1000) % 26);
}

/* More than a message takes, and more than is taken at once. */
static void move_much(FILE* stream) {
  rewind(stream);
#pragma omp parallel
  {
    const int last = omp_get_num_threads() - 1;
    char* bytes = fresh(long_bytes);
    if (omp_get_thread_num() == last) {
      for (int i = 0; i < long_bytes; ++i) bytes[i] = byte_at(i);
      CHECK(fwrite(bytes, 4, long_bytes / 4, stream), long_bytes / 4);
      memset(bytes, 0, long_bytes);
      rewind(stream);
      CHECK(fread(bytes, 4, long_bytes, stream), long_bytes / 4);
      for (int i = 0; i < long_bytes; i += 997) CHECK(bytes[i], byte_at(i));
      char* line = NULL;
      size_t room = 0;
      rewind(stream);
      CHECK(getdelim(&line, &room, '\n', stream), long_bytes);
      CHECK(line[long_bytes - 1], byte_at(long_bytes - 1));
      free(line);
      rewind(stream);
      line = fresh(long_bytes + 1);
      CHECK(fgets(line, 2 * forwarded_most + 1, stream) == line, 1);
      CHECK(strlen(line), 2 * forwarded_most);
      CHECK(memcmp(line, bytes, 2 * forwarded_most), 0);
      CHECK(fgets(line, long_bytes + 1, stream) == line, 1);
      CHECK(strlen(line), long_bytes - 2 * forwarded_most);
      CHECK(fgets(line, long_bytes + 1, stream) == NULL, 1);
      /* With an end behind what is taken at once. */
      CHECK(fseek(stream, forwarded_most + 9, SEEK_SET), 0);
      CHECK(fputc('\n', stream), '\n');
      rewind(stream);
      CHECK(fgets(line, long_bytes + 1, stream) == line, 1);
      CHECK(strlen(line), forwarded_most + 10);
      CHECK(line[forwarded_most + 9], '\n');
      CHECK(ftell(stream), forwarded_most + 10);
      free(line);
    }
    free(bytes);
  }
}

/* What fails there fails here, and is closed there. */
static void end_them(FILE* stream, const char* name) {
  FILE* read_only = fopen(name, "r");
  FILE* command = popen("echo from a command; exit 3", "r");
#pragma omp parallel
  {
    const int last = omp_get_num_threads() - 1;
    if (omp_get_thread_num() == last) {
      CHECK_ERROR(fputc('x', read_only), EBADF);
      CHECK(ferror(read_only) != 0, 1);
      clearerr(read_only);
      CHECK(ferror(read_only), 0);
      CHECK(setvbuf(read_only, NULL, _IOFBF, 100), 0);
      setlinebuf(read_only);
      CHECK(fclose(read_only), 0);
      char line[100];
      CHECK(fgets(line, sizeof line, command) == line, 1);
      CHECK(strcmp(line, "from a command\n"), 0);
      CHECK(fgets(line, sizeof line, command) == NULL, 1);
      CHECK(WEXITSTATUS(pclose(command)), 3);
      CHECK(ftrylockfile(stream), 0);
      CHECK(ftrylockfile(stream), 0);
      funlockfile(stream);
    }
#pragma omp barrier
    if (omp_get_thread_num() == 0 && last != 0) CHECK(ftrylockfile(stream) != 0, 1);
#pragma omp barrier
    if (omp_get_thread_num() == last) {
      funlockfile(stream);
      CHECK(fclose(stream), 0);
    }
  }
}

static int handled;
static void note(int signal) {
  handled = signal;
}

/* Of the first thread's, on whichever node it is. */
static void use_descriptors(const char* name) {
  const int number = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600);
  int ends[2];
  CHECK(pipe(ends), 0);
  CHECK(close(ends[0]), 0);
  signal(SIGPIPE, note);
  const int writer = ends[1];
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < lines; ++i) {
#pragma omp ordered
    {
      char* text = fresh(100);
      CHECK(snprintf(text, 100, "%04d", i), 4);
      CHECK(write(number, text, 4), 4);
      CHECK(pwrite(number, text, 4, 4 * lines + 4 * i), 4);
      CHECK(lseek(number, 0, SEEK_CUR), 4 * (i + 1));
      struct iovec parts[2] = {{.iov_base = text + 4, .iov_len = 2}, {.iov_base = text + 8, .iov_len = 2}};
      CHECK(lseek(number, -4, SEEK_CUR), 4 * i);
      CHECK(readv(number, parts, 2), 4);
      CHECK(text[4] == text[0] && text[9] == text[3], 1);
      memset(text, 0, 10);
      CHECK(pread(number, text, 4, 4 * lines + 4 * i), 4);
      CHECK(atoi(text), i);
      CHECK_ERROR(pread(number, text, 4, -4), EINVAL);
      struct stat* status = fresh(sizeof *status);
      CHECK(fstat(number, status), 0);
      CHECK(status->st_size, 4 * lines + 4 * (i + 1));
      free(status);
      free(text);
    }
  }
#pragma omp parallel
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      char* bytes = fresh(long_bytes);
      memset(bytes, 'x', long_bytes);
      CHECK(lseek(number, 0, SEEK_SET), 0);
      CHECK(write(number, bytes, long_bytes), long_bytes);
      CHECK(fsync(number), 0);
      CHECK(fdatasync(number), 0);
      CHECK(lseek(number, 0, SEEK_SET), 0);
      memset(bytes, 0, long_bytes);
      CHECK(read(number, bytes, long_bytes), long_bytes);
      CHECK(bytes[0] == 'x' && bytes[long_bytes - 1] == 'x', 1);
      CHECK(ftruncate(number, 10), 0);
      CHECK(lseek(number, 0, SEEK_END), 10);
      CHECK_ERROR(write(writer, bytes, 1), EPIPE);
      CHECK(handled, SIGPIPE);
      CHECK(close(writer), 0);
      CHECK(close(number), 0);
      CHECK_ERROR(read(number, bytes, 1), EBADF);
      free(bytes);
    }
  }
  CHECK_ERROR(lseek(number, 0, SEEK_SET), EBADF);
  CHECK_ERROR(close(writer), EBADF);
  CHECK(unlink(name), 0);
}

/* As programs before C99 call it. */
int scanf_of_gnu(const char* format, ...) __asm__("scanf");

/* Standard input has the lines of write_line(). */
static int read_input(void) {
  /* The header has it no more. */
  char* (*const take_line)(char*) = (char* (*)(char*))dlsym(RTLD_DEFAULT, "gets");
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < lines; ++i) {
#pragma omp ordered
    {
      char text[100] = "";
      char wanted[100];
      snprintf(wanted, sizeof wanted, "%d %s\n", i, word_of(i));
      int number = -1;
      switch (i % 7) {
        case 0:
          CHECK(fgets(text, sizeof text, stdin) == text, 1);
          break;
        case 1:
          CHECK(scanf("%d %99s", &number, text), 2);
          CHECK(number, i);
          CHECK(getchar(), '\n');
          snprintf(text, sizeof text, "%s", wanted);
          break;
        case 2:
          for (int at = 0; wanted[at] != '\0'; ++at) text[at] = (char)getchar();
          break;
        case 3:
          for (int at = 0; wanted[at] != '\0'; ++at) text[at] = (char)getchar_unlocked();
          break;
        case 4:
          CHECK(take_line(text) == text, 1);
          strcat(text, "\n");
          break;
        case 5: {
          char* word = NULL;
          CHECK(scanf_of_gnu(i % 2 == 0 ? "%d %as" : "%d %ms", &number, &word), 2);
          CHECK(number, i);
          CHECK(getchar(), '\n');
          snprintf(text, sizeof text, "%d %s\n", number, word);
          free(word);
          break;
        }
        default:
          CHECK(fread(text, 1, strlen(wanted), stdin), strlen(wanted));
      }
      CHECK(strcmp(text, wanted), 0);
      CHECK(feof_unlocked(stdin), 0);
    }
  }
#pragma omp parallel
  {
#pragma omp barrier
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      char rest[10];
      CHECK(getchar(), EOF);
      CHECK(feof_unlocked(stdin) != 0, 1);
      CHECK(read(STDIN_FILENO, rest, sizeof rest), 0);
    }
  }
  return report("input");
}

int main(int count, char** words) {
  if (count > 1 && strcmp(words[1], "input") == 0) return read_input();
  char name[64];
  snprintf(name, sizeof name, "/tmp/craton-forwarded-%d", (int)getpid());
  write_at_once(name);
  FILE* stream = fopen(name, "w+");
  take_turns(stream);
  move_much(stream);
  end_them(stream, name);
  /* And of the last thread. */
  FILE* other = NULL;
#pragma omp parallel
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) other = fopen(name, "w+");
  }
  take_turns(other);
  CHECK(fclose(other), 0);
  look_back(name);
  flush_all_streams(name);
  hand_over(name);
  use_descriptors(name);
  return report("forwarded");
}
