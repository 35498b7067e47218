/* A thread of each rank writes memory that all share, alone: `craton run -n 2 -- space_threads`. */
#include <craton/space.h>
#include <pthread.h>
#include <stddef.h>

#include "rank.h"

enum { blocks = 64, block_bytes = 4096 };

static void* write_all(void* data) {
  must(craton_thread_enter(), "craton_thread_enter");
  for (int block = 0; block < blocks; ++block)
    ((volatile char*)data)[block * block_bytes + craton_rank()] = 1;
  return NULL;
}

int main(void) {
  craton_segment_options segment = CRATON_SEGMENT_OPTIONS_INIT;
  void* data = NULL;
  must(craton_init(), "craton_init");
  must(craton_space_open(NULL), "craton_space_open");
  segment.bytes = blocks * block_bytes;
  must(craton_segment_create(&segment, &data), "craton_segment_create");
  pthread_t thread;
  if (pthread_create(&thread, NULL, &write_all, data) != 0 || pthread_join(thread, NULL) != 0) return 1;
  must(craton_space_barrier(0), "craton_space_barrier");
  must(craton_finalize(), "craton_finalize");
  return 0;
}
