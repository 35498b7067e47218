/* lent_streams [lines | rest]: files that threads of several ranks read at once and in turn, by characters,
 * lines, numbers and blocks. Lines of standard input, and of it five only. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { lines = 1500, long_line = 9000 };

int _IO_getc(FILE* stream); /* of programs built long ago */

/* "17 17" and so on, some with a tail. */
static int line_of(char* text, int i) {
  return sprintf(text, "%d %d%s\n", i, i, i % 5 == 0 ? " and so on, and so on" : "");
}

static void write_lines(const char* name) {
  char text[100];
  FILE* stream = fopen(name, "w");
  for (int i = 0; i < lines; ++i) {
    line_of(text, i);
    fputs(text, stream);
  }
  CHECK(fclose(stream), 0);
}

static char seen[lines];

static int judge(const char* text, int last) {
  char wanted[100];
  const int number = atoi(text);
  CHECK(number > last && number < lines, 1);
  if (number < 0 || number >= lines) return last;
  line_of(wanted, number);
  CHECK(strcmp(text, wanted), 0);
  CHECK(__atomic_fetch_add(&seen[number], 1, __ATOMIC_RELAXED), 0);
  return number;
}

static void check_all_seen(void) {
  int count = 0;
  for (int i = 0; i < lines; ++i) count += seen[i];
  CHECK(count, lines);
  memset(seen, 0, sizeof seen);
}

/* All threads at once, each call with the stream's own lock. */
static void read_lines(FILE* stream) {
#pragma omp parallel
  {
    char* text = fresh(100);
    char* own = NULL;
    size_t room = 0;
    int last = -1;
    for (int i = omp_get_thread_num();; ++i) {
      if (i % 3 == 0) {
        if (getline(&own, &room, stream) < 0) break;
        last = judge(own, last);
      } else {
        if (fgets(text, 100, stream) == NULL) break;
        last = judge(text, last);
      }
      if (i % 50 == 0) usleep(100);
    }
    CHECK(feof(stream) != 0, 1);
    free(own);
    free(text);
  }
  check_all_seen();
}

static int next_of(FILE* stream, int way) {
  switch (way) {
    case 0:
      return getc(stream);
    case 1:
      return fgetc(stream);
    case 2:
      return getc_unlocked(stream);
    case 3:
      return fgetc_unlocked(stream);
    case 4:
      return _IO_getc(stream);
    default: {
      unsigned char byte = 0;
      return fread(&byte, 1, 1, stream) == 1 ? byte : EOF;
    }
  }
}

/* A line, by characters. \returns 0 at the end */
static int read_by_characters(FILE* stream, char* text, int way) {
  int length = 0;
  int next = 0;
  while (next != '\n' && (next = next_of(stream, way)) != EOF) text[length++] = (char)next;
  text[length] = '\0';
  return length;
}

