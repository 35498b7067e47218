/// \file
/// The proof that both ends of a tcp connection belong to the job, before anything else is read from it.
///
///   connector                                            acceptor
///   hello: version, byte order, size, ranks, nonce  ──▶
///                              ◀── challenge: nonce, HMAC(secret, "acceptor" | both nonces | ranks)
///   proof: HMAC(secret, "connector" | both nonces | ranks)  ──▶
///
/// Nonces are random, so nothing recorded can be replayed; the two codes differ, so none can be reflected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/keyed_hash.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::tcp {

using Nonce = std::array<unsigned char, 32>;

struct Hello {
  static constexpr std::uint32_t expected_magic = 0x43524154;  // "CRAT" read in our byte order
  static constexpr std::uint32_t current_version = 1;
  std::uint32_t magic = expected_magic;
  std::uint32_t version = current_version;
  std::uint32_t job_size = 0;
  std::uint32_t connector = 0;
  std::uint32_t acceptor = 0;
  std::uint32_t reserved = 0;
  Nonce nonce{};
};
struct Challenge {
  Nonce nonce{};
  Mac proof{};
};
struct Proof {
  Mac proof{};
};
static_assert(sizeof(Hello) == 56 && sizeof(Challenge) == 64 && sizeof(Proof) == 32);

/// One end of a handshake, without a socket: bytes go in, bytes come out. Not for several threads.
class Handshake {
 public:
  enum class State : std::uint8_t { under_way, proven, refused };

  /// The end that connects to `acceptor`. output() holds the hello at once.
  static Handshake connector(Rank rank, Rank acceptor, Rank job_size, const JobSecret& secret);
  /// The end that was connected to.
  static Handshake acceptor(Rank rank, Rank job_size, const JobSecret& secret);

  /// How many bytes it waits for; 0 when it has ended. Give it no more: what follows are frames.
  std::size_t wanted_bytes() const noexcept;
  /// Takes exactly wanted_bytes() bytes.
  void feed(std::span<const std::byte> bytes);
  /// Bytes to be sent now; the caller takes them.
  std::vector<std::byte> take_output() { return std::exchange(output_, {}); }

  State state() const noexcept { return state_; }
  /// Once proven: who is there.
  Rank peer() const noexcept { return peer_; }
  /// Once refused: why.
  const char* refusal() const noexcept { return refusal_; }

 private:
  Handshake(Rank rank, Rank job_size, const JobSecret& secret, bool connects)
      : rank_(rank), job_size_(job_size), secret_(secret), connects_(connects) {}
  Mac expected(const char* role) const noexcept;
  void refuse(const char* why) noexcept;
  template <typename T>
  void emit(const T& value);

  Rank rank_;
  Rank job_size_;
  JobSecret secret_;
  bool connects_;
  bool challenged_ = false;  ///< acceptor: the hello has been answered
  Rank peer_ = 0;
  Nonce connector_nonce_{};
  Nonce acceptor_nonce_{};
  State state_ = State::under_way;
  const char* refusal_ = "";
  std::vector<std::byte> output_;
};

}  // namespace craton::fabric::tcp
