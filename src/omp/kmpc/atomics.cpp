/// \file
/// Atomic updates that compilers do by calls: clang makes instructions or calls of libatomic instead, others
/// call these. One mutex of the space guards all, so they are atomic among each other on all ranks, not
/// beside instructions.
#include <algorithm>
#include <cstring>

#include "omp/kmpc/abi.hpp"
#include "omp/locks.hpp"

namespace craton::omp::kmpc {

namespace {

__extension__ using Complex4 = _Complex float;
__extension__ using Complex8 = _Complex double;
__extension__ using Complex10 = _Complex long double;

class Guard {
 public:
  Guard() { lock_critical(Locks::atomic()); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { unlock_critical(Locks::atomic()); }
};

/// \returns what was there, or with `wants_new` what is there now
template <typename Value, typename Change>
Value update(Value* at, int wants_new, const Change& change) {
  const Guard guard;
  const Value old = *at;
  *at = static_cast<Value>(change(old));
  return wants_new != 0 ? *at : old;
}

template <typename Value>
bool exchange_if(Value* at, Value expected, Value desired, Value& old) {
  const Guard guard;
  old = *at;
  if (old == expected) *at = desired;
  return old == expected;
}

/// \param compute puts into its first argument what becomes of the second and the third
template <std::size_t bytes>
void update_any(void* at, void* by, void (*compute)(void*, void*, void*)) {
  const Guard guard;
  alignas(16) unsigned char result[bytes];
  compute(result, at, by);
  std::memcpy(at, result, bytes);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses, cppcoreguidelines-macro-usage): names, types and expressions

/// An update of `old` by `by`, without and with what it gives.
#define CRATON_UPDATE(name, Value, By, expression)                                                     \
  CRATON_KMPC void __kmpc_atomic_##name(Location* /*at*/, std::int32_t /*thread*/, Value* at, By by) { \
    update(at, 0, [&](Value old) { return expression; });                                              \
  }
#define CRATON_CAPTURE(name, Value, expression)                                                          \
  CRATON_KMPC Value __kmpc_atomic_##name(Location* /*at*/, std::int32_t /*thread*/, Value* at, Value by, \
                                         int wants_new) {                                                \
    return update(at, wants_new, [&](Value old) { return expression; });                                 \
  }
/// Of 8 bytes, which are given by memory.
#define CRATON_CAPTURE_AT(name, Value, expression)                                                      \
  CRATON_KMPC void __kmpc_atomic_##name(Location* /*at*/, std::int32_t /*thread*/, Value* at, Value by, \
                                        Value* result, int wants_new) {                                 \
    *result = update(at, wants_new, [&](Value old) { return expression; });                             \
  }
