/// \file
/// What functions of the C library make once, and all threads use: expressions, conversions, trees, tables,
/// lists, words that scanf allocates.
#define _GNU_SOURCE
#include <argz.h>
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <glob.h>
#include <iconv.h>
#include <netdb.h>
#include <obstack.h>
#include <regex.h>
#include <search.h>
#include <string.h>
#include <wchar.h>
#include <wordexp.h>

#include "check.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

enum { some = 20, many = 200 };

static int compare(const void* one, const void* other) {
  return strcmp(one, other);
}

static void expressions(void) {
  regex_t expressions[some];
  int errors = 0;
  for (int i = 0; i < some; ++i) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, "^(a|b)*%d(c+)$", i);
    errors += regcomp(&expressions[i], pattern, REG_EXTENDED) != 0;
  }
  int right = 0;
#pragma omp parallel for reduction(+ : right) schedule(static, 1)
  for (int i = 0; i < many; ++i) {
    take_part();
    char text[32];
    regmatch_t matches[3];
    snprintf(text, sizeof text, "abba%dccc", i % some);
    right +=
        regexec(&expressions[i % some], text, 3, matches, 0) == 0 && matches[2].rm_eo == (int)strlen(text);
    right += regexec(&expressions[(i + 1) % some], text, 0, NULL, 0) == REG_NOMATCH;
  }
  check_int("regexec", right);
  // Freed by another thread than the one that made it, and made again where it was.
  for (int round = 0; round < 3; ++round) {
    right = 0;
#pragma omp parallel reduction(+ : right)
    {
      take_part();
      const int last = omp_get_num_threads() - 1;
      if (omp_get_thread_num() == last) {
        regfree(&expressions[0]);
        errors += regcomp(&expressions[0], round % 2 == 0 ? "x+" : "y+", REG_EXTENDED) != 0;
      }
#pragma omp barrier
      right += regexec(&expressions[0], round % 2 == 0 ? "xx" : "y", 0, NULL, 0) == 0;
      right += regexec(&expressions[0], round % 2 == 0 ? "y" : "x", 0, NULL, 0) == REG_NOMATCH;
    }
    check_int("an expression made anew", right);
  }
  for (int i = 0; i < some; ++i) regfree(&expressions[i]);
  errors += regcomp(&expressions[0], "(", REG_EXTENDED) == 0;
  char message[64];
  regerror(REG_EPAREN, &expressions[0], message, sizeof message);
  check_text("regerror", message);
  check_int("errors", errors);
}

static void conversions(void) {
  const iconv_t conversion = iconv_open("UTF-16LE", "UTF-8");
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    char text[] = "a\303\244";
    char* in = text;
    char made[8] = "";
    char* out = made;
    size_t in_left = 3;
    size_t out_left = sizeof made;
    size_t result;
#pragma omp critical
    result = iconv(conversion, &in, &in_left, &out, &out_left);
    right += result == 0 && out_left == 4 && memcmp(made, "a\0\344\0", 4) == 0;
  }
  check_int("iconv", right);
  check_int("iconv_close", iconv_close(conversion));
  check_int("iconv_open, in vain", iconv_open("of", "nobody") == (iconv_t)-1 && errno == EINVAL);
}

static void trees_and_tables(void) {
  static char names[many][16];
  void* root = NULL;
#pragma omp parallel for schedule(static, 1)
  for (int i = 0; i < many; ++i) {
    take_part();
    snprintf(names[i], sizeof names[i], "%d", i);
#pragma omp critical
    tsearch(names[i], &root, &compare);
  }
  int right = 0;
#pragma omp parallel for reduction(+ : right) schedule(static, 1)
  for (int i = 0; i < many; ++i) {
    take_part();
    char name[16];
    snprintf(name, sizeof name, "%d", (i * 7) % many);
    char*** const found = (char***)tfind(name, &root, &compare);
    right += found != NULL && (char*)*found == names[(i * 7) % many];
  }
  check_int("tfind", right);
#pragma omp parallel for schedule(static, 1)
  for (int i = 0; i < many; ++i) {
    take_part();
#pragma omp critical
    tdelete(names[i], &root, &compare);
  }
  check_int("tdelete", root == NULL);

  struct hsearch_data table;
  memset(&table, 0, sizeof table);
  hcreate_r(2 * many, &table);
  ENTRY* entry;
  for (int i = 0; i < many; ++i) hsearch_r((ENTRY){names[i], names[i]}, ENTER, &entry, &table);
  right = 0;
#pragma omp parallel for reduction(+ : right) private(entry) schedule(static, 1)
  for (int i = 0; i < many; ++i) {
    take_part();
    right += hsearch_r((ENTRY){names[i], NULL}, FIND, &entry, &table) != 0 && entry->data == names[i];
  }
  check_int("hsearch_r", right);
  hdestroy_r(&table);

  // The only one of its kind, made by the last thread, of which each enters some.
  int failed = 0;
#pragma omp parallel reduction(+ : failed)
  {
    take_part();
    const int me = omp_get_thread_num();
    if (me == omp_get_num_threads() - 1) failed += hcreate(2 * many) == 0;
#pragma omp barrier
#pragma omp critical
    for (int i = me; i < many; i += omp_get_num_threads())
      failed += hsearch((ENTRY){names[i], names[i]}, ENTER) == NULL;
#pragma omp barrier
    for (int i = 0; i < many; ++i) {
      const ENTRY* const found = hsearch((ENTRY){names[i], NULL}, FIND);
      failed += found == NULL || found->data != names[i];
    }
    failed += hsearch((ENTRY){"nobody", NULL}, FIND) != NULL;
#pragma omp barrier
    if (me == 0) {
      hdestroy();
      failed += hcreate(10) == 0 || hsearch((ENTRY){names[0], NULL}, FIND) != NULL;
    }
  }
  check_int("hsearch, failed", failed);
  hdestroy();
}

