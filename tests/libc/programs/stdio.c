/* Streams whose blocks, texts, names and buffers lie in shared memory, and what the C library allocates. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>
#include <wchar.h>

#include "check.h"

enum { large = 900 * 1000 };

static void streams(int me) {
  char name[64];
  snprintf(name, sizeof name, "/tmp/craton-stdio-%d-%d", (int)getpid(), me);
  FILE* file = fopen(fresh_text(name), "w+");
  CHECK(file != NULL, 1);
  char* block = fresh(large);
  for (int i = 0; i < large; ++i) block[i] = (char)('a' + i % 23);
  CHECK(fwrite(block, 9, large / 9, file), large / 9);
  CHECK(fseek(file, 0, SEEK_SET), 0);
  char* got = fresh(large);
  CHECK(fread(got, 1, large, file), large);
  CHECK(memcmp(got, block, large), 0);
  CHECK(fread(fresh(10), 1, 10, file), 0);
  CHECK(feof(file) != 0, 1);
  CHECK(ferror(file), 0);
  rewind(file);
  CHECK(fread(fresh(large), 4000, large / 4000, file), large / 4000);
  rewind(file);
  CHECK(setvbuf(file, fresh(10000), _IOFBF, 10000), 0);
  CHECK(fread(fresh(3000), 1, 3000, file), 3000);
  CHECK(fclose(file), 0);

  /* Unbuffered: each call is a system call. */
  file = fopen(name, "w+");
  CHECK(setvbuf(file, NULL, _IONBF, 0), 0);
  CHECK(fputs(fresh_text("a line\n"), file) >= 0, 1);
  CHECK(fprintf(file, fresh_text("%d %s\n"), 5, fresh_text("words")), 8);
  CHECK(fwrite(fresh_text("the last"), 1, 8, file), 8);
  rewind(file);
  char** line = fresh(sizeof *line);
  size_t* room = fresh(sizeof *room);
  CHECK(getline(line, room, file), 7);
  CHECK(strcmp(*line, "a line\n"), 0);
  CHECK(*room >= 8, 1);
  CHECK(getdelim(line, room, 's', file), 8 - 1);
  CHECK(strcmp(*line, "5 words"), 0);
  CHECK(getline(line, room, file), 1);
  CHECK(fgets(fresh(100), 100, file) != NULL, 1);
  CHECK(getline(line, room, file), -1);
  *line = realloc(*line, 5000);
  free(*line);
  CHECK(fclose(file), 0);

  file = fopen(name, "r");
  int number = 0;
  char* word = fresh(100);
  CHECK(fscanf(file, fresh_text("a line %d %99s"), &number, word), 2);
  CHECK(number, 5);
  CHECK(strcmp(word, "words"), 0);
  file = freopen(fresh_text(name), fresh_text("r"), file);
  CHECK(getc(file), 'a');
  CHECK(ungetc('b', file), 'b');
  CHECK(fgetc(file), 'b');
  CHECK(fclose(file), 0);
  int fd = open(name, O_RDONLY);
  file = fdopen(fd, "r");
  CHECK(fileno(file), fd);
  CHECK(fclose(file), 0);
  CHECK(unlink(name), 0);
}

static void memory(void) {
  char** text = fresh(sizeof *text);
  CHECK(asprintf(text, "%s-%d", fresh_text("made"), 42), 7);
  CHECK(strcmp(*text, "made-42"), 0);
  *text = realloc(*text, 100);
  free(*text);
  char* copy = strdup(fresh_text("copied"));
  CHECK(strcmp(copy, "copied"), 0);
  free(copy);
  copy = strndup(fresh_text("copied"), 3);
  CHECK(strcmp(copy, "cop"), 0);
  free(copy);
  wchar_t* wide = wcsdup(L"wide");
  CHECK(wcslen(wide), 4);
  free(wide);
  size_t* bytes = fresh(sizeof *bytes);
  FILE* stream = open_memstream(text, bytes);
  CHECK(stream != NULL, 1);
  for (int i = 0; i < 1000; ++i) fprintf(stream, "%04d", i);
  CHECK(fflush(stream), 0);
  CHECK(*bytes, 4000);
  CHECK(fclose(stream), 0);
  CHECK(*bytes, 4000);
  CHECK(memcmp(*text, "000000010002", 12), 0);
  CHECK(strlen(*text), 4000);
  free(*text);
}

int main(void) {
#pragma omp parallel
  {
    streams(omp_get_thread_num());
    memory();
  }
  char* whole = fresh(20001);
  memset(whole, 'x', 20000);
  whole[20000] = 0;
  CHECK(puts(whole), 20001);
  fputs(whole, stdout);
  printf("%s\n", whole);
  return report("stdio");
}
