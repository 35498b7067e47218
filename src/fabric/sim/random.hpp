/// \file
/// The simulator's only source of chance: xoshiro256** (Blackman and Vigna, 2018) seeded through splitmix64.
/// The same seed gives the same numbers on every machine and with every standard library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace craton::fabric::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15U;
      word = mix(seed);
    }
  }

  std::uint64_t next() noexcept {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  /// A number from 0 to limit - 1; 0 if limit is 0. The bias of the multiplication is below 2^-32 for our
  /// limits.
  std::uint64_t below(std::uint64_t limit) noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((Wide{next()} * limit) >> 64U);
  }
  /// A number from low to high.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
    return low + below(high - low + 1);
  }
  /// True once in `n` calls on average; never if n is 0.
  bool one_in(std::uint64_t n) noexcept { return n != 0 && below(n) == 0; }
  template <typename T, std::size_t count>
  const T& pick(const std::array<T, count>& choices) noexcept {
    return choices[below(count)];
  }

  /// splitmix64's finaliser: also a good hash of one word.
  static constexpr std::uint64_t mix(std::uint64_t word) noexcept {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31U);
  }

 private:
  static constexpr std::uint64_t rotate(std::uint64_t word, unsigned by) noexcept {
    return word << by | word >> (64U - by);
  }
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace craton::fabric::sim
