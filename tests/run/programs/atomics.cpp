/// \file
/// Torture of atomics: all operations on 1 to 16 bytes, by all threads at once on neighbouring words. A group
/// of threads adds and another takes away; what is left tells whether an operation was lost.
#include <atomic>
#include <complex>
#include <cstdint>
#include <cstring>
#include <new>

#include "check.h"

namespace {

constexpr int turns = 30;

using Wide = unsigned __int128;

/// Words of a type next to each other, between words that nobody else may change.
template <typename T>
struct alignas(16) Neighbours {
  T before;
  T words[5];
  T after;
};

int in_all(bool is_right) {
  static int right;
#pragma omp barrier
#pragma omp single
  right = 0;
#pragma omp atomic
  right += is_right;
#pragma omp barrier
  return right;
}

/// All operations of std::atomic on a type; \returns a number in which each lost operation shows.
template <typename T>
std::uint64_t standard() {
  static Neighbours<std::atomic<T>> shared;
  static std::uint64_t result;
  shared.before = T(0x5a);
  shared.after = T(0xa5);
  for (auto& word : shared.words) word = T(0);
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int i = 0; i < turns; ++i) {
      shared.words[0].fetch_add(T(i + self));
      shared.words[0].fetch_sub(T(self), std::memory_order_acq_rel);
      shared.words[1] += T(3);
      shared.words[1]--;
      ++shared.words[1];
      T seen = shared.words[2].load(std::memory_order_acquire);
      while (!shared.words[2].compare_exchange_weak(seen, T(seen + 5))) continue;
      shared.words[3].fetch_xor(T(1 << (self % 7)), std::memory_order_relaxed);
      shared.words[3].fetch_or(T(0));
      shared.words[3].fetch_and(T(~T(0)), std::memory_order_release);
    }
    // A token is passed round: an exchange takes it, and must never see it twice.
    if (self == 0) shared.words[4].store(T(1));
#pragma omp barrier
    for (int i = 0; i < 10;) {
      if (shared.words[4].exchange(T(0)) == T(0)) continue;
      shared.words[2].fetch_add(T(1));
      ++i;
      T expected = T(0);
      if (!shared.words[4].compare_exchange_strong(expected, T(1))) shared.words[2].fetch_add(T(100));
    }
  }
  result = 0;
  for (const auto& word : shared.words) result = result * 1000003 + static_cast<std::uint64_t>(word.load());
  return result * 10 + (shared.before == T(0x5a) && shared.after == T(0xa5));
}

/// The same for 16 bytes, by the compiler's own operations.
std::uint64_t sixteen_bytes() {
  static Neighbours<Wide> shared;
  std::memset(&shared, 0, sizeof shared);
  shared.before = 7;
  shared.after = 9;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
      Wide* const word = &shared.words[i % 5];
      Wide seen = *word;
      while (!__atomic_compare_exchange_n(word, &seen, seen + ((Wide(1) << 64) + 3), false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST))
        continue;
      __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
    }
  }
  std::uint64_t result = 0;
  for (int i = 0; i < 5; ++i) {
    const Wide value = __atomic_load_n(&shared.words[i], __ATOMIC_SEQ_CST);
    result =
        result * 1000003 + static_cast<std::uint64_t>(value >> 64) * 1000 + static_cast<std::uint64_t>(value);
  }
  return result * 10 + (shared.before == 7 && shared.after == 9);
}

/// The older builtins, of which each is a full barrier.
template <typename T>
std::uint64_t builtins() {
  static T words[6];
  for (T& word : words) word = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
      __sync_fetch_and_add(&words[0], T(2));
      __sync_sub_and_fetch(&words[1], T(3));
      __sync_fetch_and_xor(&words[2], T(i));
      __sync_or_and_fetch(&words[3], T(1) << (i % 7));
      __sync_synchronize();
      for (T seen = words[4]; !__sync_bool_compare_and_swap(&words[4], seen, T(seen + 1)); seen = words[4])
        continue;
      while (__sync_lock_test_and_set(&words[5], T(1)) != 0) continue;
      words[1] = T(words[1] + 0);
      __sync_lock_release(&words[5]);
    }
  }
  std::uint64_t result = 0;
  for (const int i : {0, 2, 3, 4, 5}) result = result * 1000003 + static_cast<std::uint64_t>(words[i]);
  return result;
}

/// Every form of the atomic construct on an arithmetic type.
template <typename T>
long double construct() {
  static T words[13];
  for (T& word : words) word = T(0);
  words[3] = T(1);
  words[8] = T(100);
  words[12] = T(64);
  long long captures = 0;
  long long kept = 0;  // what was put into words[7], less what was taken out
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int i = 0; i < turns; ++i) {
#pragma omp atomic
      words[0] += T(1);
#pragma omp atomic update
      words[1]--;
#pragma omp atomic
      words[2] = words[2] + T(2);
#pragma omp atomic
      words[4] = T(1) - words[4];
      T captured;
#pragma omp atomic capture
      captured = words[5]++;
      long long seen = static_cast<long long>(captured);
#pragma omp atomic capture
      {
        words[6] += T(1);
        captured = words[6];
      }
      seen += static_cast<long long>(captured);
#pragma omp atomic capture
      {
        captured = words[7];
        words[7] = T(self + i % 3);
      }
      const long long put = self + i % 3 - static_cast<long long>(captured);
#pragma omp atomic compare
      words[8] = T(i + self) < words[8] ? T(i + self) : words[8];
#pragma omp atomic compare seq_cst
      words[9] = T(i) > words[9] ? T(i) : words[9];
#pragma omp atomic write seq_cst
      words[10] = T(5);
#pragma omp atomic read acquire
      captured = words[10];
      seen += static_cast<long long>(captured);
#pragma omp atomic acq_rel
      words[11] += T(1);
#pragma omp atomic
      captures += seen;
#pragma omp atomic
      kept += put;
    }
