#include "posix/atomics/libatomic.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cfenv>
#include <cfloat>
#include <cstring>
#include <mutex>

#include "base/assert.hpp"

namespace craton::posix {
namespace {

__extension__ using Word16 = unsigned __int128;

constinit std::atomic<const SharedMemory*> shared_memory{nullptr};

// ---- Operations on a word, by instructions. All orders are the strongest, which x86-64 gives for nothing.

template <typename Word>
bool compare_exchange(Word* target, Word& expected, Word desired) noexcept {
  if constexpr (sizeof(Word) < sizeof(Word16)) {
    return __atomic_compare_exchange_n(target, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  } else {
    bool equal = false;
    auto low = static_cast<std::uint64_t>(expected);
    auto high = static_cast<std::uint64_t>(expected >> 64);
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(equal), "+m"(*target), "+a"(low), "+d"(high)
                     : "b"(static_cast<std::uint64_t>(desired)),
                       "c"(static_cast<std::uint64_t>(desired >> 64))
                     : "memory");
    expected = Word16{high} << 64 | low;
    return equal;
  }
}

template <typename Word>
Word load(Word* target) noexcept {
  if constexpr (sizeof(Word) < sizeof(Word16)) {
    return __atomic_load_n(target, __ATOMIC_SEQ_CST);
  } else {
    // Processors with AVX load 16 aligned bytes at once, read-only ones too.
    if (__builtin_cpu_supports("avx")) {
      Word16 value = 0;
      __asm__ volatile("vmovdqa %1, %%xmm0\n vmovdqu %%xmm0, %0"
                       : "=m"(value)
                       : "m"(*target)
                       : "xmm0", "memory");
      return value;
    }
    Word16 value = 0;
    compare_exchange(target, value, value);
    return value;
  }
}

/// Puts `change(value)` in place of the value. \returns what was there before
template <typename Word, typename Change>
Word modify(Word* target, Change&& change) noexcept {
  Word before = load(target);
  while (!compare_exchange(target, before, static_cast<Word>(change(before)))) {
  }
  return before;
}

// ---- Where an operation is done

/// Does `operation(word)` in place, or wherever the hook wants it. It may be done several times.
template <typename Word, typename Operation>
auto with_word(const volatile void* address, const Operation& operation, bool is_exchange = false) noexcept {
  void* const place = const_cast<void*>(address);
  const SharedMemory* const shared = shared_memory.load(std::memory_order_acquire);
  if (shared == nullptr || !shared->needs_hook(reinterpret_cast<std::uintptr_t>(place), sizeof(Word)))
    return operation(static_cast<Word*>(place));
  struct State {
    const Operation* operation;
    std::invoke_result_t<const Operation&, Word*> result;
  } state{&operation, {}};
  shared->hooks.for_operation(is_exchange)(
      place, sizeof(Word),
      [](void* context, void* target) {
        auto* const each = static_cast<State*>(context);
        each->result = (*each->operation)(static_cast<Word*>(target));
      },
      &state);
  return state.result;
}

/// Does `body` while nobody else is inside for the same address.
void with_lock(const volatile void* address, FunctionRef<void()> body) noexcept {
  static std::array<std::mutex, 64> locks;
  constexpr std::size_t line_bytes = 64;
  void* const place = const_cast<void*>(address);
  const auto number = reinterpret_cast<std::uintptr_t>(place);
  const SharedMemory* const shared = shared_memory.load(std::memory_order_acquire);
  if (shared != nullptr && shared->find(number) != nullptr) {
    shared->hooks.locked(place, body);
    return;
  }
  const std::scoped_lock lock(locks[number / line_bytes % locks.size()]);
  body();
}

template <typename Word>
Word fetch(const volatile void* address) noexcept {
  return with_word<Word>(address, [](Word* word) { return load(word); });
}

template <typename Word>
Word exchange(volatile void* address, Word value) noexcept {
  return with_word<Word>(
      address, [&](Word* word) { return modify(word, [&](Word) { return value; }); }, true);
}

template <typename Word>
bool compare_exchange_at(volatile void* address, void* expected, Word desired) noexcept {
  Word wanted{};
  std::memcpy(&wanted, expected, sizeof wanted);
  const Word found = with_word<Word>(address, [&](Word* word) {
    Word value = wanted;
    compare_exchange(word, value, desired);
    return value;
  });
  if (found == wanted) return true;
  std::memcpy(expected, &found, sizeof found);
  return false;
}

template <typename Word, typename Change>
Word fetch_and_change(volatile void* address, const Change& change) noexcept {
  return with_word<Word>(address, [&](Word* word) { return modify(word, change); });
}

// ---- Objects of any size

/// Calls `action` with a Word of the object's size. \returns false if it is no aligned word
template <typename Action>
bool as_word(std::size_t bytes, const volatile void* address, const Action& action) {
  if (bytes == 0 || reinterpret_cast<std::uintptr_t>(address) % bytes != 0) return false;
  switch (bytes) {
    case 1:
      action(std::uint8_t{});
      return true;
    case 2:
      action(std::uint16_t{});
      return true;
    case 4:
      action(std::uint32_t{});
      return true;
    case 8:
      action(std::uint64_t{});
      return true;
    case 16:
      action(Word16{});
      return true;
    default:
      return false;
  }
}

void load_object(std::size_t bytes, const volatile void* address, void* result) noexcept {
  const bool is_word = as_word(bytes, address, [&](auto word) {
    word = fetch<decltype(word)>(address);
    std::memcpy(result, &word, sizeof word);
  });
  if (!is_word) with_lock(address, [&] { std::memcpy(result, const_cast<const void*>(address), bytes); });
}

void store_object(std::size_t bytes, volatile void* address, const void* value) noexcept {
  const bool is_word = as_word(bytes, address, [&](auto word) {
    std::memcpy(&word, value, sizeof word);
    exchange(address, word);
  });
  if (!is_word) with_lock(address, [&] { std::memcpy(const_cast<void*>(address), value, bytes); });
}

void exchange_object(std::size_t bytes, volatile void* address, const void* value, void* result) noexcept {
  const bool is_word = as_word(bytes, address, [&](auto word) {
    std::memcpy(&word, value, sizeof word);
    word = exchange(address, word);
    std::memcpy(result, &word, sizeof word);
  });
  if (is_word) return;
  with_lock(address, [&] {
    // `value` and `result` may be the same.
    auto* const place = static_cast<std::byte*>(const_cast<void*>(address));
    std::array<std::byte, 64> before;
    for (std::size_t at = 0; at < bytes; at += before.size()) {
      const std::size_t count = std::min(before.size(), bytes - at);
      std::memcpy(before.data(), place + at, count);
      std::memcpy(place + at, static_cast<const std::byte*>(value) + at, count);
      std::memcpy(static_cast<std::byte*>(result) + at, before.data(), count);
    }
  });
}

bool compare_exchange_object(std::size_t bytes, volatile void* address, void* expected,
                             const void* desired) noexcept {
  bool equal = false;
  const bool is_word = as_word(bytes, address, [&](auto word) {
    std::memcpy(&word, desired, sizeof word);
    equal = compare_exchange_at(address, expected, word);
  });
  if (is_word) return equal;
  with_lock(address, [&] {
    void* const place = const_cast<void*>(address);
    equal = std::memcmp(place, expected, bytes) == 0;
    if (equal) {
      std::memcpy(place, desired, bytes);
    } else {
      std::memcpy(expected, place, bytes);
    }
  });
  return equal;
}

bool test_and_set(volatile void* address) noexcept {
  return exchange(address, std::uint8_t{1}) != 0;
}

void fence(int order) noexcept {
  const SharedMemory* const shared = shared_memory.load(std::memory_order_acquire);
  if (shared != nullptr && order != __ATOMIC_RELAXED) shared->hooks.flush();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/// By arithmetic that raises them, as libatomic does it: fenv.h's function is in another library.
void raise_exceptions(int exceptions) noexcept {
  const auto divide = [](double dividend, double divisor) {
    volatile double left = dividend;
    volatile double right = divisor;
    volatile double result = left / right;
    static_cast<void>(result);
  };
  if ((exceptions & FE_INVALID) != 0) divide(0, 0);
  if ((exceptions & FE_DIVBYZERO) != 0) divide(1, 0);
  if ((exceptions & FE_OVERFLOW) != 0) divide(DBL_MAX, DBL_MIN);
  if ((exceptions & FE_UNDERFLOW) != 0) divide(DBL_MIN, DBL_MAX);
  if ((exceptions & FE_INEXACT) != 0) divide(1, 3);
}

}  // namespace

void send_libatomic_to(const SharedMemory& shared) {
  CRATON_ASSERT(shared.hooks.locked != nullptr);
  shared_memory.store(new SharedMemory(shared), std::memory_order_release);
}

// ---- What is exported. The names are reserved for the compiler, so each function has one of ours as well.
// NOLINTBEGIN(bugprone-macro-parentheses, readability-identifier-naming)

extern "C" {
#define CRATON_EXPORT(name) __asm__(#name) __attribute__((visibility("default")))

#define CRATON_ATOMIC_CHANGE(bytes, Word, name, expression)                                                  \
  Word craton_fetch_##name##_##bytes(volatile void*, Word, int)                                              \
      CRATON_EXPORT(__atomic_fetch_##name##_##bytes);                                                        \
  Word craton_fetch_##name##_##bytes(volatile void* address, Word operand, int /*order*/) {                  \
    return fetch_and_change<Word>(address, [operand](Word value) { return static_cast<Word>(expression); }); \
  }                                                                                                          \
  Word craton_##name##_fetch_##bytes(volatile void*, Word, int)                                              \
      CRATON_EXPORT(__atomic_##name##_fetch_##bytes);                                                        \
  Word craton_##name##_fetch_##bytes(volatile void* address, Word operand, int order) {                      \
    const Word value = craton_fetch_##name##_##bytes(address, operand, order);                               \
    return static_cast<Word>(expression);                                                                    \
  }

#define CRATON_ATOMIC_WORD(bytes, Word)                                                               \
  Word craton_load_##bytes(const volatile void*, int) CRATON_EXPORT(__atomic_load_##bytes);           \
  Word craton_load_##bytes(const volatile void* address, int /*order*/) {                             \
    return fetch<Word>(address);                                                                      \
  }                                                                                                   \
  void craton_store_##bytes(volatile void*, Word, int) CRATON_EXPORT(__atomic_store_##bytes);         \
  void craton_store_##bytes(volatile void* address, Word value, int /*order*/) {                      \
    exchange(address, value);                                                                         \
  }                                                                                                   \
  Word craton_exchange_##bytes(volatile void*, Word, int) CRATON_EXPORT(__atomic_exchange_##bytes);   \
  Word craton_exchange_##bytes(volatile void* address, Word value, int /*order*/) {                   \
    return exchange(address, value);                                                                  \
  }                                                                                                   \
  bool craton_compare_exchange_##bytes(volatile void*, void*, Word, int, int)                         \
      CRATON_EXPORT(__atomic_compare_exchange_##bytes);                                               \
  bool craton_compare_exchange_##bytes(volatile void* address, void* expected, Word desired,          \
                                       int /*success*/, int /*failure*/) {                            \
    return compare_exchange_at(address, expected, desired);                                           \
  }                                                                                                   \
  bool craton_test_and_set_##bytes(volatile void*, int) CRATON_EXPORT(__atomic_test_and_set_##bytes); \
  bool craton_test_and_set_##bytes(volatile void* address, int /*order*/) {                           \
    return test_and_set(address);                                                                     \
  }                                                                                                   \
  CRATON_ATOMIC_CHANGE(bytes, Word, add, value + operand)                                             \
  CRATON_ATOMIC_CHANGE(bytes, Word, sub, value - operand)                                             \
  CRATON_ATOMIC_CHANGE(bytes, Word, and, value& operand)                                              \
  CRATON_ATOMIC_CHANGE(bytes, Word, or, value | operand)                                              \
  CRATON_ATOMIC_CHANGE(bytes, Word, xor, value ^ operand)                                             \
  CRATON_ATOMIC_CHANGE(bytes, Word, nand, ~(value & operand))

