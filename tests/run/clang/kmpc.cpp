/// \file
/// What clang calls of LLVM's runtime and the other programs do not make it call: bounds of static loops of
/// all types, chunks of teams, updates by calls, atomics of odd sizes, untied tasks, kmp_* routines.
#include <atomic>
#include <climits>
#include <complex>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "check.h"

extern "C" {
void __kmpc_atomic_fixed4_add(void*, int, std::int32_t*, std::int32_t);
void __kmpc_atomic_fixed8_max(void*, int, std::int64_t*, std::int64_t);
long double __kmpc_atomic_float10_add_cpt(void*, int, long double*, long double, int);
void __kmpc_atomic_cmplx4_mul(void*, int, std::complex<float>*, std::complex<float>);
bool __kmpc_atomic_bool_4_cas(void*, int, std::int32_t*, std::int32_t, std::int32_t);
int __kmpc_global_thread_num(void*);
}

namespace {

template <typename Value>
long long sum_of_loops(Value first, Value last, Value step) {
  long long sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
#pragma omp for schedule(static)
    for (Value i = first; i < last; i += step) sum += static_cast<long long>(i % 1000);
#pragma omp for schedule(static, 3) nowait
    for (Value i = first; i < last; i += step) sum += static_cast<long long>(i % 1000) * 3;
#pragma omp for schedule(static, 1000000)
    for (Value i = first; i < last; i += step) sum += static_cast<long long>(i % 1000) * 5;
#pragma omp for schedule(dynamic, 7)
    for (Value i = first; i < last; i += step) sum += static_cast<long long>(i % 1000) * 7;
#pragma omp for schedule(guided)
    for (Value i = first; i < last; i += step) sum += static_cast<long long>(i % 1000) * 11;
  }
  return sum;
}

void loops() {
  check_int("int", sum_of_loops<int>(-500, 700, 3));
  check_int("unsigned", sum_of_loops<unsigned>(UINT_MAX - 2000, UINT_MAX - 10, 5));
  check_int("long", sum_of_loops<long>(LONG_MIN + 5, LONG_MIN + 2000, 7));
  check_int("unsigned long", sum_of_loops<unsigned long>(ULONG_MAX - 3000, ULONG_MAX - 100, 9));
  check_int("short", sum_of_loops<short>(3, 4, 1));
  int last = -1;
  long down = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp for lastprivate(last) schedule(static, 4)
    for (int i = 0; i < 101; ++i) last = i;
#pragma omp for reduction(+ : down)
    for (int i = 90; i > -13; i -= 4) down += i;
  }
  check_int("last", last);
  check_int("down", down);
}

void teams() {
  std::vector<int> times(1000);
  long long sum = 0;
#pragma omp teams distribute parallel for num_teams(3) reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) {
    take_part();
    ++times[static_cast<std::size_t>(i)];
    sum += i;
  }
#pragma omp teams distribute num_teams(3) dist_schedule(static, 7)
  for (int i = 0; i < 1000; ++i) ++times[static_cast<std::size_t>(i)];
#pragma omp teams distribute parallel for num_teams(2) schedule(dynamic, 3) dist_schedule(static)
  for (int i = 0; i < 1000; ++i) ++times[static_cast<std::size_t>(i)];
  int wrong = 0;
  for (const int time : times) wrong += time != 3;
  check_int("teams sum", sum);
  check_int("iterations of teams run not once each", wrong);
}

struct Odd {
  std::int32_t words[3];
  friend bool operator==(const Odd&, const Odd&) = default;
};

void atomics() {
  static std::int32_t count = 0;
  static std::int64_t largest = -1;
  static long double longs = 0;
  static std::complex<float> turned = 1;
  static std::int32_t swapped = 0;
  static std::atomic<Odd> odd{Odd{{0, 0, 0}}};
  static std::atomic<double> real{0};
  static std::atomic<__int128> wide{0};
  static std::complex<double> both = 0;
  static long double plain_long = 0;
  static std::int8_t byte = 0;
#pragma omp parallel
  {
    take_part();
    const int self = __kmpc_global_thread_num(nullptr);
#pragma omp for
    for (int i = 0; i < 240; ++i) {
      __kmpc_atomic_fixed4_add(nullptr, self, &count, 3);
      __kmpc_atomic_fixed8_max(nullptr, self, &largest, i * 37 % 241);
      __kmpc_atomic_float10_add_cpt(nullptr, self, &longs, 0.5L, 1);
      __kmpc_atomic_cmplx4_mul(nullptr, self, &turned, {0, 1});
      for (std::int32_t seen = swapped; !__kmpc_atomic_bool_4_cas(nullptr, self, &swapped, seen, seen + 1);)
        seen = *static_cast<volatile std::int32_t*>(&swapped);
      Odd before = odd.load();
      for (Odd after = before;; after = before) {
        ++after.words[0];
        after.words[1] += 2;
        after.words[2] -= 1;
        if (odd.compare_exchange_weak(before, after)) break;
      }
      double expected = real.load();
      while (!real.compare_exchange_weak(expected, expected + 0.25)) {
      }
      __int128 narrow = wide.load();
      while (!wide.compare_exchange_weak(narrow, narrow + (static_cast<__int128>(1) << 64) + 1)) {
      }
#pragma omp atomic
      plain_long += 1.5L;
#pragma omp atomic
      byte ^= static_cast<std::int8_t>(i);
#pragma omp critical(complex)
      both += std::complex<double>(1, 2);
    }
  }
  check_int("count", count);
  check_int("largest", largest);
  check_int("longs", static_cast<long long>(longs * 2));
  check_int("turned", static_cast<long long>(turned.real()));
  check_int("swapped", swapped);
  check_int("odd", odd.load().words[0] + 1000LL * odd.load().words[1] + 1000000LL * odd.load().words[2]);
  check_int("real", static_cast<long long>(real.load() * 4));
  check_int("wide", static_cast<long long>(wide.load() >> 64) + static_cast<long long>(wide.load()));
  check_int("plain long", static_cast<long long>(plain_long * 2));
  check_int("byte", byte);
  check_int("both", static_cast<long long>(both.real() + 10000 * both.imag()));
}