static int read_by_numbers(FILE* stream, char* text) {
  int first = -1;
  int second = -1;
  int length = 0;
  if (fscanf(stream, "%d %d", &first, &second) != 2) return 0;
  CHECK(second, first);
  length = sprintf(text, "%d %d", first, second);
  const int next = getc(stream);
  CHECK(ungetc(next, stream), next);
  read_by_characters(stream, text + length, 0);
  return 1;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void enter(FILE* stream, int with) {
  if (with == 0) pthread_mutex_lock(&mutex);
  if (with == 1) flockfile(stream);
  if (with == 2)
    while (ftrylockfile(stream) != 0) usleep(10);
}

static void leave(FILE* stream, int with) {
  if (with == 0)
    pthread_mutex_unlock(&mutex);
  else
    funlockfile(stream);
}

/* A few lines at a time, which no other thread may come between. */
static void read_under_lock(FILE* stream, int with) {
#pragma omp parallel
  {
    char* text = fresh(200);
    int last = -1;
    int is_over = 0;
    for (int round = omp_get_thread_num(); !is_over; ++round) {
      enter(stream, with);
      int before = -1;
      for (int i = round % 7; i >= 0 && !is_over; --i) {
        const long place = ftell(stream);
        is_over = !(i % 2 == 0 ? read_by_characters(stream, text, round % 6) : read_by_numbers(stream, text));
        if (is_over) break;
        last = judge(text, last);
        if (before != -1) CHECK(last, before + 1);
        before = last;
        if (round % 4 == 0) CHECK(ftell(stream) - place, (long)strlen(text));
        if (round % 11 == 0) {
          CHECK(fseek(stream, -2, SEEK_CUR), 0);
          CHECK(getc(stream), text[strlen(text) - 2]);
          CHECK(getc(stream), '\n');
        }
      }
      leave(stream, with);
      if (round % 30 == 0) usleep(100);
    }
    free(text);
  }
  check_all_seen();
}

/* What the last thread has read is gone for the first, however that asks. */
static void alternate(FILE* stream) {
  int place = 0;
  char wanted[100];
  enum { ways = 8, rounds = 40 };
  for (int i = 0; i < ways * rounds; ++i) {
#pragma omp parallel
    {
      if (omp_get_thread_num() == omp_get_num_threads() - 1) {
        for (int more = i % 3; more >= 0; --more) {
          char* text = fresh(100);
          CHECK(fgets(text, 100, stream) == text, 1);
          place += line_of(wanted, atoi(text));
          CHECK(strcmp(text, wanted), 0);
          free(text);
        }
      }
    }
    char text[100];
    switch (i % ways) {
      case 0:
        CHECK(ftell(stream), place);
        break;
      case 1:
        CHECK(fgets(text, sizeof text, stream) == text, 1);
        place += (int)strlen(text);
        CHECK(text[strlen(text) - 1], '\n');
        break;
      case 2:
        CHECK(fseek(stream, 0, SEEK_CUR), 0);
        break;
      case 3:
        CHECK(fflush(stream), 0);
        CHECK(lseek(fileno(stream), 0, SEEK_CUR), place);
        break;
      case 4: {
        fpos_t position;
        CHECK(fgetpos(stream, &position), 0);
        CHECK(fsetpos(stream, &position), 0);
        break;
      }
      case 5: {
        const int next = getc_unlocked(stream);
        CHECK(next >= '0' && next <= '9', 1);
        CHECK(ungetc(next, stream), next);
        break;
      }
      case 6: {
        int number = -1;
        CHECK(fscanf(stream, "%d%*[^\n]", &number), 1);
        CHECK(getc(stream), '\n');
        place += line_of(wanted, number);
        break;
      }
      default:
        CHECK(fread(text, 1, 1, stream), 1);
        CHECK(fseek(stream, -1, SEEK_CUR), 0);
    }
  }
  CHECK(ftell(stream), place);
}

/* Read and written by the last thread, with what the first one sees of it. */
static void change(const char* name) {
  char text[100];
  FILE* stream = fopen(name, "w+");
  for (int i = 0; i < 100; ++i) fprintf(stream, "%04d\n", i);
#pragma omp parallel
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      rewind(stream);
      for (int i = 0; i < 10; ++i) {
        int number = -1;
        CHECK(fscanf(stream, "%d\n", &number), 1);
        CHECK(number, i);
      }
      CHECK(getc(stream), '0');
      CHECK(getc(stream), '0');
      CHECK(fseek(stream, 0, SEEK_CUR), 0);
      CHECK(fputs("xx", stream) >= 0, 1);
      CHECK(fseek(stream, 1, SEEK_CUR), 0);
      CHECK(getc(stream), '0');
      CHECK(getc(stream), '0');
      CHECK(ungetc('y', stream), 'y');
      CHECK(getc(stream), 'y');
    }
  }
  CHECK(fgets(text, sizeof text, stream) == text, 1);
  CHECK(strcmp(text, "11\n"), 0);
  rewind(stream);
  for (int i = 0; i < 100; ++i) {
    char wanted[100];
    sprintf(wanted, i == 10 ? "%02dxx\n" : "%04d\n", i == 10 ? 0 : i);
    CHECK(fgets(text, sizeof text, stream) == text, 1);
    CHECK(strcmp(text, wanted), 0);
  }
  rewind(stream);
