#include "coherence/merge.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace craton::coherence {

namespace {

using Bytes [[gnu::vector_size(32)]] = std::uint8_t;
using Words [[gnu::vector_size(32)]] = std::uint64_t;
constexpr std::size_t step = sizeof(Bytes);

// Always inlined, by reference, into functions that are compiled for wider registers as well: no call passes
// a vector, which the oldest machines would do otherwise than the newest.
[[gnu::always_inline]] inline void load(Bytes& value, const std::byte* from) noexcept {
  std::memcpy(&value, from, step);
}
[[gnu::always_inline]] inline void store(std::byte* to, const Bytes& value) noexcept {
  std::memcpy(to, &value, step);
}
[[gnu::always_inline]] inline bool any(const Bytes& mask) noexcept {
  Words words;
  std::memcpy(&words, &mask, step);
  return (words[0] | words[1] | words[2] | words[3]) != 0;
}

[[gnu::always_inline]] inline void note_races(MergeOutcome& outcome, const Bytes& mask,
                                              std::size_t at) noexcept {
  for (std::size_t i = 0; i < step; ++i) {
    if (mask[i] == 0) continue;
    outcome.first_race_byte = std::min(outcome.first_race_byte, at + i);
    ++outcome.race_bytes;
  }
}

}  // namespace

namespace {

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define CRATON_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define CRATON_WIDE
#endif

/// Stores the bytes of `incoming` that are marked, and no others.
[[gnu::always_inline]] inline void store_marked(std::byte* data, const std::byte* incoming,
                                                const Bytes& marked) noexcept {
  for (std::size_t word = 0; word < step; word += sizeof(std::uint64_t)) {
    std::uint64_t mask = 0;
    std::memcpy(&mask, reinterpret_cast<const std::byte*>(&marked) + word, sizeof mask);
    if (mask == 0) continue;
    if (mask == ~std::uint64_t{0}) {
      std::memcpy(data + word, incoming + word, sizeof mask);
    } else {
      for (std::size_t i = 0; i < sizeof mask; ++i) {
        if (marked[word + i] != 0) data[word + i] = incoming[word + i];
      }
    }
  }
}

/// On any machine. \param is_open others may be storing to `data` where nothing is to be merged
CRATON_WIDE
MergeOutcome merge_anywhere(std::byte* data, std::byte* twin, const std::byte* incoming, std::size_t bytes,
                            bool is_open) noexcept {
  MergeOutcome outcome;
  for (std::size_t at = 0; at < bytes; at += step) {
    Bytes new_value;
    load(new_value, incoming + at);
    Bytes base;
    load(base, twin + at);
    const Bytes there = reinterpret_cast<Bytes>(new_value != base);
    if (!any(there)) continue;
    outcome.written_there = true;
    Bytes own;
    load(own, data + at);
    const Bytes here = reinterpret_cast<Bytes>(own != base);
    const Bytes race = there & here & reinterpret_cast<Bytes>(own != new_value);
    if (any(race)) note_races(outcome, race, at);
    const Bytes taken = there & ~here;
    if (is_open) {
      store_marked(data + at, incoming + at, taken);
    } else {
      store(data + at, (taken & new_value) | (~taken & own));
    }
    store(twin + at, (here & base) | (~here & new_value));
  }
  return outcome;
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
/// Six times as fast: comparisons give a bit a byte, and stores take one.
__attribute__((target("avx512f,avx512bw"))) MergeOutcome merge_avx512(std::byte* data, std::byte* twin,
                                                                      const std::byte* incoming,
                                                                      std::size_t bytes,
                                                                      bool is_open) noexcept {
  constexpr std::size_t wide = 64;
  MergeOutcome outcome;
  for (std::size_t at = 0; at < bytes; at += wide) {
    const __mmask64 within = bytes - at >= wide ? ~__mmask64{0} : (__mmask64{1} << (bytes - at)) - 1;
    const __m512i new_value = _mm512_maskz_loadu_epi8(within, incoming + at);
    const __m512i base = _mm512_maskz_loadu_epi8(within, twin + at);
    const __mmask64 there = _mm512_cmpneq_epi8_mask(new_value, base);
    if (there == 0) continue;
    outcome.written_there = true;
    const __m512i own = _mm512_maskz_loadu_epi8(within, data + at);
    const __mmask64 here = _mm512_cmpneq_epi8_mask(own, base);
    const __mmask64 race = there & here & _mm512_cmpneq_epi8_mask(own, new_value);
    if (race != 0) [[unlikely]] {
      outcome.first_race_byte =
          std::min(outcome.first_race_byte, at + static_cast<std::size_t>(std::countr_zero(race)));
      outcome.race_bytes += static_cast<std::size_t>(std::popcount(race));
    }
    // Where it was not written there the new value is the base.
    const __mmask64 taken = there & ~here;
    if (is_open || within != ~__mmask64{0}) {
      _mm512_mask_storeu_epi8(data + at, taken, new_value);
      _mm512_mask_storeu_epi8(twin + at, taken, new_value);
    } else {
      _mm512_storeu_si512(data + at, _mm512_mask_mov_epi8(own, taken, new_value));
      _mm512_storeu_si512(twin + at, _mm512_mask_mov_epi8(base, taken, new_value));
    }
  }
  return outcome;
}

MergeOutcome merge(std::byte* data, std::byte* twin, const std::byte* incoming, std::size_t bytes,
                   bool is_open) noexcept {
  static const bool has_avx512 =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  return has_avx512 ? merge_avx512(data, twin, incoming, bytes, is_open)
                    : merge_anywhere(data, twin, incoming, bytes, is_open);
}
#else
MergeOutcome merge(std::byte* data, std::byte* twin, const std::byte* incoming, std::size_t bytes,
                   bool is_open) noexcept {
  return merge_anywhere(data, twin, incoming, bytes, is_open);
}
#endif

}  // namespace

MergeOutcome merge_closed(std::byte* data, std::byte* twin, const std::byte* incoming,
                          std::size_t bytes) noexcept {
  return merge(data, twin, incoming, bytes, false);
}

MergeOutcome merge_open(std::byte* data, std::byte* twin, const std::byte* incoming,
                        std::size_t bytes) noexcept {
  return merge(data, twin, incoming, bytes, true);
}

bool equal_blocks(const std::byte* left, const std::byte* right, std::size_t bytes) noexcept {
  return std::memcmp(left, right, bytes) == 0;
}

}  // namespace craton::coherence