CRATON_ATOMIC_WORD(1, std::uint8_t)
CRATON_ATOMIC_WORD(2, std::uint16_t)
CRATON_ATOMIC_WORD(4, std::uint32_t)
CRATON_ATOMIC_WORD(8, std::uint64_t)
CRATON_ATOMIC_WORD(16, Word16)

#undef CRATON_ATOMIC_WORD
#undef CRATON_ATOMIC_CHANGE

void craton_load(std::size_t, const volatile void*, void*, int) CRATON_EXPORT(__atomic_load);
void craton_load(std::size_t bytes, const volatile void* address, void* result, int /*order*/) {
  load_object(bytes, address, result);
}
void craton_store(std::size_t, volatile void*, const void*, int) CRATON_EXPORT(__atomic_store);
void craton_store(std::size_t bytes, volatile void* address, const void* value, int /*order*/) {
  store_object(bytes, address, value);
}
void craton_exchange(std::size_t, volatile void*, const void*, void*, int) CRATON_EXPORT(__atomic_exchange);
void craton_exchange(std::size_t bytes, volatile void* address, const void* value, void* result,
                     int /*order*/) {
  exchange_object(bytes, address, value, result);
}
bool craton_compare_exchange(std::size_t, volatile void*, void*, const void*, int, int)
    CRATON_EXPORT(__atomic_compare_exchange);
