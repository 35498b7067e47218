// Compound assignments and functions of C11 on all types. Word 0: sums, 1: bits, 2: compare and exchange, 3:
// tokens.
#include <stdatomic.h>
#include <string.h>

#include "words.h"

#define SUMS(type, array)                                                      \
  do {                                                                         \
    _Atomic type* const word = (_Atomic type*)words->array;                    \
    word[0] += 3;                                                              \
    word[0]--;                                                                 \
    atomic_fetch_sub(&word[0], 1);                                             \
    const type bit = (type)((type)1 << thread);                                \
    atomic_fetch_or(&word[1], bit);                                            \
    atomic_fetch_xor(&word[1], bit);                                           \
    atomic_fetch_and(&word[1], (type)~bit);                                    \
    word[1] |= bit;                                                            \
    type seen = atomic_load(&word[2]);                                         \
    while (!atomic_compare_exchange_weak(&word[2], &seen, (type)(seen + 1))) { \
    }                                                                          \
    type token = atomic_exchange(&word[3], (type)0);                           \
    atomic_fetch_add(&word[3], (type)(token + 1));                             \
  } while (0)

void torture_c11(torture_words* words, int thread, int threads, int rounds) {
  (void)threads;
  typedef struct {
    unsigned char bytes[3];
  } odd;
  for (int i = 0; i < rounds; i++) {
    SUMS(unsigned char, c1);
    SUMS(unsigned short, c2);
    SUMS(unsigned, c4);
    SUMS(unsigned long, c8);
    SUMS(word16, c16);
    *(_Atomic float*)&words->f += 1.0F;
    *(_Atomic double*)&words->d += 1.0;
    *(_Atomic long double*)&words->ld += 1.0L;
    _Atomic odd* const place = (_Atomic odd*)&words->odd;
    odd before = atomic_load(place);
    odd after;
    do {
      unsigned sum = before.bytes[0] + 256U * before.bytes[1] + 65536U * before.bytes[2] + 1;
      memcpy(after.bytes, &sum, 3);
    } while (!atomic_compare_exchange_strong(place, &before, after));
    atomic_thread_fence(memory_order_seq_cst);
  }
}
