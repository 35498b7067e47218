/// \file
/// HMAC-SHA-256 (RFC 2104) and random bytes, by libsodium: how a rank proves that it knows the job's secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace craton {

using Key = std::array<unsigned char, 32>;
using Mac = std::array<unsigned char, 32>;

/// The code of the concatenation of `pieces`, each preceded by its length so that no two lists give the same
/// bytes.
Mac keyed_hash(const Key& key, std::initializer_list<std::span<const unsigned char>> pieces) noexcept;

/// Compares in constant time.
bool equal(const Mac& left, const Mac& right) noexcept;

/// Fills with bytes from the kernel's random source.
void random_bytes(std::span<unsigned char> bytes) noexcept;

/// The bytes of a trivial value, to be hashed or sent.
template <typename T>
std::span<const unsigned char> bytes_of(const T& value) noexcept {
  return {reinterpret_cast<const unsigned char*>(&value), sizeof value};
}

}  // namespace craton