#pragma omp atomic
    words[3] *= T(2);
    if (self < 6) {
#pragma omp atomic
      words[12] /= T(2);
    }
  }
  long double result = kept == static_cast<long long>(words[7]) ? captures : -1e9L;
  words[7] = T(0);
  for (const T word : words) result = result * 3 + static_cast<long double>(word);
  return result;
}

/// The operators that integers have besides.
template <typename T>
std::uint64_t bits() {
  static T words[6];
  for (T& word : words) word = T(0);
  words[2] = T(1);
  words[3] = T(~T(0));
  words[4] = T(1);
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
#pragma omp atomic
      words[0] |= T(1 << (i % 6));
#pragma omp atomic
      words[1] ^= T(i * omp_get_thread_num());
#pragma omp atomic
      words[3] &= T(~(1 << (i % 5)));
#pragma omp atomic
      words[4] *= T(3);
#pragma omp atomic
      words[5] = T(i) ^ words[5];
    }
#pragma omp atomic
    words[2] <<= 1;
  }
  std::uint64_t result = 0;
  for (const T word : words) result = result * 257 + static_cast<std::uint64_t>(word);
  return result;
}

/// All sizes at once in one line of memory.
std::uint64_t mixed_sizes() {
  static struct alignas(64) {
    std::atomic<std::uint8_t> bytes[4];
    std::atomic<std::uint16_t> halves[2];
    std::atomic<std::uint32_t> words[2];
    std::atomic<std::uint64_t> longs[2];
    unsigned char plain[32];
  } line;
  int right = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int i = 0; i < turns; ++i) {
      line.bytes[i % 4].fetch_add(1);
      line.halves[i % 2].fetch_add(3);
      line.words[i % 2].fetch_add(5);
      line.longs[i % 2].fetch_add(7);
      line.plain[self % 32] = static_cast<unsigned char>(line.plain[self % 32] + 1);
    }
    const int all = in_all(line.plain[self % 32] == turns);
#pragma omp master
    right = all;
  }
  std::uint64_t result = static_cast<std::uint64_t>(right);
  for (const auto& byte : line.bytes) result = result * 1000003 + byte;
  for (const auto& half : line.halves) result = result * 1000003 + half;
  for (const auto& word : line.words) result = result * 1000003 + word;
  for (const auto& word : line.longs) result = result * 1000003 + word;
  return result;
}

/// Atomics on memory of all kinds.
long long places() {
  std::atomic<int> on_stack{0};
  auto* const on_heap = new std::atomic<int>[1000]();
  static thread_local std::atomic<int> of_thread{0};
  std::atomic<int>* const of_master = &of_thread;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
      ++on_stack;
      ++on_heap[i * 16];
      ++*of_master;
    }
  }
  long long sum = on_stack + 1000LL * of_thread;
  for (int i = 0; i < 1000; ++i) sum += 1000000LL * on_heap[i];
  delete[] on_heap;
  of_thread = 0;
  return sum;
}

void check_bits(const char* name, std::uint64_t value) {
  check_int(name, static_cast<long long>(value));
}

}  // namespace

int main() {
  check_bits("std::atomic of 1 byte", standard<std::uint8_t>());
  check_bits("std::atomic of 2 bytes", standard<std::uint16_t>());
  check_bits("std::atomic of 4 bytes", standard<std::uint32_t>());
  check_bits("std::atomic of 8 bytes", standard<std::uint64_t>());
  check_bits("std::atomic of int8_t", standard<std::int8_t>());
  check_bits("std::atomic of long", standard<long>());
  check_bits("compare-exchange of 16 bytes", sixteen_bytes());
  check_bits("__sync of 1 byte", builtins<unsigned char>());
  check_bits("__sync of 2 bytes", builtins<unsigned short>());
  check_bits("__sync of 4 bytes", builtins<unsigned>());
  check_bits("__sync of 8 bytes", builtins<unsigned long>());
  check_real("omp atomic of signed char", construct<signed char>());
  check_real("omp atomic of short", construct<short>());
  check_real("omp atomic of int", construct<int>());
  check_real("omp atomic of unsigned", construct<unsigned>());
  check_real("omp atomic of long", construct<long>());
  check_real("omp atomic of unsigned long long", construct<unsigned long long>());
  check_real("omp atomic of float", construct<float>());
  check_real("omp atomic of double", construct<double>());
  check_real("omp atomic of long double", construct<long double>());
  check_bits("omp atomic bits of unsigned char", bits<unsigned char>());
  check_bits("omp atomic bits of unsigned short", bits<unsigned short>());
  check_bits("omp atomic bits of unsigned", bits<unsigned>());
  check_bits("omp atomic bits of unsigned long", bits<unsigned long>());
  check_bits("all sizes at once", mixed_sizes());
  check_int("atomics on all kinds of memory", places());
  return finish();
}
