#include "base/arithmetic.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>

namespace craton {
namespace {

using Operation = Arithmetic::Operation;

constexpr std::array<Operation, 5> operations = {Operation::add, Operation::multiply, Operation::bit_and,
                                                 Operation::bit_or, Operation::bit_xor};
constexpr std::array<std::uint8_t, 4> widths = {1, 2, 4, 8};
constexpr std::uint64_t pattern = 0x8091a2b3c4d5e6f7;

std::uint64_t low(std::uint64_t value, unsigned bytes) {
  return bytes == 8 ? value : value & ((std::uint64_t{1} << 8U * bytes) - 1);
}

TEST(Arithmetic, WithTheIdentityChangesNoInteger) {
  for (const Operation operation : operations) {
    for (const std::uint8_t bytes : widths) {
      const Arithmetic arithmetic{.operation = operation, .is_floating = false, .bytes = bytes};
      for (const std::uint64_t value : {pattern, ~pattern, std::uint64_t{0}, ~std::uint64_t{0}}) {
        EXPECT_EQ(arithmetic.combine(arithmetic.identity(), low(value, bytes)), low(value, bytes));
        EXPECT_EQ(arithmetic.combine(low(value, bytes), arithmetic.identity()), low(value, bytes));
      }
    }
  }
}

TEST(Arithmetic, WithTheIdentityChangesNoFloatingNumber) {
  for (const Operation operation : {Operation::add, Operation::multiply}) {
    const Arithmetic of_double{.operation = operation, .is_floating = true, .bytes = 8};
    for (const double value : {0.0, -0.0, 1.5, -1e300, 5e-324}) {
      const auto bits = std::bit_cast<std::uint64_t>(value);
      EXPECT_EQ(of_double.combine(of_double.identity(), bits), bits) << value;
    }
    const Arithmetic of_float{.operation = operation, .is_floating = true, .bytes = 4};
    for (const float value : {0.0F, -0.0F, 1.5F, -1e30F}) {
      const std::uint64_t bits = std::bit_cast<std::uint32_t>(value);
      EXPECT_EQ(of_float.combine(of_float.identity(), bits), bits) << value;
    }
  }
}

TEST(Arithmetic, CombinesWhatItSays) {
  const auto of = [](Operation operation, std::uint8_t bytes, bool is_floating = false) {
    return Arithmetic{.operation = operation, .is_floating = is_floating, .bytes = bytes};
  };
  EXPECT_EQ(of(Operation::add, 1).combine(200, 100), 44U);
  EXPECT_EQ(of(Operation::add, 8).combine(~std::uint64_t{0}, 3), 2U);
  EXPECT_EQ(of(Operation::multiply, 2).combine(300, 300), 90000U % 65536U);
  EXPECT_EQ(of(Operation::bit_and, 4).combine(0xff0, 0x0ff), 0x0f0U);
  EXPECT_EQ(of(Operation::bit_or, 4).combine(0xff0, 0x0ff), 0xfffU);
  EXPECT_EQ(of(Operation::bit_xor, 4).combine(0xff0, 0x0ff), 0xf0fU);
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  EXPECT_EQ(of(Operation::add, 8, true).combine(bits(1.25), bits(-3)), bits(-1.75));
  EXPECT_EQ(of(Operation::multiply, 8, true).combine(bits(1.25), bits(-3)), bits(-3.75));
  const auto short_bits = [](float value) { return std::uint64_t{std::bit_cast<std::uint32_t>(value)}; };
  EXPECT_EQ(of(Operation::add, 4, true).combine(short_bits(1.25F), short_bits(-3)), short_bits(-1.75F));
}

}  // namespace
}  // namespace craton
