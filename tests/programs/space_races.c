/* space_races WHERE: ranks 0 and 1 write different values to the same word without an order, three times
 * over; all else is ordered. WHERE: segment, heap (in an allocation of 200 bytes), none (nothing is
 * unordered) */
#include <craton/space.h>
#include <string.h>

#include "rank.h"

int main(int argc, char** argv) {
  const char* const where = argc > 1 ? argv[1] : "none";
  must(craton_init(), "craton_init");
  must(craton_space_open(NULL), "craton_space_open");
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.bytes = 8192;
  options.name = "field";
  void* data = NULL;
  must(craton_segment_create(&options, &data), "craton_segment_create");
  uint64_t** const pointer = data;
  uint64_t* field = (uint64_t*)data + 512;
  if (craton_rank() == 0) *pointer = craton_alloc(200);
  must(craton_space_barrier(0), "craton_space_barrier");
  uint64_t* const raced = strcmp(where, "heap") == 0 ? *pointer : field;
  const uint64_t rank = (uint64_t)craton_rank();
  for (uint64_t round = 1; round <= 10; ++round) {
    if (rank < 2) {
      field[64 + rank] = round; /* the same block, but other bytes: no race */
      field[32] = 5;            /* the same value: none that can be seen */
      if (strcmp(where, "none") != 0) raced[3] = 0x0101010101010101U * (2 * round + rank);
    }
    must(craton_barrier(), "craton_barrier"); /* both have written before either releases, so it is seen */
    must(craton_space_barrier(0), "craton_space_barrier");
  }
  must(craton_finalize(), "craton_finalize");
  return 0;
}
