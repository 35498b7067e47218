#include "coherence/merge.hpp"

#include <algorithm>
#include <cstring>

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

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define CRATON_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define CRATON_WIDE
#endif

CRATON_WIDE
MergeOutcome merge_closed(std::byte* data, std::byte* twin, const std::byte* incoming,
                          std::size_t bytes) noexcept {
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
    store(data + at, (taken & new_value) | (~taken & own));
    store(twin + at, (here & base) | (~here & new_value));
  }
  return outcome;
}

CRATON_WIDE
MergeOutcome merge_open(std::byte* data, std::byte* twin, const std::byte* incoming,
                        std::size_t bytes) noexcept {
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
    for (std::size_t word = 0; word < step; word += sizeof(std::uint64_t)) {
      std::uint64_t mask = 0;
      std::memcpy(&mask, reinterpret_cast<const std::byte*>(&taken) + word, sizeof mask);
      if (mask == 0) continue;
      if (mask == ~std::uint64_t{0}) {
        std::memcpy(data + at + word, incoming + at + word, sizeof mask);
      } else {
        for (std::size_t i = 0; i < sizeof mask; ++i) {
          if (taken[word + i] != 0) data[at + word + i] = incoming[at + word + i];
        }
      }
    }
    store(twin + at, (here & base) | (~here & new_value));
  }
  return outcome;
}

bool equal_blocks(const std::byte* left, const std::byte* right, std::size_t bytes) noexcept {
  return std::memcmp(left, right, bytes) == 0;
}

}  // namespace craton::coherence
