#include "job/messages.hpp"

#include <cstring>

#include "base/error.hpp"
#include "job/frame.hpp"

namespace craton::job {

namespace {

[[noreturn]] void bad_value(const char* field, std::uint64_t value) {
  throw Error(ErrorCode::protocol, {.asked = "cannot read a control frame",
                                    .happened = std::string(field) + " is " + std::to_string(value),
                                    .limit = {},
                                    .remedy = {}});
}

/// Every element takes at least `element_bytes` of the body, which bounds a count before anything is
/// allocated.
std::uint32_t checked_count(BodyReader& body, std::size_t element_bytes) {
  const std::uint32_t count = body.u32();
  if (count > body.left() / element_bytes) bad_value("a count", count);
  return count;
}

}  // namespace

std::string NodeHello::encode() const {
  return BodyWriter().u32(version).u32(pid).text(host).take();
}
NodeHello NodeHello::decode(std::string_view bytes) {
  BodyReader body(bytes);
  NodeHello hello;
  hello.version = body.u32();
  if (hello.version != control_version)
    return hello;  // the rest may look different; the launcher tells the user
  hello.pid = body.u32();
  hello.host = body.text();
  body.done();
  return hello;
}

std::string StartOrder::encode() const {
  BodyWriter body;
  body.u32(first_rank).u32(rank_count).u32(size);
  body.rest({reinterpret_cast<const char*>(secret.data()), secret.size()});
  body.text(directory).u32(static_cast<std::uint32_t>(environment.size()));
  for (const auto& [name, value] : environment) body.text(name).text(value);
  body.u32(static_cast<std::uint32_t>(command.size()));
  for (const std::string& word : command) body.text(word);
  return body.take();
}
StartOrder StartOrder::decode(std::string_view bytes) {
  BodyReader body(bytes);
  StartOrder order;
  order.first_rank = body.u32();
  order.rank_count = body.u32();
  order.size = body.u32();
  if (order.size == 0 || order.size > fabric::max_ranks) bad_value("the size of the job", order.size);
  if (order.rank_count == 0 || order.rank_count > order.size)
    bad_value("the number of ranks", order.rank_count);
  if (order.first_rank > order.size - order.rank_count) bad_value("the first rank", order.first_rank);
  for (unsigned char& byte : order.secret) byte = body.u8();
  order.directory = body.text();
  const std::uint32_t variables = checked_count(body, 8);
  for (std::uint32_t i = 0; i < variables; ++i) {
    std::string name = body.text();
    order.environment.emplace_back(std::move(name), body.text());
  }
  const std::uint32_t words = checked_count(body, 4);
  for (std::uint32_t i = 0; i < words; ++i) order.command.push_back(body.text());
  if (words == 0) bad_value("the number of words of the command", 0);
  body.done();
  return order;
}

std::string StartResult::encode() const {
  return BodyWriter().u8(exit_code).text(message).take();
}
StartResult StartResult::decode(std::string_view bytes) {
  BodyReader body(bytes);
  StartResult result;
  result.exit_code = body.u8();
  result.message = body.text();
  body.done();
  return result;
}

std::string RankExit::encode() const {
  return BodyWriter().u32(rank).u32(static_cast<std::uint32_t>(wait_status)).u8(unfinished ? 1 : 0).take();
}
RankExit RankExit::decode(std::string_view bytes) {
  BodyReader body(bytes);
  RankExit exit;
  exit.rank = body.u32();
  exit.wait_status = static_cast<int>(body.u32());
  exit.unfinished = body.u8() != 0;
  body.done();
  return exit;
}

std::string RankActivity::encode() const {
  return BodyWriter().u32(rank).u8(static_cast<std::uint8_t>(activity)).u64(barrier).u64(since_ns).take();
}
RankActivity RankActivity::decode(std::string_view bytes) {
  BodyReader body(bytes);
  RankActivity state;
  state.rank = body.u32();
  const std::uint8_t activity = body.u8();
  if (activity > static_cast<std::uint8_t>(last_activity)) bad_value("an activity", activity);
  state.activity = static_cast<Activity>(activity);
  state.barrier = body.u64();
  state.since_ns = body.u64();
  body.done();
  return state;
}

std::string RankLook::encode() const {
  return BodyWriter()
      .u32(rank)
      .u64(at_ns)
      .u32(look.computing)
      .u32(look.in_faults)
      .u32(look.in_fences)
      .u32(look.waiting)
      .u64(look.faults)
      .u64(look.bytes_in)
      .u64(look.bytes_out)
      .u64(look.messages)
      .take();
}
RankLook RankLook::decode(std::string_view bytes) {
  BodyReader body(bytes);
  RankLook seen;
  seen.rank = body.u32();
  seen.at_ns = body.u64();
  for (std::uint32_t* const threads :
       {&seen.look.computing, &seen.look.in_faults, &seen.look.in_fences, &seen.look.waiting})
    *threads = body.u32();
  for (std::uint64_t* const count :
       {&seen.look.faults, &seen.look.bytes_in, &seen.look.bytes_out, &seen.look.messages})
    *count = body.u64();
  body.done();
  return seen;
}

void JobLook::Row::add(const RankLook& seen) {
  ++looks;
  at_ns = seen.at_ns;
  threads = seen.look.computing + seen.look.in_faults + seen.look.in_fences + seen.look.waiting;
  computing += seen.look.computing;
  in_faults += seen.look.in_faults;
  in_fences += seen.look.in_fences;
  waiting += seen.look.waiting;
  faults = seen.look.faults;
  bytes_in = seen.look.bytes_in;
  bytes_out = seen.look.bytes_out;
  messages = seen.look.messages;
}

std::string JobLook::encode() const {
  BodyWriter body;
  body.u32(pid).u32(static_cast<std::uint32_t>(command.size()));
  for (const std::string& word : command) body.text(word);
  body.u32(static_cast<std::uint32_t>(ranks.size()));
  for (const Row& row : ranks) {
    body.text(row.host).u32(row.pid).u8(static_cast<std::uint8_t>(row.phase)).u32(row.threads);
    for (const std::uint64_t value : {row.looks, row.at_ns, row.computing, row.in_faults, row.in_fences,
                                      row.waiting, row.faults, row.bytes_in, row.bytes_out, row.messages})
      body.u64(value);
  }
  return body.take();
}
JobLook JobLook::decode(std::string_view bytes) {
  BodyReader body(bytes);
  JobLook seen;
  seen.pid = body.u32();
  const std::uint32_t words = checked_count(body, 4);
  if (words == 0) bad_value("the number of words of the command", 0);
  for (std::uint32_t i = 0; i < words; ++i) seen.command.push_back(body.text());
  const std::uint32_t ranks = checked_count(body, 4 + 4 + 1 + 4 + 10 * 8);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    Row& row = seen.ranks.emplace_back();
    row.host = body.text();
    row.pid = body.u32();
    const std::uint8_t phase = body.u8();
    if (phase > static_cast<std::uint8_t>(last_rank_phase)) bad_value("a rank's phase", phase);
    row.phase = static_cast<RankPhase>(phase);
    row.threads = body.u32();
    for (std::uint64_t* const value :
         {&row.looks, &row.at_ns, &row.computing, &row.in_faults, &row.in_fences, &row.waiting, &row.faults,
          &row.bytes_in, &row.bytes_out, &row.messages})
      *value = body.u64();
  }
  body.done();
  return seen;
}