#define CRATON_BOTH(name, Value, expression) \
  CRATON_UPDATE(name, Value, Value, expression) CRATON_CAPTURE(name##_cpt, Value, expression)
#define CRATON_REVERSED(name, Value, operation)             \
  CRATON_BOTH(name, Value, old operation by)                \
  CRATON_UPDATE(name##_rev, Value, Value, by operation old) \
  CRATON_CAPTURE(name##_cpt_rev, Value, by operation old)
#define CRATON_READ_WRITE(name, Value)                                                                \
  CRATON_KMPC Value __kmpc_atomic_##name##_rd(Location* /*at*/, std::int32_t /*thread*/, Value* at) { \
    const Guard guard;                                                                                \
    return *at;                                                                                       \
  }                                                                                                   \
  CRATON_UPDATE(name##_wr, Value, Value, (static_cast<void>(old), by))
#define CRATON_SWAP(name, Value)                                                                     \
  CRATON_KMPC Value __kmpc_atomic_##name##_swp(Location* /*at*/, std::int32_t /*thread*/, Value* at, \
                                               Value by) {                                           \
    return update(at, 0, [&](Value) { return by; });                                                 \
  }
#define CRATON_LEAST_MOST(name, Value)                \
  CRATON_BOTH(name##_min, Value, by < old ? by : old) \
  CRATON_BOTH(name##_max, Value, by > old ? by : old)

#define CRATON_FIXED(name, Value, Unsigned)                                                             \
  CRATON_READ_WRITE(name, Value)                                                                        \
  CRATON_SWAP(name, Value)                                                                              \
  CRATON_BOTH(name##_add, Value, static_cast<Unsigned>(old) + static_cast<Unsigned>(by))                \
  CRATON_BOTH(name##_mul, Value, std::uint64_t{static_cast<Unsigned>(old)} * static_cast<Unsigned>(by)) \
  CRATON_BOTH(name##_andb, Value, old& by)                                                              \
  CRATON_BOTH(name##_orb, Value, old | by)                                                              \
  CRATON_BOTH(name##_xor, Value, old ^ by)                                                              \
  CRATON_BOTH(name##_neqv, Value, old ^ by)                                                             \
  CRATON_BOTH(name##_eqv, Value, ~(old ^ by))                                                           \
  CRATON_BOTH(name##_andl, Value, old != 0 && by != 0)                                                  \
  CRATON_BOTH(name##_orl, Value, old != 0 || by != 0)                                                   \
  CRATON_LEAST_MOST(name, Value)                                                                        \
  CRATON_REVERSED(name##_sub, Value, -)                                                                 \
  CRATON_REVERSED(name##_div, Value, /)                                                                 \
  CRATON_REVERSED(name##_shl, Value, <<)                                                                \
  CRATON_REVERSED(name##_shr, Value, >>)                                                                \
  CRATON_REVERSED(name##u_div, Unsigned, /)                                                             \
  CRATON_REVERSED(name##u_shr, Unsigned, >>)                                                            \
  CRATON_UPDATE(name##_mul_float8, Value, double, static_cast<double>(old) * by)                        \
  CRATON_UPDATE(name##_div_float8, Value, double, static_cast<double>(old) / by)
CRATON_FIXED(fixed1, std::int8_t, std::uint8_t)
CRATON_FIXED(fixed2, std::int16_t, std::uint16_t)
CRATON_FIXED(fixed4, std::int32_t, std::uint32_t)
CRATON_FIXED(fixed8, std::int64_t, std::uint64_t)

#define CRATON_FLOAT(name, Value)          \
  CRATON_READ_WRITE(name, Value)           \
  CRATON_SWAP(name, Value)                 \
  CRATON_BOTH(name##_add, Value, old + by) \
  CRATON_BOTH(name##_mul, Value, old* by)  \
  CRATON_REVERSED(name##_sub, Value, -)    \
  CRATON_REVERSED(name##_div, Value, /)
CRATON_FLOAT(float4, float)
CRATON_FLOAT(float8, double)
CRATON_FLOAT(float10, long double)
CRATON_FLOAT(cmplx8, Complex8)
CRATON_FLOAT(cmplx10, Complex10)
CRATON_LEAST_MOST(float4, float)
CRATON_LEAST_MOST(float8, double)
CRATON_LEAST_MOST(float10, long double)
CRATON_UPDATE(float4_add_float8, float, double, static_cast<double>(old) + by)
CRATON_UPDATE(float4_sub_float8, float, double, static_cast<double>(old) - by)
CRATON_UPDATE(float4_mul_float8, float, double, static_cast<double>(old) * by)
CRATON_UPDATE(float4_div_float8, float, double, static_cast<double>(old) / by)

CRATON_READ_WRITE(cmplx4, Complex4)
CRATON_KMPC void __kmpc_atomic_cmplx4_swp(Location* /*at*/, std::int32_t /*thread*/, Complex4* at,
                                          Complex4 by, Complex4* result) {
  *result = update(at, 0, [&](Complex4) { return by; });
}
#define CRATON_COMPLEX4(name, operation)                                      \
  CRATON_UPDATE(cmplx4_##name, Complex4, Complex4, old operation by)          \
  CRATON_UPDATE(cmplx4_##name##_cmplx8, Complex4, Complex8, old operation by) \
  CRATON_CAPTURE_AT(cmplx4_##name##_cpt, Complex4, old operation by)
CRATON_COMPLEX4(add, +)
CRATON_COMPLEX4(sub, -)
CRATON_COMPLEX4(mul, *)
CRATON_COMPLEX4(div, /)
CRATON_UPDATE(cmplx4_sub_rev, Complex4, Complex4, by - old)
CRATON_UPDATE(cmplx4_div_rev, Complex4, Complex4, by / old)
CRATON_CAPTURE_AT(cmplx4_sub_cpt_rev, Complex4, by - old)
CRATON_CAPTURE_AT(cmplx4_div_cpt_rev, Complex4, by / old)

#define CRATON_COMPARE(bytes, Value)                                                                      \
  CRATON_KMPC bool __kmpc_atomic_bool_##bytes##_cas(Location* /*at*/, std::int32_t /*thread*/, Value* at, \
                                                    Value expected, Value desired) {                      \
    Value old;                                                                                            \
    return exchange_if(at, expected, desired, old);                                                       \
  }                                                                                                       \
  CRATON_KMPC Value __kmpc_atomic_val_##bytes##_cas(Location* /*at*/, std::int32_t /*thread*/, Value* at, \
                                                    Value expected, Value desired) {                      \
    Value old;                                                                                            \
    exchange_if(at, expected, desired, old);                                                              \
    return old;                                                                                           \
  }                                                                                                       \
  CRATON_KMPC bool __kmpc_atomic_bool_##bytes##_cas_cpt(                                                  \
      Location* /*at*/, std::int32_t /*thread*/, Value* at, Value expected, Value desired, Value* seen) { \
    Value old;                                                                                            \
    if (exchange_if(at, expected, desired, old)) return true;                                             \
    *seen = old;                                                                                          \
    return false;                                                                                         \
  }                                                                                                       \
  CRATON_KMPC Value __kmpc_atomic_val_##bytes##_cas_cpt(                                                  \
      Location* /*at*/, std::int32_t /*thread*/, Value* at, Value expected, Value desired, Value* seen) { \
    Value old;                                                                                            \
    *seen = exchange_if(at, expected, desired, old) ? desired : old;                                      \
    return old;                                                                                           \
  }
CRATON_COMPARE(1, std::int8_t)
CRATON_COMPARE(2, std::int16_t)
CRATON_COMPARE(4, std::int32_t)
CRATON_COMPARE(8, std::int64_t)

#define CRATON_ANY(bytes)                                                                               \
  CRATON_KMPC void __kmpc_atomic_##bytes(Location* /*at*/, std::int32_t /*thread*/, void* at, void* by, \
                                         void (*compute)(void*, void*, void*)) {                        \
    update_any<bytes>(at, by, compute);                                                                 \
  }
CRATON_ANY(1)
CRATON_ANY(2)
CRATON_ANY(4)
CRATON_ANY(8)
CRATON_ANY(10)
CRATON_ANY(16)
CRATON_ANY(20)
CRATON_ANY(32)
// NOLINTEND(bugprone-macro-parentheses, cppcoreguidelines-macro-usage)

CRATON_KMPC void __kmpc_atomic_start() {
  lock_critical(Locks::atomic());
}
CRATON_KMPC void __kmpc_atomic_end() {
  unlock_critical(Locks::atomic());
}

}  // namespace craton::omp::kmpc
