// `#pragma omp atomic`: update, capture, compare and the operators, on all types. Word 0: sums, 1: bits, 2:
// products (from 1 on), 3: the greatest number.
#include "words.h"

namespace {

template <typename Word>
void change(Word* word, int thread, int number) {
#pragma omp atomic
  word[0]++;
#pragma omp atomic seq_cst
  word[0] += 3;
#pragma omp atomic
  word[0] = word[0] - 1;
#pragma omp atomic update
  word[0] = 2 + word[0];
#pragma omp atomic
  --word[0];
  Word before = 0;
#pragma omp atomic capture
  before = word[0]++;
#pragma omp atomic capture acq_rel
  {
    word[0] -= 4;
    before = word[0];
  }
  const Word bit = static_cast<Word>(Word{1} << thread);
#pragma omp atomic
  word[1] |= bit;
#pragma omp atomic
  word[1] ^= bit;
#pragma omp atomic
  word[1] &= static_cast<Word>(~bit);
#pragma omp atomic capture
  {
    before = word[1];
    word[1] |= bit;
  }
#pragma omp atomic
  word[2] *= 3;
  const Word greatest = static_cast<Word>(number);
#pragma omp atomic compare
  if (word[3] < greatest) {
    word[3] = greatest;
  }
#pragma omp atomic read
  before = word[3];
#pragma omp flush
}

/// Float, double, long double.
template <typename Number>
void change_number(Number* number) {
  Number before = 0;
#pragma omp atomic
  *number += 2;
#pragma omp atomic
  *number = *number - 2;
#pragma omp atomic capture
  before = *number += 1;
  static_cast<void>(before);
}

}  // namespace

void torture_openmp(torture_words* words, int thread, int threads, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const int number = (i * threads + thread) & 0x7f;
    change(words->c1, thread, number);
    change(words->c2, thread, number);
    change(words->c4, thread, number);
    change(words->c8, thread, number);
    change_number(&words->f);
    change_number(&words->d);
    change_number(&words->ld);
  }
}
