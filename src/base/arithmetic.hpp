/// \file
/// Operations by which threads make one number of their parts, in any order: chosen at run time, on numbers
/// that are passed as their bytes.
#pragma once

#include <cstdint>

namespace craton {

struct Arithmetic {
  enum class Operation : std::uint8_t { add, multiply, bit_and, bit_or, bit_xor };

  Operation operation = Operation::add;
  bool is_floating = false;  ///< IEEE 754, of 4 or 8 bytes, added or multiplied; else an integer, modulo 2^n
  std::uint8_t bytes = 8;    ///< 1, 2, 4 or 8

  /// What changes no number, not even the sign of a zero.
  std::uint64_t identity() const noexcept;
  /// Of numbers in the lowest bytes; the others of the result are zero. By the thread's rounding mode.
  std::uint64_t combine(std::uint64_t left, std::uint64_t right) const noexcept;

  bool operator==(const Arithmetic&) const = default;
};

}  // namespace craton
