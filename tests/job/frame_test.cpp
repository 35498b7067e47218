// Frames and their bodies: what goes in comes out, and nothing else is accepted.
#include "job/frame.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "job/messages.hpp"

namespace craton::job {
namespace {

std::string wire_of(FrameKind kind, std::string_view body) {
  std::string wire;
  append_frame(wire, kind, body);
  return wire;
}

template <typename Action>
std::string protocol_error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol) << error.what();
    return error.what();
  }
  return "";
}

TEST(Frame, ComesOutAsItWentInWhereverTheBytesAreCut) {
  std::string wire;
  append_frame(wire, FrameKind::go, "");
  append_frame(wire, FrameKind::output, std::string("a\0b\n", 4));
  append_frame(wire, FrameKind::bye, std::string(70'000, 'z'));
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{9}, std::size_t{4096}, wire.size()}) {
    FrameReader reader(max_node_body_bytes);
    std::vector<Frame> frames;
    for (std::size_t begin = 0; begin < wire.size(); begin += cut) {
      const std::string part = wire.substr(begin, cut);
      reader.add(part.data(), part.size());
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    ASSERT_EQ(frames.size(), 3U) << "cut into pieces of " << cut;
    EXPECT_EQ(frames[0].kind, FrameKind::go);
    EXPECT_EQ(frames[0].body, "");
    EXPECT_EQ(frames[1].kind, FrameKind::output);
    EXPECT_EQ(frames[1].body, std::string("a\0b\n", 4));
    EXPECT_EQ(frames[2].kind, FrameKind::bye);
    EXPECT_EQ(frames[2].body, std::string(70'000, 'z'));
    EXPECT_TRUE(reader.rest().empty());
  }
}

TEST(Frame, TruncatedOnesAreNoFrames) {
  const std::string wire = wire_of(FrameKind::output, "12345");
  for (std::size_t length = 0; length < wire.size(); ++length) {
    FrameReader reader(max_node_body_bytes);
    reader.add(wire.data(), length);
    EXPECT_FALSE(reader.next().has_value()) << length;
    EXPECT_EQ(reader.rest().empty(), length == 0) << length;
  }
}

TEST(Frame, OversizedLengthsAreRefusedBeforeTheBodyComes) {
  const std::string wire = wire_of(FrameKind::exchange, std::string(max_rank_body_bytes + 1, 'x'));
  FrameReader reader(max_rank_body_bytes);
  reader.add(wire.data(), frame_header_bytes);
  EXPECT_NE(protocol_error_of([&] { reader.next(); }).find("over the limit"), std::string::npos);

  const std::string largest = wire_of(FrameKind::exchange, std::string(max_rank_body_bytes, 'x'));
  FrameReader other(max_rank_body_bytes);
  other.add(largest.data(), largest.size());
  EXPECT_TRUE(other.next().has_value());
}

TEST(Frame, OtherTextIsRefusedAtOnce) {
  FrameReader reader(max_node_body_bytes);
  const std::string greeting = "Welcome to Debian GNU/Linux 12\n";
  reader.add(greeting.data(), greeting.size());
  EXPECT_NE(protocol_error_of([&] { reader.next(); }).find("are no frame"), std::string::npos);
}

TEST(Frame, UnknownKindsAreRefused) {
  for (const int kind : {0, static_cast<int>(last_frame_kind) + 1, 0xFFFF}) {
    const std::string wire = wire_of(static_cast<FrameKind>(kind), "");
    FrameReader reader(max_node_body_bytes);
    reader.add(wire.data(), wire.size());
    EXPECT_NE(protocol_error_of([&] { reader.next(); }).find("unknown"), std::string::npos) << kind;
  }
}

TEST(Frame, GarbageIsRefusedOrIncompleteAndNeverAFrameOverItsLimit) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 20'000; ++run) {
    // Half of the runs damage a good frame, which gets further than noise.
    std::string bytes = run % 2 == 0 ? std::string(random() % 64, '\0')
                                     : wire_of(FrameKind::activity, RankActivity{}.encode());
    if (run % 2 == 0) {
      for (char& byte : bytes) byte = static_cast<char>(random());
    } else {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    FrameReader reader(256);
    reader.add(bytes.data(), bytes.size());
    try {
      while (const auto frame = reader.next()) EXPECT_LE(frame->body.size(), 256U);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::protocol);
    }
  }
}

StartOrder order() {
  StartOrder order;
  order.first_rank = 2;
  order.rank_count = 3;
  order.size = 8;
  for (std::size_t i = 0; i < order.secret.size(); ++i) order.secret[i] = static_cast<unsigned char>(i * 7);
  order.directory = "/some where";
  order.environment = {{"A", "1"}, {"B", ""}};
  order.command = {"./prog", "", "an argument"};
  return order;
}

TEST(StartOrder, RoundTrip) {
  const StartOrder sent = order();
  const StartOrder got = StartOrder::decode(sent.encode());
  EXPECT_EQ(got.first_rank, sent.first_rank);
  EXPECT_EQ(got.rank_count, sent.rank_count);
  EXPECT_EQ(got.size, sent.size);
  EXPECT_EQ(got.secret, sent.secret);
  EXPECT_EQ(got.directory, sent.directory);
  EXPECT_EQ(got.environment, sent.environment);
  EXPECT_EQ(got.command, sent.command);
}

TEST(StartOrder, EveryTruncationAndExtensionIsRefused) {
  const std::string body = order().encode();
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_NE(protocol_error_of([&] { StartOrder::decode(body.substr(0, length)); }), "") << length;
  }
  EXPECT_NE(protocol_error_of([&] { StartOrder::decode(body + "x"); }), "");
}

