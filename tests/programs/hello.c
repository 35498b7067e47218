/* Every rank says who it is, between barriers. Arguments: how many barriers (3). */
#include "rank.h"

int main(int argc, char** argv) {
  const int barriers = argc > 1 ? atoi(argv[1]) : 3;
  must(craton_init(), "craton_init");
  for (int i = 0; i < barriers; ++i) must(craton_barrier(), "craton_barrier");
  printf("rank %d of %d on node %d\n", craton_rank(), craton_size(), craton_node());
  must(craton_finalize(), "craton_finalize");
  return 0;
}
