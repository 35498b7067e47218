/// \file
/// Atomic instructions on words that lie half in one block and half in the next.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { page = 4096, turns = 100 };
static char memory[4 * page] __attribute__((aligned(page)));

static void add(void* word, uint64_t addend) {
  __asm__ volatile("lock addq %1, (%0)" : : "r"(word), "r"(addend) : "memory");
}

int main(void) {
  char* const word = memory + 2 * page - 4;
  const uint64_t addend = UINT64_C(0xc0000001); /* carries to the other half */
  int team = 0;
#pragma omp parallel
  {
#pragma omp single
    team = omp_get_num_threads();
    for (int turn = 0; turn < turns; ++turn) add(word, addend);
  }
  const uint64_t all = (uint64_t)team * turns;
  uint64_t sum = 0;
  memcpy(&sum, word, sizeof sum);
  printf("alone: %s\n", sum == all * addend ? "right" : "wrong");
  uint32_t* const before = (uint32_t*)(word - 4);
  uint32_t* const behind = (uint32_t*)(word + 8);
#pragma omp parallel
  for (int turn = 0; turn < turns; ++turn) {
    add(word, addend);
#pragma omp atomic
    ++*before;
#pragma omp atomic
    ++*behind;
  }
  memcpy(&sum, word, sizeof sum);
  printf("beside others: %s\n",
         sum == 2 * all * addend && *before == all && *behind == all ? "right" : "wrong");
  return 0;
}
