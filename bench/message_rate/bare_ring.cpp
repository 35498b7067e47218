// The bare baseline inside a node: a ring and nothing else. The first byte of a message says what it is.
#include <cstring>

#include "message_rate/message_rate.hpp"

namespace craton::bench {
namespace {

enum class Word : unsigned char { count = 0, ask, quit };

}  // namespace

RingMessages::~RingMessages() {
  const Word word = Word::quit;
  rings_.to_target.push(&word, sizeof word);
}

std::uint64_t RingMessages::ask() {
  const Word word = Word::ask;
  rings_.to_target.push(&word, sizeof word);
  std::uint64_t answer = 0;
  rings_.to_initiator.pop(
      [&answer](const unsigned char* cell) { std::memcpy(&answer, cell, sizeof answer); });
  return answer;
}

double RingMessages::rate_turn(TimeNs turn_ns, int threads, std::size_t bytes) {
  const unsigned char payload[SharedRing::cell_bytes] = {static_cast<unsigned char>(Word::count)};
  const TimeNs start = now_ns();
  const std::uint64_t sent = send_for(turn_ns, threads, [&] {
    const std::scoped_lock turn(producer_);
    rings_.to_target.push(payload, bytes);
  });
  const std::uint64_t arrived = ask();
  return rate(sent, arrived, now_ns() - start);
}

Sample RingMessages::round_trip_turn(TimeNs turn_ns) {
  return time_each(turn_ns, [this] { static_cast<void>(ask()); });
}

RingServer::RingServer(SharedRings& rings)
    : thread_([&rings] {
        std::uint64_t arrived = 0;
        bool quit = false;
        while (!quit) {
          rings.to_target.pop([&](const unsigned char* cell) {
            switch (static_cast<Word>(cell[0])) {
              case Word::count:
                ++arrived;
                break;
              case Word::ask:
                rings.to_initiator.push(&arrived, sizeof arrived);
                arrived = 0;
                break;
              case Word::quit:
                quit = true;
                break;
            }
          });
        }
      }) {}

RingServer::~RingServer() {
  thread_.join();
}

}  // namespace craton::bench
