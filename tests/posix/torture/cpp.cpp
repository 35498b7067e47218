// std::atomic, the builtins without a library, and those of old. Word 0: sums, 1: bits, 2: compare and
// exchange, 3: tokens.
#include <atomic>

#include "words.h"

namespace {

template <typename Word>
void change(Word* words, int thread) {
  auto* const word = reinterpret_cast<std::atomic<Word>*>(words);
  // With and without a result: add, xadd, inc, dec and a loop.
  word[0] += 2;
  word[0].fetch_add(1, std::memory_order_relaxed);
  const Word before = word[0].fetch_sub(1);
  ++word[0];
  word[0]--;
  word[0].fetch_sub(static_cast<Word>(1 + (before & 0)));
  const Word bit = static_cast<Word>(Word{1} << thread);
  word[1].fetch_or(bit);
  if ((word[1].fetch_xor(bit) & bit) != 0) word[1].fetch_and(static_cast<Word>(~bit));
  word[1] |= bit;
  Word seen = word[2].load(std::memory_order_relaxed);
  while (!word[2].compare_exchange_weak(seen, static_cast<Word>(seen + 1), std::memory_order_acq_rel)) {
  }
  const Word token = word[3].exchange(0);
  word[3].fetch_add(static_cast<Word>(token + 1));
}

/// std::atomic has no arithmetic on these.
void change16(word16* word, int thread) {
  __atomic_add_fetch(&word[0], 3, __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(&word[0], 2, __ATOMIC_RELAXED);
  const word16 bit = word16{1} << thread;
  __atomic_fetch_xor(&word[1], bit, __ATOMIC_SEQ_CST);
  __atomic_and_fetch(&word[1], ~bit, __ATOMIC_SEQ_CST);
  __atomic_or_fetch(&word[1], bit, __ATOMIC_SEQ_CST);
  auto* const places = reinterpret_cast<std::atomic<word16>*>(word);
  word16 seen = places[2].load();
  while (!places[2].compare_exchange_weak(seen, seen + 1)) {
  }
  const word16 token = places[3].exchange(0);
  __atomic_fetch_add(&word[3], token + 1, __ATOMIC_SEQ_CST);
}

template <typename Word>
void change_by_builtins(Word* word) {
  __sync_fetch_and_add(&word[0], 5);
  __sync_sub_and_fetch(&word[0], 4);
  __sync_synchronize();
  Word seen = __sync_val_compare_and_swap(&word[2], 0, 0);
  while (!__sync_bool_compare_and_swap(&word[2], seen, static_cast<Word>(seen + 1)))
    seen = __atomic_load_n(&word[2], __ATOMIC_SEQ_CST);
}

}  // namespace

void torture_cpp(torture_words* words, int thread, int /*threads*/, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    change(words->c1, thread);
    change(words->c2, thread);
    change(words->c4, thread);
    change(words->c8, thread);
    change16(words->c16, thread);
    change_by_builtins(words->c1);
    change_by_builtins(words->c2);
    change_by_builtins(words->c4);
    change_by_builtins(words->c8);
    auto* const d = reinterpret_cast<std::atomic<double>*>(&words->d);
    d->fetch_add(1);
    auto* const f = reinterpret_cast<std::atomic<float>*>(&words->f);
    f->fetch_add(1);
    auto* const ld = reinterpret_cast<std::atomic<long double>*>(&words->ld);
    ld->fetch_add(1);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