static void texts(void) {
  char* list = NULL;
  size_t bytes = 0;
  argz_create_sep("a:b:c", ':', &list, &bytes);
  struct obstack stack;
  obstack_init(&stack);
  char* stacked[many];
  for (int i = 0; i < many; ++i)
    stacked[i] = obstack_copy0(&stack, "of a stack of objects, and not short", 36);
  void* here[4];
  const int depth = backtrace(here, 4);
  char** const symbols = backtrace_symbols(here, depth);
  const size_t length = strlen(symbols[0]);
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += argz_count(list, bytes) == 3 && strcmp(argz_next(list, bytes, list), "b") == 0;
    for (int i = 0; i < many; ++i) right += strlen(stacked[i]) == 36;
    right += strlen(symbols[0]) == length;
#pragma omp barrier
#pragma omp critical
    argz_add(&list, &bytes, "more");
  }
  check_int("texts of a list, of a stack", right);
  check_int("texts that threads have added", argz_count(list, bytes) - omp_get_max_threads());
  for (int i = 0; i < 3000; ++i) obstack_printf(&stack, "%d ", i);
  obstack_1grow(&stack, 0);
  const char* const printed = obstack_finish(&stack);
  right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += strlen(printed) == 13890;
  }
  check_int("texts that were printed to the stack", right);
  obstack_free(&stack, NULL);
  free(list);
  free(symbols);
}

static void scanned(void) {
  char* words[5] = {NULL, NULL, NULL, NULL, NULL};
  wchar_t* wide = NULL;
  char* set = NULL;
  int count = sscanf("hello 12 world", "%ms %*d %m[a-z]", &words[0], &words[1]);
  FILE* const file = tmpfile();
  fputs("of a file, and more of it", file);
  rewind(file);
  count += fscanf(file, "%ms %*s %m[a-z],", &words[2], &set);
  count += swscanf(L"one two", L"%ms %mls", &words[3], &wide);
  count += fscanf(file, " and %mc", &words[4]);
  check_int("what was scanned", count);
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += strcmp(words[0], "hello") == 0 && strcmp(words[1], "world") == 0;
    right += strcmp(words[2], "of") == 0 && strcmp(set, "file") == 0 && *words[4] == 'm';
    right += strcmp(words[3], "one") == 0 && wcscmp(wide, L"two") == 0;
  }
  check_int("words that scanf has allocated", right);
  fclose(file);
  for (int i = 0; i < 5; ++i) free(words[i]);
  free(wide);
  free(set);
}

static int is_wanted(const struct dirent* entry) {
  return strcmp(entry->d_name, "hosts") == 0 || strcmp(entry->d_name, "passwd") == 0;
}

static void listed(void) {
  struct dirent** entries = NULL;
  const int directory = open("/etc", O_RDONLY | O_DIRECTORY);
  const int all = scandirat(directory, ".", &entries, &is_wanted, &alphasort);
  int named = 0;
#pragma omp parallel reduction(+ : named)
  {
    take_part();
    named += strcmp(entries[all - 1]->d_name, "passwd") == 0;
  }
  check_int("scandirat", named);
  for (int i = 0; i < all; ++i) free(entries[i]);
  free(entries);
  close(directory);
}

static void found(void) {
  glob_t paths = {.gl_offs = 1};
  int right = glob("/etc/pass[w]d", GLOB_DOOFFS, NULL, &paths) == 0;
  right += glob("/etc/grou[p]", GLOB_DOOFFS | GLOB_APPEND, NULL, &paths) == 0;
  wordexp_t words;
  right += wordexp("one 'two three' four", &words, WRDE_NOCMD) == 0;
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_CANONNAME, .ai_family = AF_INET};
  struct addrinfo* addresses;
  right += getaddrinfo("127.0.0.1", NULL, &hints, &addresses) == 0;
  check_int("calls", right);
  right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += paths.gl_pathc == 2 && paths.gl_pathv[0] == NULL &&
             strcmp(paths.gl_pathv[1], "/etc/passwd") == 0 && strcmp(paths.gl_pathv[2], "/etc/group") == 0 &&
             paths.gl_pathv[3] == NULL;
    right += words.we_wordc == 3 && strcmp(words.we_wordv[1], "two three") == 0 && words.we_wordv[3] == NULL;
    right += strcmp(addresses->ai_canonname, "127.0.0.1") == 0;
    int count = 0;
    for (const struct addrinfo* one = addresses; one != NULL; one = one->ai_next)
      count += one->ai_addr->sa_family == AF_INET;
    right += count > 0;
  }
  check_int("what they found", right);
  globfree(&paths);
  wordfree(&words);
  freeaddrinfo(addresses);
}

int main(void) {
  expressions();
  conversions();
  trees_and_tables();
  texts();
  scanned();
  listed();
  found();
  return finish();
}
