// Locks that programs make themselves of atomics, around plain words: c4[0] is the lock, c4[1], c8[0] the
// words.
#include <atomic>

#include "words.h"

void torture_locks(torture_words* words, int /*thread*/, int /*threads*/, int rounds) {
  auto* const lock = reinterpret_cast<std::atomic<unsigned>*>(&words->c4[0]);
  volatile unsigned* const small = &words->c4[1];
  volatile unsigned long* const large = &words->c8[0];
  for (int i = 0; i < rounds; ++i) {
    while (lock->exchange(1) != 0) __builtin_ia32_pause();
    *small = *small + 1;
    *large = *large + 1;
    lock->store(0);  // xchg: a plain store would be invisible
  }
}
