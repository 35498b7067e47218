/* Heat spreads over a rod that all ranks share: each computes its part, and reads the ends of its neighbours'
 * parts as if they were its own. What each finds at the end it hangs into a list in the shared heap.
 * Arguments: cells (65536), steps (200). Try: craton run -n 4 -- heat; and with --stats=text. */
#include <craton/space.h>
#include <stdio.h>
#include <stdlib.h>

static void must(craton_status status, const char* what) {
  if (status == CRATON_OK) return;
  fprintf(stderr, "heat: %s: %s\n", what, craton_last_error());
  exit(1);
}

/* A part's warmest cell. */
struct finding {
  struct finding* next;
  int rank;
  size_t cell;
  double warmth;
};

/* What all ranks find through the segment's first bytes. */
struct shared {
  craton_mutex list_mutex;
  struct finding* list;
};

static void* segment(const char* name, size_t bytes) {
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.name = name;
  options.bytes = bytes;
  options.placement = CRATON_PLACEMENT_BLOCKED;
  void* data = NULL;
  must(craton_segment_create(&options, &data), "craton_segment_create");
  return data;
}

static void report(struct shared* shared, const double* cells, size_t first, size_t end) {
  struct finding* found = craton_alloc(sizeof *found);
  if (found == NULL) must(CRATON_OUT_OF_RESOURCES, "craton_alloc");
  found->rank = craton_rank();
  found->cell = first;
  for (size_t i = first; i < end; ++i) {
    if (cells[i] > cells[found->cell]) found->cell = i;
  }
  found->warmth = cells[found->cell];
  must(craton_mutex_lock(shared->list_mutex), "craton_mutex_lock");
  found->next = shared->list;
  shared->list = found;
  must(craton_mutex_unlock(shared->list_mutex), "craton_mutex_unlock");
}

int main(int argc, char** argv) {
  const size_t cells = argc > 1 ? strtoul(argv[1], NULL, 10) : 65536;
  const int steps = argc > 2 ? atoi(argv[2]) : 200;
  must(craton_init(), "craton_init");
  must(craton_space_open(NULL), "craton_space_open");

  struct shared* shared = segment("shared", sizeof *shared);
  double* now = segment("now", cells * sizeof *now);
  double* next = segment("next", cells * sizeof *next);
  if (craton_rank() == 0) {
    must(craton_mutex_create(&shared->list_mutex), "craton_mutex_create");
    now[cells / 2] = (double)cells;
  }
  must(craton_space_barrier(0), "craton_space_barrier");

  const size_t ranks = (size_t)craton_size();
  const size_t rank = (size_t)craton_rank();
  const size_t first = cells * rank / ranks;
  const size_t end = cells * (rank + 1) / ranks;
  for (int step = 0; step < steps; ++step) {
    for (size_t i = first; i < end; ++i) {
      const double left = i == 0 ? 0 : now[i - 1];
      const double right = i == cells - 1 ? 0 : now[i + 1];
      next[i] = now[i] / 2 + (left + right) / 4;
    }
    double* const swapped = now;
    now = next;
    next = swapped;
    must(craton_space_barrier(1), "craton_space_barrier");
  }

  report(shared, now, first, end);
  must(craton_space_barrier(2), "craton_space_barrier");
  if (rank == 0) {
    double sum = 0;
    for (size_t i = 0; i < cells; ++i) sum += now[i];
    printf("%zu ranks, %zu cells, %d steps: %.6f of the heat is still there\n", ranks, cells, steps,
           sum / (double)cells);
    for (size_t part = 0; part < ranks; ++part) {
      const struct finding* found = shared->list;
      while (found->rank != (int)part) found = found->next;
      printf("rank %zu: warmest at cell %zu, %.6f\n", part, found->cell, found->warmth);
    }
    while (shared->list != NULL) { /* most of them were allocated by other ranks */
      struct finding* const found = shared->list;
      shared->list = found->next;
      must(craton_free(found), "craton_free");
    }
  }
  must(craton_finalize(), "craton_finalize");
  return 0;
}
