#include "base/arithmetic.hpp"

#include <bit>

#include "base/assert.hpp"

namespace craton {
namespace {

using Operation = Arithmetic::Operation;

template <typename Number, typename Bits>
std::uint64_t combine_floating(Operation operation, std::uint64_t left, std::uint64_t right) noexcept {
  const auto one = std::bit_cast<Number>(static_cast<Bits>(left));
  const auto other = std::bit_cast<Number>(static_cast<Bits>(right));
  return std::bit_cast<Bits>(operation == Operation::multiply ? one * other : one + other);
}

std::uint64_t combine_integers(Operation operation, std::uint64_t left, std::uint64_t right) noexcept {
  switch (operation) {
    case Operation::add:
      return left + right;
    case Operation::multiply:
      return left * right;
    case Operation::bit_and:
      return left & right;
    case Operation::bit_or:
      return left | right;
    case Operation::bit_xor:
      return left ^ right;
  }
  CRATON_ASSERT(false);
  return 0;
}

constexpr std::uint64_t low_bytes(unsigned bytes) noexcept {
  return ~std::uint64_t{0} >> (64U - 8U * bytes);
}

}  // namespace

std::uint64_t Arithmetic::identity() const noexcept {
  if (is_floating && operation == Operation::multiply)
    return bytes == 4 ? std::bit_cast<std::uint32_t>(1.0F) : std::bit_cast<std::uint64_t>(1.0);
  if (is_floating) return std::uint64_t{1} << (8U * bytes - 1U);  // -0: 0 would change it
  if (operation == Operation::bit_and) return low_bytes(bytes);
  return operation == Operation::multiply ? 1 : 0;
}

std::uint64_t Arithmetic::combine(std::uint64_t left, std::uint64_t right) const noexcept {
  if (is_floating)
    return bytes == 4 ? combine_floating<float, std::uint32_t>(operation, left, right)
                      : combine_floating<double, std::uint64_t>(operation, left, right);
  return combine_integers(operation, left, right) & low_bytes(bytes);
}

}  // namespace craton
