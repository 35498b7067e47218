#include "fabric/tcp/handshake.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace craton::fabric::tcp {
namespace {

const JobSecret ours{1, 2, 3};
const JobSecret theirs{4, 5, 6};

/// Carries bytes between the two until both have ended or nothing moves.
void converse(Handshake& connector, Handshake& acceptor) {
  for (int round = 0; round < 4; ++round) {
    if (const auto bytes = connector.take_output(); !bytes.empty() && acceptor.wanted_bytes() == bytes.size())
      acceptor.feed(bytes);
    if (const auto bytes = acceptor.take_output(); !bytes.empty() && connector.wanted_bytes() == bytes.size())
      connector.feed(bytes);
  }
}

TEST(Handshake, BothEndsOfAJobAreProven) {
  Handshake connector = Handshake::connector(5, 2, 8, ours);
  Handshake acceptor = Handshake::acceptor(2, 8, ours);
  converse(connector, acceptor);
  EXPECT_EQ(connector.state(), Handshake::State::proven);
  EXPECT_EQ(acceptor.state(), Handshake::State::proven);
  EXPECT_EQ(connector.peer(), 2U);
  EXPECT_EQ(acceptor.peer(), 5U);
}

TEST(Handshake, AConnectorDoesNotTalkToAnAcceptorOfAnotherJob) {
  Handshake connector = Handshake::connector(5, 2, 8, ours);
  Handshake acceptor = Handshake::acceptor(2, 8, theirs);
  converse(connector, acceptor);
  EXPECT_EQ(connector.state(), Handshake::State::refused);
  EXPECT_NE(acceptor.state(), Handshake::State::proven);
}

TEST(Handshake, ARecordedProofIsOfNoUseAgain) {
  Handshake connector = Handshake::connector(1, 0, 2, ours);
  Handshake acceptor = Handshake::acceptor(0, 2, ours);
  const auto hello = connector.take_output();
  acceptor.feed(hello);
  connector.feed(acceptor.take_output());
  const auto proof = connector.take_output();
  acceptor.feed(proof);
  ASSERT_EQ(acceptor.state(), Handshake::State::proven);
  Handshake again = Handshake::acceptor(0, 2, ours);
  again.feed(hello);
  again.take_output();
  again.feed(proof);
  EXPECT_EQ(again.state(), Handshake::State::refused);
}

TEST(Handshake, EveryBitOfTheProofCounts) {
  for (std::size_t bit = 0; bit < sizeof(Proof) * 8; ++bit) {
    Handshake connector = Handshake::connector(1, 0, 2, ours);
    Handshake acceptor = Handshake::acceptor(0, 2, ours);
    acceptor.feed(connector.take_output());
    connector.feed(acceptor.take_output());
    auto proof = connector.take_output();
    proof[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    acceptor.feed(proof);
    ASSERT_EQ(acceptor.state(), Handshake::State::refused) << "bit " << bit;
  }
}

TEST(Handshake, HellosThatMakeNoSenseAreRefused) {
  const auto refusal_of = [](auto&& change) {
    Hello hello;
    hello.job_size = 4;
    hello.connector = 2;
    hello.acceptor = 1;
    change(hello);
    Handshake acceptor = Handshake::acceptor(1, 4, ours);
    acceptor.feed({reinterpret_cast<const std::byte*>(&hello), sizeof hello});
    EXPECT_TRUE(acceptor.take_output().empty() || acceptor.state() == Handshake::State::under_way);
    return std::string(acceptor.refusal());
  };
  EXPECT_EQ(refusal_of([](Hello&) {}), "");
  EXPECT_EQ(refusal_of([](Hello& hello) { hello.magic = __builtin_bswap32(hello.magic); }),
            "it does not speak Craton's protocol in our byte order");
  EXPECT_EQ(refusal_of([](Hello& hello) { ++hello.version; }), "it speaks another version of the protocol");
  EXPECT_EQ(refusal_of([](Hello& hello) { hello.job_size = 5; }), "it belongs to a job of another size");
  EXPECT_EQ(refusal_of([](Hello& hello) { hello.acceptor = 0; }), "it looks for another rank");
  EXPECT_EQ(refusal_of([](Hello& hello) { hello.connector = 1; }), "its rank is out of range");
  EXPECT_EQ(refusal_of([](Hello& hello) { hello.connector = 0; }), "its rank is out of range");
  EXPECT_EQ(refusal_of([](Hello& hello) { hello.connector = 4; }), "its rank is out of range");
}

}  // namespace
}  // namespace craton::fabric::tcp
