#include "fabric/ucx/frame_proof.hpp"

#include <sodium.h>

#include <cstring>

namespace craton::fabric::ucx {

static_assert(crypto_auth_hmacsha256_BYTES == sizeof(Digest));
static_assert(crypto_auth_hmacsha256_KEYBYTES == sizeof(JobSecret));
static_assert(crypto_hash_sha256_BYTES == sizeof(Digest));

Digest digest_of(const std::string& address) {
  Digest digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(address.data()), address.size());
  return digest;
}

FrameProof::FrameProof(const JobSecret& secret, Rank source, const Digest& source_address, Rank target,
                       const Digest& target_address)
    : secret_(secret),
      source_(source),
      source_address_(source_address),
      target_(target),
      target_address_(target_address) {}

Digest FrameProof::code(std::string_view purpose) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, secret_.data(), secret_.size());
  // Purposes have one length; everything after them has a fixed length.
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(purpose.data()),
                                purpose.size());
  unsigned char ranks[2 * sizeof(Rank)];
  std::memcpy(ranks, &source_, sizeof(Rank));
  std::memcpy(ranks + sizeof(Rank), &target_, sizeof(Rank));
  crypto_auth_hmacsha256_update(&state, ranks, sizeof ranks);
  crypto_auth_hmacsha256_update(&state, source_address_.data(), source_address_.size());
  crypto_auth_hmacsha256_update(&state, target_address_.data(), target_address_.size());
  Digest result{};
  crypto_auth_hmacsha256_final(&state, result.data());
  return result;
}

Hello FrameProof::hello() const {
  return {source_address_, code("craton ucx hello")};
}

bool FrameProof::accepts(const Hello& hello) const {
  const Digest expected = code("craton ucx hello");
  return sodium_memcmp(hello.proof.data(), expected.data(), expected.size()) == 0 &&
         sodium_memcmp(hello.address_digest.data(), source_address_.data(), source_address_.size()) == 0;
}

std::uint64_t FrameProof::token() const {
  const Digest whole = code("craton ucx frame");
  std::uint64_t token = 0;
  std::memcpy(&token, whole.data(), sizeof token);
  return token;
}

}  // namespace craton::fabric::ucx
