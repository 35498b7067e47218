/* A user of Craton's C interface; also compiled as C++. Prints where it finds itself. */
#include <craton/craton.h>
#include <stdio.h>

int main(void) {
  if (craton_init() != CRATON_OK) {
    fprintf(stderr, "consumer: %s\n", craton_last_error());
    return 1;
  }
  printf("rank %d of %d on node %d\n", craton_rank(), craton_size(), craton_node());
  return craton_finalize() == CRATON_OK ? 0 : 1;
}
