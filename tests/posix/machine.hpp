/// \file
/// Runs a piece of machine code with all registers given, and tells what it made of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>

#include "posix/atomics/registers.hpp"

namespace craton::posix {

/// x87, SSE, AVX and AVX-512 registers, in the standard form of XSAVE.
struct alignas(64) VectorState {
  static constexpr std::size_t bytes_most = 4096;
  std::array<std::byte, bytes_most> bytes{};

  /// All that this processor has, with random contents; some registers of the x87 stack are in use.
  static VectorState random(std::mt19937_64& engine);
  /// Where two states differ; empty if they do not.
  std::string difference_from(const VectorState& other) const;
};

struct Machine {
  Registers before{};
  Registers after{};
  VectorState vectors_before;
  VectorState vectors_after;

  /// Jumps to `code`, which must come back by a jump to exit_address(). One thread at a time.
  void run(std::uintptr_t code);
  static std::uintptr_t exit_address();
};

}  // namespace craton::posix