bool craton_compare_exchange(std::size_t bytes, volatile void* address, void* expected, const void* desired,
                             int /*success*/, int /*failure*/) {
  return compare_exchange_object(bytes, address, expected, desired);
}
bool craton_is_lock_free(std::size_t, const volatile void*) CRATON_EXPORT(__atomic_is_lock_free);
bool craton_is_lock_free(std::size_t bytes, const volatile void* address) {
  return as_word(bytes, address, [](auto /*word*/) {});
}
void craton_feraiseexcept(int) CRATON_EXPORT(__atomic_feraiseexcept);
void craton_feraiseexcept(int exceptions) {
  raise_exceptions(exceptions);
}
void craton_thread_fence(int) CRATON_EXPORT(atomic_thread_fence);
void craton_thread_fence(int order) {
  fence(order);
}
void craton_signal_fence(int) CRATON_EXPORT(atomic_signal_fence);
void craton_signal_fence(int /*order*/) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
bool craton_flag_test_and_set(volatile void*) CRATON_EXPORT(atomic_flag_test_and_set);
bool craton_flag_test_and_set(volatile void* flag) {
  return test_and_set(flag);
}
bool craton_flag_test_and_set_explicit(volatile void*, int) CRATON_EXPORT(atomic_flag_test_and_set_explicit);
bool craton_flag_test_and_set_explicit(volatile void* flag, int /*order*/) {
  return test_and_set(flag);
}
void craton_flag_clear(volatile void*) CRATON_EXPORT(atomic_flag_clear);
void craton_flag_clear(volatile void* flag) {
  exchange(flag, std::uint8_t{0});
}
void craton_flag_clear_explicit(volatile void*, int) CRATON_EXPORT(atomic_flag_clear_explicit);
void craton_flag_clear_explicit(volatile void* flag, int /*order*/) {
  exchange(flag, std::uint8_t{0});
}
#undef CRATON_EXPORT
}
// NOLINTEND(bugprone-macro-parentheses, readability-identifier-naming)

}  // namespace craton::posix