std::string RankBytes::encode() const {
  return BodyWriter().u32(rank).rest(bytes).take();
}
RankBytes RankBytes::decode(std::string_view bytes) {
  BodyReader body(bytes);
  RankBytes decoded;
  decoded.rank = body.u32();
  decoded.bytes = body.rest();
  return decoded;
}

std::string RankNumber::encode() const {
  return BodyWriter().u32(rank).u32(number).take();
}
RankNumber RankNumber::decode(std::string_view bytes) {
  BodyReader body(bytes);
  RankNumber decoded;
  decoded.rank = body.u32();
  decoded.number = body.u32();
  body.done();
  return decoded;
}

std::string RankOutput::encode() const {
  return BodyWriter().u32(rank).u8(static_cast<std::uint8_t>(stream)).rest(bytes).take();
}
RankOutput RankOutput::decode(std::string_view bytes) {
  BodyReader body(bytes);
  RankOutput output;
  output.rank = body.u32();
  const std::uint8_t stream = body.u8();
  if (stream >= stream_count) bad_value("a stream", stream);
  output.stream = static_cast<Stream>(stream);
  output.bytes = body.rest();
  return output;
}

std::string encode_number(std::uint32_t number) {
  return BodyWriter().u32(number).take();
}
std::uint32_t decode_number(std::string_view bytes) {
  BodyReader body(bytes);
  const std::uint32_t number = body.u32();
  body.done();
  return number;
}

}  // namespace craton::job
