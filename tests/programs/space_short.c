/* A segment that one rank has no descriptors for is made on none; with them again, it is. */
#define _DEFAULT_SOURCE
#include <craton/space.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rank.h"

/* This rank can open `more` files and then none. */
static struct rlimit leave_descriptors(int more) {
  struct rlimit before;
  int opened[8];
  int count = 0;
  while (count < more) opened[count++] = dup(0);
  const int next = dup(0);
  if (next < 0 || getrlimit(RLIMIT_NOFILE, &before) != 0) exit(71);
  const struct rlimit now = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
  close(next);
  while (count > 0) close(opened[--count]);
  if (setrlimit(RLIMIT_NOFILE, &now) != 0) exit(72);
  return before;
}

int main(void) {
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.bytes = 100000;
  void* data = NULL;
  must(craton_init(), "craton_init");
  must(craton_space_open(NULL), "craton_space_open");
  const int is_short = craton_rank() == craton_size() - 1;
  for (int more = 0; more < 3; ++more) { /* a segment takes four */
    struct rlimit before;
    if (is_short) before = leave_descriptors(more);
    const craton_status status = craton_segment_create(&options, &data);
    if (status != CRATON_OUT_OF_RESOURCES || data != NULL) return 73;
    if (strstr(craton_last_error(), is_short ? "ulimit -n" : "rank") == NULL) {
      fprintf(stderr, "%s\n", craton_last_error());
      return 74;
    }
    if (is_short && setrlimit(RLIMIT_NOFILE, &before) != 0) return 75;
  }
  must(craton_space_barrier(0), "craton_space_barrier");
  must(craton_segment_create(&options, &data), "craton_segment_create");
  must(craton_atomic_fetch_add64((uint64_t*)data + 1000, 1, NULL), "craton_atomic_fetch_add64");
  must(craton_space_barrier(0), "craton_space_barrier");
  if (*((uint64_t*)data + 1000) != (uint64_t)craton_size()) return 76;
  must(craton_finalize(), "craton_finalize");
  puts("ok");
  return 0;
}
