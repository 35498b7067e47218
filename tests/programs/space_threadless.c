/* No thread can be made any more: `space_threadless open` when the space is opened, `space_threadless strong`
 * when a strong block is first asked for, which ends the job. Prints "ok" in the first case. */
#define _GNU_SOURCE
#include <craton/space.h>
#include <pthread.h>
#include <string.h>

#include "rank.h"

static void refuse_threads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)1 << 50); /* more than there are addresses */
  pthread_setattr_default_np(&attributes);
}

int main(int argc, char** argv) {
  const int strong = argc == 2 && strcmp(argv[1], "strong") == 0;
  craton_segment_options segment = CRATON_SEGMENT_OPTIONS_INIT;
  void* data = NULL;
  void* written = NULL;
  must(craton_init(), "craton_init");
  if (!strong) {
    refuse_threads();
    if (craton_space_open(NULL) != CRATON_OUT_OF_RESOURCES) return 1;
    if (strstr(craton_last_error(), "cannot start the thread of the heartbeat") == NULL) return 2;
    if (strstr(craton_last_error(), "ulimit -u") == NULL) return 3;
    must(craton_barrier(), "craton_barrier");
    must(craton_finalize(), "craton_finalize");
    puts("ok");
    return 0;
  }
  must(craton_space_open(NULL), "craton_space_open");
  segment.bytes = 4096;
  segment.strength = CRATON_STRENGTH_STRONG;
  must(craton_segment_create(&segment, &data), "craton_segment_create");
  segment.strength = CRATON_STRENGTH_RELEASE;
  must(craton_segment_create(&segment, &written), "craton_segment_create");
  must(craton_space_barrier(0), "craton_space_barrier");
  refuse_threads();
  /* Who gives up the block has to publish first what it has written elsewhere. */
  for (int i = 0; i < 1000000; ++i) {
    ((volatile char*)written)[craton_rank()] = (char)i;
    must(craton_atomic_fetch_add64(data, 1, NULL), "craton_atomic_fetch_add64");
  }
  puts("never needed");
  return 0;
}
