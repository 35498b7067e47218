#include "fabric/tcp/handshake.hpp"

#include <cstring>
#include <string_view>

#include "base/assert.hpp"

namespace craton::fabric::tcp {

template <typename T>
void Handshake::emit(const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  output_.insert(output_.end(), first, first + sizeof value);
}

Handshake Handshake::connector(Rank rank, Rank acceptor, Rank job_size, const JobSecret& secret) {
  Handshake handshake(rank, job_size, secret, true);
  handshake.peer_ = acceptor;
  random_bytes(handshake.connector_nonce_);
  Hello hello;
  hello.job_size = job_size;
  hello.connector = rank;
  hello.acceptor = acceptor;
  hello.nonce = handshake.connector_nonce_;
  handshake.emit(hello);
  return handshake;
}

Handshake Handshake::acceptor(Rank rank, Rank job_size, const JobSecret& secret) {
  return Handshake(rank, job_size, secret, false);
}

Mac Handshake::expected(const char* role) const noexcept {
  const std::string_view text(role);
  const Rank connector = connects_ ? rank_ : peer_;
  const Rank acceptor = connects_ ? peer_ : rank_;
  return keyed_hash(secret_, {std::span(reinterpret_cast<const unsigned char*>(text.data()), text.size()),
                              connector_nonce_, acceptor_nonce_, bytes_of(connector), bytes_of(acceptor)});
}

void Handshake::refuse(const char* why) noexcept {
  state_ = State::refused;
  refusal_ = why;
}

std::size_t Handshake::wanted_bytes() const noexcept {
  if (state_ != State::under_way) return 0;
  if (connects_) return sizeof(Challenge);
  return challenged_ ? sizeof(Proof) : sizeof(Hello);
}

void Handshake::feed(std::span<const std::byte> bytes) {
  CRATON_ASSERT(bytes.size() == wanted_bytes());
  if (connects_) {
    Challenge challenge;
    std::memcpy(&challenge, bytes.data(), sizeof challenge);
    acceptor_nonce_ = challenge.nonce;
    if (!equal(challenge.proof, expected("acceptor"))) return refuse("it does not know the job's secret");
    emit(Proof{.proof = expected("connector")});
    state_ = State::proven;
    return;
  }
  if (challenged_) {
    Proof proof;
    std::memcpy(&proof, bytes.data(), sizeof proof);
    if (!equal(proof.proof, expected("connector"))) return refuse("it does not know the job's secret");
    state_ = State::proven;
    return;
  }
  Hello hello;
  std::memcpy(&hello, bytes.data(), sizeof hello);
  if (hello.magic != Hello::expected_magic)
    return refuse("it does not speak Craton's protocol in our byte order");
  if (hello.version != Hello::current_version) return refuse("it speaks another version of the protocol");
  if (hello.job_size != job_size_) return refuse("it belongs to a job of another size");
  if (hello.acceptor != rank_) return refuse("it looks for another rank");
  // The higher rank connects, so a rank below or equal to ours has no business here.
  if (hello.connector <= rank_ || hello.connector >= job_size_) return refuse("its rank is out of range");
  peer_ = hello.connector;
  connector_nonce_ = hello.nonce;
  random_bytes(acceptor_nonce_);
  emit(Challenge{.nonce = acceptor_nonce_, .proof = expected("acceptor")});
  challenged_ = true;
}

}  // namespace craton::fabric::tcp
