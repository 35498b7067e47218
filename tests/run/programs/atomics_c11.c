/// \file
/// Torture of C's atomics: every operation of <stdatomic.h> and every operator on _Atomic objects of every
/// arithmetic type, complex ones included, on neighbouring words by all threads at once; compare-exchange of
/// 16 bytes as an instruction. Sums are exact, so an operation that is lost shows.
#include <complex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { turns = 25 };

/// Operators that all arithmetic types have. A word in between, and those around, are changed by nobody.
#define OPERATORS(name, type)                                                   \
  static void operators_##name(void) {                                          \
    static struct {                                                             \
      type before;                                                              \
      _Atomic(type) words[5];                                                   \
      type after;                                                               \
    } shared;                                                                   \
    shared.before = 11;                                                         \
    shared.after = 12;                                                          \
    for (int i = 0; i < 5; ++i) atomic_init(&shared.words[i], i == 3 ? 77 : 0); \
    _Pragma("omp parallel") {                                                   \
      take_part();                                                              \
      for (int i = 0; i < turns; ++i) {                                         \
        shared.words[0] += 1;                                                   \
        shared.words[1] -= 1;                                                   \
        shared.words[2] += (type)(i % 3);                                       \
        shared.words[4] += 2;                                                   \
        shared.words[4] -= 1;                                                   \
      }                                                                         \
    }                                                                           \
    long double sum = 0;                                                        \
    for (int i = 0; i < 5; ++i) {                                               \
      sum = sum * 13 + (long double)(type)shared.words[i];                      \
    }                                                                           \
    if ((type)shared.before != 11 || (type)shared.after != 12) sum = -1;        \
    check_real("operators on _Atomic " #type, sum);                             \
  }

OPERATORS(float, float)
OPERATORS(double, double)
OPERATORS(long_double, long double)

/// Complex types have no order, so both parts are shown.
#define COMPLEX_OPERATORS(name, type)                                                    \
  static void complex_##name(void) {                                                     \
    static struct {                                                                      \
      _Atomic(type complex) sum;                                                         \
      _Atomic(type complex) turned;                                                      \
    } shared;                                                                            \
    shared.sum = 0;                                                                      \
    shared.turned = 1;                                                                   \
    _Pragma("omp parallel") {                                                            \
      take_part();                                                                       \
      for (int i = 0; i < turns; ++i) {                                                  \
        shared.sum += 1 + 2 * (type complex)I;                                           \
        shared.turned *= (type complex)I; /* four times are once */                      \
        shared.turned *= (type complex)I;                                                \
        shared.turned *= (type complex)I;                                                \
        shared.turned *= (type complex)I;                                                \
      }                                                                                  \
    }                                                                                    \
    const type complex sum = shared.sum, turned = shared.turned;                         \
    check_real("real part of _Atomic " #type " complex", creall(sum));                   \
    check_real("imaginary part of _Atomic " #type " complex", cimagl(sum));              \
    check_real("turned _Atomic " #type " complex", creall(turned) + 2 * cimagl(turned)); \
  }

COMPLEX_OPERATORS(float, float)
COMPLEX_OPERATORS(double, double)
COMPLEX_OPERATORS(long_double, long double)

/// All of <stdatomic.h> on an integer type.
#define INTEGERS(name, type)                                                                              \
  static void integers_##name(void) {                                                                     \
    static struct {                                                                                       \
      type before;                                                                                        \
      _Atomic(type) words[12];                                                                            \
      type after;                                                                                         \
    } shared;                                                                                             \
    shared.before = 11;                                                                                   \
    shared.after = 12;                                                                                    \
    for (int i = 0; i < 12; ++i) atomic_init(&shared.words[i], 0);                                        \
    atomic_store(&shared.words[5], (type)-1);                                                             \
    _Pragma("omp parallel") {                                                                             \
      take_part();                                                                                        \
      _Atomic(type)* const words = shared.words;                                                          \
      const int self = omp_get_thread_num();                                                              \
      for (int i = 0; i < turns; ++i) {                                                                   \
        atomic_fetch_add(&words[0], (type)3);                                                             \
        atomic_fetch_add_explicit(&words[0], (type)1, memory_order_relaxed);                              \
        atomic_fetch_sub_explicit(&words[1], (type)2, memory_order_acquire);                              \
        words[2]++;                                                                                       \
        ++words[2];                                                                                       \
        words[2]--;                                                                                       \
        atomic_fetch_or_explicit(&words[3], (type)(1 << (i % 7)), memory_order_release);                  \
        atomic_fetch_xor(&words[4], (type)(i + self));                                                    \
        atomic_fetch_and(&words[5], (type) ~(1 << (i % 6)));                                              \
        type seen = atomic_load_explicit(&words[6], memory_order_relaxed);                                \
        while (!atomic_compare_exchange_weak_explicit(&words[6], &seen, (type)(seen + 5),                 \
                                                      memory_order_acq_rel, memory_order_relaxed)) {      \
        }                                                                                                 \
        do {                                                                                              \
          seen = atomic_load(&words[7]);                                                                  \
        } while (!atomic_compare_exchange_strong(&words[7], &seen, (type)(seen * 3 + 1)));                \
        words[8] += (type)i;                                                                              \
        words[9] ^= (type)i;                                                                              \
        words[9] |= 0;                                                                                    \
        /* A lock in a word, and a plain sum under it. */                                                 \
        while (atomic_exchange_explicit(&words[10], 1, memory_order_acquire) != 0) usleep(20);            \
        shared.words[11] = (type)(shared.words[11] + 1);                                                  \
        atomic_store_explicit(&words[10], 0, memory_order_release);                                       \
      }                                                                                                   \
    }                                                                                                     \
    unsigned long long sum = shared.before == 11 && shared.after == 12;                                   \
    for (int i = 0; i < 12; ++i) sum = sum * 1000003 + (unsigned long long)atomic_load(&shared.words[i]); \
    check_int("<stdatomic.h> on " #type, (long long)sum);                                                 \
  }

INTEGERS(char, char)
INTEGERS(signed_char, signed char)
INTEGERS(unsigned_char, unsigned char)
INTEGERS(short, short)
INTEGERS(unsigned_short, unsigned short)
INTEGERS(int, int)
INTEGERS(unsigned, unsigned)
INTEGERS(long, long)
INTEGERS(unsigned_long, unsigned long)
INTEGERS(long_long, long long)
INTEGERS(unsigned_long_long, unsigned long long)
INTEGERS(intmax, intmax_t)

/// Flags, truth values and pointers.
static void others(void) {
  static atomic_flag flag = ATOMIC_FLAG_INIT;
  static _Atomic(_Bool) truth;
  static long under_flag;
  static int table[10000];
  static _Atomic(int*) pointer;
  static _Atomic(long) turned_true;
  under_flag = 0;
  pointer = table;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
      while (atomic_flag_test_and_set_explicit(&flag, memory_order_acquire)) usleep(20);
      ++under_flag;
      atomic_flag_clear_explicit(&flag, memory_order_release);
#ifdef __clang__  // which has no other way to move an atomic pointer
      atomic_fetch_add(&pointer, 2);
      atomic_fetch_sub(&pointer, 1);
#else
      pointer += 2;
      pointer--;
#endif
      _Bool expected = 0;
      if (atomic_compare_exchange_strong(&truth, &expected, 1)) {
        ++turned_true;
        atomic_store(&truth, 0);
      } else {
        ++turned_true;
      }
    }
  }
  check_int("sum under an atomic_flag", under_flag);
  check_int("_Atomic pointer", pointer - table);
  check_int("_Atomic _Bool", turned_true + truth);
}