#pragma omp parallel
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      CHECK(putw(0x31313131, stream), 0);
      rewind(stream);
      CHECK(getc(stream), '1');
      CHECK(fseek(stream, 0, SEEK_SET), 0);
      CHECK(getw(stream), 0x31313131);
    }
  }
  CHECK(getc(stream), '\n');
  CHECK(getw(stream), 0x31303030);
  CHECK(fclose(stream), 0);
}

/* Lines that no buffer holds, and buffers of all sizes; a stream that is closed while it is lent, whose place
 * the next one gets. */
static void read_long_lines(const char* name) {
  static const size_t buffers[] = {0, 1, 100, 5000, 100000};
  FILE* stream = fopen(name, "w");
  for (int i = 0; i < 9; ++i) {
    for (int at = 0; at < long_line; ++at) fputc('a' + (at + i) % 26, stream);
    fputc('\n', stream);
  }
  CHECK(fclose(stream), 0);
  for (size_t buffer = 0; buffer < sizeof buffers / sizeof buffers[0]; ++buffer) {
    stream = fopen(name, "r");
    CHECK(setvbuf(stream, NULL, buffers[buffer] == 0 ? _IONBF : _IOFBF, buffers[buffer]), 0);
#pragma omp parallel
    {
      char* line = NULL;
      size_t room = 0;
      if (omp_get_thread_num() == omp_get_num_threads() - 1) {
        for (int i = 0; i < 9; ++i) {
          if (i % 3 == 0) {
            CHECK(getline(&line, &room, stream), long_line + 1);
            CHECK(line[0] == 'a' + i && line[long_line - 1] == 'a' + (long_line - 1 + i) % 26, 1);
          } else if (i % 3 == 1) {
            for (int at = 0; at < long_line; ++at) CHECK(getc_unlocked(stream), 'a' + (at + i) % 26);
            CHECK(getc(stream), '\n');
          } else if (i < 8) {
            char* block = fresh(long_line);
            for (int at = 0; at < long_line; at += 200) {
              CHECK(fread(block + at, 200, 1, stream), 1);
              CHECK(block[at], 'a' + (at + i) % 26);
            }
            free(block);
            CHECK(getc(stream), '\n');
          }
        }
      }
      free(line);
    }
    CHECK(ftell(stream), 8 * (long_line + 1));
    CHECK(getc(stream), 'a' + 8);
    CHECK(fclose(stream), 0);
  }
}

/* What a command writes while it is read. */
static void read_command(void) {
  FILE* stream = popen("for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.01; done; exit 4", "r");
  int count = 0;
#pragma omp parallel
  {
    char* text = fresh(100);
    int last = 0;
    while (fgets(text, 100, stream) != NULL) {
      CHECK(atoi(text) > last, 1);
      last = atoi(text);
      __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    }
    free(text);
  }
  CHECK(count, 9);
  CHECK(pclose(stream), 4 << 8);
}

static int read_some_of_input(void) {
#pragma omp parallel
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      char text[100];
      for (int i = 0; i < 5; ++i) {
        CHECK(fgets(text, sizeof text, stdin) == text, 1);
        CHECK(atoi(text), i);
      }
    }
  }
  return report("rest");
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "rest") == 0) return read_some_of_input();
  if (count > 1) {
    read_lines(stdin);
    return report("lines");
  }
  char name[] = "/tmp/lent_streams_XXXXXX";
  CHECK(close(mkstemp(name)), 0);
  write_lines(name);
  FILE* stream = fopen(name, "r");
  read_lines(stream);
  for (int with = 0; with < 3; ++with) {
    rewind(stream);
    read_under_lock(stream, with);
  }
  rewind(stream);
  alternate(stream);
  rewind(stream);
  read_lines(stream);
  CHECK(fclose(stream), 0);
  change(name);
  read_long_lines(name);
  read_command();
  CHECK(unlink(name), 0);
  return report("lent_streams");
}
