/// \file
/// Torture of the atomic construct: every form of read, write, update, capture and compare that GCC 12 takes,
/// with every memory order, on every arithmetic type; and std::atomic_ref and the atomics of C++20 on the
/// same words. Neighbouring words, all threads at once, exact sums.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "check.h"

namespace {

constexpr int turns = 20;

/// Captures of counters in all the ways of writing one. A counter that ends where it began has gone up from
/// each value as often as down to it: so the sum of the values that steps up began at is that of the values
/// that steps down ended at, and their difference tells a capture that is not of its own step.
template <typename T>
void captures(const char* name) {
  static T words[8];
  for (T& word : words) word = T(0);
  static long long balance;
  static long long in_range;
  static long long odd;
  balance = in_range = odd = 0;
#pragma omp parallel
  {
    take_part();
    long long mine = 0;
    long long valid = 0;
    long long wrong = 0;
    for (int i = 0; i < turns; ++i) {
      T v;
#pragma omp atomic capture
      v = words[0]++;
      mine += static_cast<long long>(v);
#pragma omp atomic capture seq_cst
      v = ++words[0];
      mine += static_cast<long long>(v) - 1;
#pragma omp atomic capture relaxed
      v = words[0]--;
      mine -= static_cast<long long>(v) - 1;
#pragma omp atomic capture acq_rel
      v = --words[0];
      mine -= static_cast<long long>(v);
#pragma omp atomic capture
      v = words[1] += T(1);
      mine += static_cast<long long>(v) - 1;
#pragma omp atomic capture
      v = words[1] = words[1] - T(1);
      mine -= static_cast<long long>(v);
#pragma omp atomic capture
      v = words[2] = T(2) + words[2];
      wrong += static_cast<long long>(v) % 2 != 0;
#pragma omp atomic capture release
      {
        v = words[3];
        words[3] += T(2);
      }
      wrong += static_cast<long long>(v) % 2 != 0;
#pragma omp atomic capture
      {
        words[4] = words[4] + T(2);
        v = words[4];
      }
      wrong += static_cast<long long>(v) % 2 != 0;
#pragma omp atomic capture
      {
        v = words[5];
        words[5]++;
      }
      mine += static_cast<long long>(v);
#pragma omp atomic capture
      {
        --words[5];
        v = words[5];
      }
      mine -= static_cast<long long>(v);
#pragma omp atomic capture acquire
      {
        v = words[6];
        words[6] = T(i % 5);
      }
      valid += v >= T(0) && v < T(5);
#pragma omp atomic read seq_cst
      v = words[6];
      valid += v >= T(0) && v < T(5);
#pragma omp atomic read relaxed
      v = words[6];
#pragma omp atomic read acquire
      v = words[6];
      valid += v >= T(0) && v < T(5);
#pragma omp atomic write release
      words[7] = T(9);
#pragma omp atomic write relaxed
      words[7] = T(9);
#pragma omp atomic hint(0) update seq_cst
      words[7] = words[7] * T(1);
    }
#pragma omp atomic
    balance += mine;
#pragma omp atomic
    in_range += valid;
#pragma omp atomic
    odd += wrong;
  }
  long double result = 0;
  for (int i = 0; i < 8; ++i) {
    if (i != 6) result = result * 7 + static_cast<long double>(words[i]);
  }
  check_real(name, result);
  check_int(name, balance);
  check_int(name, in_range);
  check_int(name, odd);
}

/// Compare, with and without capture, and all orders of both sides.
template <typename T>
void compares(const char* name) {
  static T words[7];
  for (T& word : words) word = T(0);
  words[0] = T(120);
  words[1] = T(120);
  static long long taken;
  taken = 0;
#pragma omp parallel
  {
    take_part();
    long long mine = 0;
    for (int i = 0; i < turns; ++i) {
      const T e = T(100 - i);
#pragma omp atomic compare seq_cst
      if (words[0] > e) {
        words[0] = e;
      }
#pragma omp atomic compare
      words[1] = words[1] > e ? e : words[1];
#pragma omp atomic compare relaxed
      if (words[2] < T(i)) {
        words[2] = T(i);
      }
      // A token that one takes and gives back: takes and gives are as many.
      if constexpr (std::is_integral_v<T>) {
        T v;
        bool done = false;
        const T none = T(0);
        const T one = T(1);
#pragma omp atomic compare capture acq_rel fail(acquire)
        {
          v = words[3];
          if (words[3] == none) {
            words[3] = one;
          }
        }
        mine += v == none;
#pragma omp atomic compare capture
        {
          done = words[3] == one;
          if (done) {
            words[3] = none;
          }
        }
        mine -= done;
#pragma omp atomic compare capture fail(relaxed) seq_cst
        {
          if (words[4] == T(i)) {
            words[4] = T(i + 1);
          }
          v = words[4];
        }
        for (;;) {
          T seen;
#pragma omp atomic read
          seen = words[5];
#pragma omp atomic compare capture weak
          {
            done = words[5] == seen;
            if (done) {
              words[5] = T(seen + 1);
            }
          }
          if (done) break;
        }
        words[6] = T(0);
      }
    }
#pragma omp atomic
    taken += mine;
  }
  check_real(name, words[0] * 3.0L + words[1] * 5.0L + words[2] * 7.0L + words[5]);
  check_int(name, taken == static_cast<long long>(words[3]));
}

/// std::atomic_ref on plain words; floating-point fetch_add.
template <typename T>
void references(const char* name) {
  static T words[5];
  for (T& word : words) word = T(0);
#pragma omp parallel
  {
    take_part();
    std::atomic_ref<T> first(words[0]);
    std::atomic_ref<T> second(words[1]);
    std::atomic_ref<T> third(words[2]);
    std::atomic_ref<T> token(words[4]);
    for (int i = 0; i < turns; ++i) {
      first.fetch_add(T(2), std::memory_order_relaxed);
      first -= T(1);
      T seen = second.load(std::memory_order_relaxed);
      while (!second.compare_exchange_weak(seen, seen + T(3), std::memory_order_acq_rel)) continue;
      // Passed round: an exchange takes it, and it is never seen twice.
      if (token.exchange(T(1)) == T(0)) {
        words[3] = words[3] + T(1);
        third.fetch_add(T(1));
        token.store(T(0), std::memory_order_release);
      }
    }
  }
  check_real(name, words[0] * 3.0L + words[1] * 5.0L);
  check_int(name, words[2] == words[3]);
}

/// Objects of sizes that no type has: an instruction for some, locks of libatomic for others.
template <std::size_t bytes>
struct Parts {
  unsigned char part[bytes];
  bool operator==(const Parts& other) const { return std::memcmp(this, &other, bytes) == 0; }
};

template <std::size_t bytes>
void sizes() {
  static struct {
    std::atomic<Parts<bytes>> first;
    std::atomic<Parts<bytes>> second;
  } shared;
  shared.first = Parts<bytes>{};
  shared.second = Parts<bytes>{};
  static long long exchanged;
  exchanged = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < turns; ++i) {
      Parts<bytes> seen = shared.first.load();
      Parts<bytes> next;
      do {
        next = seen;
        for (unsigned char& part : next.part) ++part;
      } while (!shared.first.compare_exchange_weak(seen, next));
      std::memset(&next, i, sizeof next);
      const Parts<bytes> before = shared.second.exchange(next);
      bool is_whole = true;
      for (const unsigned char part : before.part) is_whole = is_whole && part == before.part[0];
#pragma omp atomic
      exchanged += is_whole;
    }
  }
  const Parts<bytes> last = shared.first.load();
  long long sum = 0;
  for (const unsigned char part : last.part) sum = sum * 31 + part;
  check_int("bytes of an object", static_cast<long long>(bytes));
  check_int("compare-exchanges of it", sum);
  check_int("exchanges of it", exchanged);
}

}  // namespace

#define ALL_OF(type)                     \
  captures<type>("capture of a " #type); \
  compares<type>("compare of a " #type); \
  references<type>("atomic_ref of a " #type);

int main() {
  ALL_OF(char)
  ALL_OF(signed char)
  ALL_OF(unsigned char)
  ALL_OF(short)
  ALL_OF(unsigned short)
  ALL_OF(int)
  ALL_OF(unsigned)
  ALL_OF(long)
  ALL_OF(unsigned long)
  ALL_OF(long long)
  ALL_OF(unsigned long long)
  ALL_OF(float)
  ALL_OF(double)
  captures<long double>("capture of a long double");
  compares<long double>("compare of a long double");
  sizes<1>();
  sizes<2>();
  sizes<3>();
  sizes<4>();
  sizes<5>();
  sizes<8>();
  sizes<12>();
  sizes<16>();
  sizes<24>();
  sizes<40>();
  return finish();
}