/// cmpxchg16b as an instruction of the program (-mcx16), beside words of 8 bytes in the same line.
static void sixteen_bytes(void) {
  static struct {
    _Alignas(16) unsigned __int128 wide[3];
    _Atomic(uint64_t) narrow[2];
  } shared;
  memset(&shared, 0, sizeof shared);
  const unsigned __int128 step = ((unsigned __int128)1 << 64) + 3;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
      unsigned __int128* const word = &shared.wide[i % 3];
      unsigned __int128 seen = 0;
      for (;;) {
        const unsigned __int128 before = __sync_val_compare_and_swap(word, seen, seen + step);
        if (before == seen) break;
        seen = before;
      }
      do {
        seen = __sync_val_compare_and_swap(word, 0, 0);
      } while (!__sync_bool_compare_and_swap(word, seen, seen + 1));
      atomic_fetch_add(&shared.narrow[i % 2], 7);
    }
  }
  for (int i = 0; i < 3; ++i) {
    check_int("high half of 16 bytes", (long long)(shared.wide[i] >> 64));
    check_int("low half of 16 bytes", (long long)shared.wide[i]);
  }
  check_int("words beside them", (long long)(shared.narrow[0] * 1000 + shared.narrow[1]));
}

int main(void) {
  operators_float();
  operators_double();
  operators_long_double();
#ifndef __clang__  // its assignment operators of complex types are a load and a store
  complex_float();
  complex_double();
  complex_long_double();
#endif
  integers_char();
  integers_signed_char();
  integers_unsigned_char();
  integers_short();
  integers_unsigned_short();
  integers_int();
  integers_unsigned();
  integers_long();
  integers_unsigned_long();
  integers_long_long();
  integers_unsigned_long_long();
  integers_intmax();
  others();
  sixteen_bytes();
  return finish();
}
