#include "operations.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void bench_add(unsigned long* word, long times) {  // lock add
  for (long i = 0; i < times; i++) __atomic_fetch_add(word, (unsigned long)times, __ATOMIC_SEQ_CST);
}

EXPORTED void bench_fetch_add(unsigned long* word, long times) {  // lock xadd
  unsigned long last = 0;
  for (long i = 0; i < times; i++) last = __atomic_fetch_add(word, last & 1, __ATOMIC_SEQ_CST);
}

EXPORTED void bench_exchange(unsigned long* word, long times) {  // xchg
  unsigned long last = 0;
  for (long i = 0; i < times; i++) last = __atomic_exchange_n(word, last + 1, __ATOMIC_SEQ_CST);
}

EXPORTED void bench_compare_exchange(unsigned long* word, long times) {  // a load, lock cmpxchg, jne
  for (long i = 0; i < times; i++) {
    unsigned long seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &seen, seen + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
  }
}

// Too short for a jump, and what follows is jumped at.
EXPORTED void bench_increment_trapped(unsigned long* word, long times) {
  __asm__ volatile(
      "  jmp 2f\n"
      "1:\n"
      "  lock incl (%1)\n"
      "2:\n"
      "  subq $1, %0\n"
      "  jns 1b\n"
      : "+r"(times)
      : "r"(word)
      : "memory", "cc");
}

EXPORTED void bench_fence(unsigned long* word, long times) {  // lock or $0 on the stack
  (void)word;
  for (long i = 0; i < times; i++) __sync_synchronize();
}