TEST(StartOrder, ImpossibleValuesAreRefused) {
  const auto refused = [](auto&& change) {
    StartOrder bad = order();
    change(bad);
    return protocol_error_of([&] { StartOrder::decode(bad.encode()); });
  };
  EXPECT_NE(refused([](StartOrder& bad) { bad.size = 0; }), "");
  EXPECT_NE(refused([](StartOrder& bad) { bad.size = fabric::max_ranks + 1; }), "");
  EXPECT_NE(refused([](StartOrder& bad) { bad.rank_count = 0; }), "");
  EXPECT_NE(refused([](StartOrder& bad) { bad.first_rank = 6; }), "");
  EXPECT_NE(refused([](StartOrder& bad) { bad.first_rank = 0xFFFFFFFF; }), "");
  EXPECT_NE(refused([](StartOrder& bad) { bad.command.clear(); }), "");
}

TEST(StartOrder, ACountThatTheBodyCannotHoldIsRefusedWithoutAllocating) {
  std::string body =
      BodyWriter().u32(0).u32(1).u32(1).rest(std::string(32, 's')).text("").u32(0xFFFFFFFF).take();
  EXPECT_NE(protocol_error_of([&] { StartOrder::decode(body); }).find("a count"), std::string::npos);
}

template <typename Message>
void expect_strict(const Message& message) {
  const std::string body = message.encode();
  EXPECT_EQ(Message::decode(body).encode(), body);
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_NE(protocol_error_of([&] { Message::decode(body.substr(0, length)); }), "") << length;
  }
  EXPECT_NE(protocol_error_of([&] { Message::decode(body + "x"); }), "");
}

TEST(Messages, RoundTripAndRefuseEveryOtherLength) {
  expect_strict(NodeHello{.host = "a host", .pid = 77});
  expect_strict(StartResult{.exit_code = 127, .message = "no"});
  expect_strict(RankExit{.rank = 3, .wait_status = 139, .unfinished = true});
  expect_strict(
      RankActivity{.rank = 3, .activity = Activity::in_barrier, .barrier = 1ULL << 40U, .since_ns = ~0ULL});
  expect_strict(RankNumber{.rank = 3, .number = 0x80000001});
  expect_strict(RankLook{.rank = 3,
                         .at_ns = 1ULL << 40U,
                         .look = {.computing = 1, .waiting = 2, .faults = 5, .messages = ~0ULL}});
  expect_strict(
      JobLook{.pid = 5,
              .command = {"cg", "A"},
              .ranks = {{.host = "a host", .pid = 7, .phase = RankPhase::running, .looks = 3}, {}}});
}

TEST(Messages, UnknownEnumeratorsAreRefused) {
  std::string activity = RankActivity{}.encode();
  activity[4] = static_cast<char>(last_activity) + 1;
  EXPECT_NE(protocol_error_of([&] { RankActivity::decode(activity); }), "");
  std::string output = RankOutput{.rank = 1, .stream = Stream::error, .bytes = "x"}.encode();
  EXPECT_EQ(RankOutput::decode(output).bytes, "x");
  JobLook job{.pid = 5, .command = {"cg"}, .ranks = {{}}};
  job.ranks[0].phase = static_cast<RankPhase>(static_cast<int>(last_rank_phase) + 1);
  EXPECT_NE(protocol_error_of([&] { JobLook::decode(job.encode()); }), "");
  output[4] = 2;
  EXPECT_NE(protocol_error_of([&] { RankOutput::decode(output); }), "");
}

TEST(Messages, AnotherVersionIsReadAsFarAsItsNumber) {
  EXPECT_EQ(NodeHello::decode(BodyWriter().u32(control_version + 1).text("whatever comes").take()).version,
            control_version + 1);
}

}  // namespace
}  // namespace craton::job
