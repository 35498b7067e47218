#include "base/keyed_hash.hpp"

#include <sodium.h>

#include "base/assert.hpp"

namespace craton {

static_assert(sizeof(Key) == crypto_auth_hmacsha256_KEYBYTES);
static_assert(sizeof(Mac) == crypto_auth_hmacsha256_BYTES);

Mac keyed_hash(const Key& key, std::initializer_list<std::span<const unsigned char>> pieces) noexcept {
  CRATON_ASSERT(sodium_init() >= 0);
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  for (const std::span<const unsigned char> piece : pieces) {
    const std::uint64_t length = piece.size();
    crypto_auth_hmacsha256_update(&state, bytes_of(length).data(), sizeof length);
    crypto_auth_hmacsha256_update(&state, piece.data(), piece.size());
  }
  Mac mac{};
  crypto_auth_hmacsha256_final(&state, mac.data());
  return mac;
}

bool equal(const Mac& left, const Mac& right) noexcept {
  return sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

void random_bytes(std::span<unsigned char> bytes) noexcept {
  CRATON_ASSERT(sodium_init() >= 0);
  randombytes_buf(bytes.data(), bytes.size());
}

}  // namespace craton