void tasks() {
  long long sum = 0;
  int order = 0;
  int last = 0;
#pragma omp parallel
  {
    meet();
#pragma omp single
    {
      for (int i = 0; i < 100; ++i) {
#pragma omp task untied firstprivate(i) shared(sum)
        {
          int part = i;
#pragma omp taskyield
#pragma omp task shared(part)
          part += 1000;
#pragma omp taskwait
#pragma omp atomic
          sum += part;
        }
      }
#pragma omp task depend(out : order)
      order = 5;
#pragma omp task if (0) depend(inout : order)
      order = order * 7;
#pragma omp taskwait depend(in : order)
      order += 1;
#pragma omp taskloop grainsize(3) lastprivate(last)
      for (unsigned long i = 10; i < 50; i += 2) last = static_cast<int>(i);
    }
  }
  check_int("untied", sum);
  check_int("order", order);
  check_int("last of a taskloop", last);
}

void copies() {
  int value = 0;
  std::vector<int> list;
  std::vector<int> got(static_cast<std::size_t>(omp_get_max_threads()));
#pragma omp parallel private(value) firstprivate(list)
  {
    take_part();
#pragma omp single copyprivate(value, list)
    {
      value = 42;
      list.assign(30, 3);
    }
    got[static_cast<std::size_t>(omp_get_thread_num())] =
        value + std::accumulate(list.begin(), list.end(), 0);
  }
  int wrong = 0;
  for (const int each : got) wrong += each != 132;
  check_int("copies that are wrong", wrong);
  kmp_set_blocktime(7);
  check_int("block time", kmp_get_blocktime());
  auto* const memory = static_cast<int*>(kmp_calloc(100, sizeof(int)));
#pragma omp parallel for
  for (int i = 0; i < 100; ++i) memory[i] += i;
  check_int("kmp_calloc", memory[7] + memory[99]);
  kmp_free(memory);
}

/// More variables of its surroundings than most regions have, each passed by its address.
void many_variables() {
  int v0 = 0, v1 = 1, v2 = 2, v3 = 3, v4 = 4, v5 = 5, v6 = 6, v7 = 7, v8 = 8, v9 = 9, v10 = 10, v11 = 11,
      v12 = 12, v13 = 13, v14 = 14, v15 = 15, v16 = 16, v17 = 17, v18 = 18, v19 = 19, v20 = 20, v21 = 21,
      v22 = 22, v23 = 23, v24 = 24, v25 = 25, v26 = 26, v27 = 27, v28 = 28, v29 = 29, v30 = 30, v31 = 31,
      v32 = 32, v33 = 33, v34 = 34, v35 = 35, v36 = 36, v37 = 37, v38 = 38, v39 = 39;
  long long sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    sum += v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11 + v12 + v13 + v14 + v15 + v16 + v17 +
           v18 + v19 + v20 + v21 + v22 + v23 + v24 + v25 + v26 + v27 + v28 + v29 + v30 + v31 + v32 + v33 +
           v34 + v35 + v36 + v37 + v38 + v39;
#pragma omp barrier
#pragma omp single
    {
      ++v0;
      ++v1;
      ++v2;
      ++v3;
      ++v4;
      ++v5;
      ++v6;
      ++v7;
      ++v8;
      ++v9;
      ++v10;
      ++v11;
      ++v12;
      ++v13;
      ++v14;
      ++v15;
      ++v16;
      ++v17;
      ++v18;
      ++v19;
      ++v20;
      ++v21;
      ++v22;
      ++v23;
      ++v24;
      ++v25;
      ++v26;
      ++v27;
      ++v28;
      ++v29;
      ++v30;
      ++v31;
      ++v32;
      ++v33;
      ++v34;
      ++v35;
      ++v36;
      ++v37;
      ++v38;
      ++v39;
    }
  }
  check_int("many variables", sum / omp_get_max_threads());
  check_int("many variables changed", v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9 + v10 + v11 + v12 +
                                          v13 + v14 + v15 + v16 + v17 + v18 + v19 + v20 + v21 + v22 + v23 +
                                          v24 + v25 + v26 + v27 + v28 + v29 + v30 + v31 + v32 + v33 + v34 +
                                          v35 + v36 + v37 + v38 + v39);
}

/// A league inside of a region, in which the thread is alone.
void teams_inside() {
  int sum = 0;
  int threads = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp single
#pragma omp target teams num_teams(1) map(tofrom : sum, threads)
    {
      threads += omp_get_num_threads();
#pragma omp parallel num_threads(1)
      {
#pragma omp barrier
#pragma omp for reduction(+ : sum)
        for (int i = 0; i < 10; ++i) sum += i;
      }
    }
  }
  check_int("teams inside of a region", 100 * threads + sum);
}

}  // namespace

int main() {
  loops();
  teams();
  atomics();
  tasks();
  copies();
  many_variables();
  teams_inside();
  return finish();
}
