/// \file
/// Frames: what launcher, nodes and ranks say to each other over pipes and socket pairs.
///
///   0        4      6        8
///   | length | kind | 0xC7A7 | body, `length` bytes |        all little endian
///
/// Invariant: what comes out of a FrameReader has a known kind and a body no longer than the reader's limit.
/// The mark makes other programs' text (the greeting of a login shell) an error at once and not a length
/// of 1.9 GB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace craton::job {

/// Who sends what to whom: L the launcher, N a node daemon, R a rank, W who watches the job (craton top).
enum class FrameKind : std::uint16_t {
  hello = 1,      ///< N→L: NodeHello, the first frame
  prepare,        ///< L→N: StartOrder; look whether the program can be started
  prepared,       ///< N→L: StartResult
  go,             ///< L→N: start the ranks
  started,        ///< N→L: rank, pid
  start_failed,   ///< N→L: StartResult; the program could not be executed after all
  exited,         ///< N→L: RankExit
  output,         ///< N→L: rank, stream, bytes
  output_closed,  ///< N→L: rank, stream
  output_credit,  ///< L→N: rank, bytes that have left the launcher
  input,          ///< L→N: bytes for the standard input of rank 0; none: its end
  input_credit,   ///< N→L: bytes that rank 0 has taken
  input_closed,   ///< N→L: rank 0 takes no more
  signal,         ///< L→N: number, for all ranks
  end,            ///< L→N: milliseconds of grace; end every process and say bye
  bye,            ///< N→L: no process is left
  join,           ///< R→N→L: the rank is in craton_init
  welcome,        ///< N→R: the secret of the job
  exchange,       ///< R→N→L: this rank's part of the next exchange
  exchanged,      ///< L→N→R: one rank's part
  ready,          ///< R→N→L: craton_init is done
  finalized,      ///< R→N→L: craton_finalize is done
  where,          ///< L→N→R: what are you doing?
  activity,       ///< R→N→L: RankActivity
  peer_lost,      ///< R→N→L: the rank has lost the connection to another
  lost,           ///< L→N→R: a rank has died
  fault,          ///< N→L: rank, text: the rank broke the rules of this protocol
  ended,     ///< R→N→L: the program has ended with this exit code; so does the job, and nothing is wrong
  look,      ///< L→N→R: what are you doing, and what have you done? (rank,) 0: nobody watches any more
  seen,      ///< R→N→L: RankLook
  watch,     ///< W→L: what have you seen of the job? From now on it looks
  job_seen,  ///< L→W: JobLook
  ping,      ///< L→N: are you there?
  pong,      ///< N→L: yes
  unread,    ///< L→N: stream; nobody reads it any more, as who writes to it is to find
};
inline constexpr FrameKind last_frame_kind = FrameKind::unread;

struct Frame {
  FrameKind kind;
  std::string body;
};

inline constexpr std::size_t frame_header_bytes = 8;
/// The longest body between launcher and node: a StartOrder with a long command line.
inline constexpr std::size_t max_node_body_bytes = 8U << 20U;
/// What one rank may give to an exchange.
inline constexpr std::size_t max_exchange_bytes = 64U << 10U;
/// The longest body between a rank and its node.
inline constexpr std::size_t max_rank_body_bytes = max_exchange_bytes + 64;

/// Appends a frame to `wire`.
void append_frame(std::string& wire, FrameKind kind, std::string_view body);

/// Takes bytes as they come and gives whole frames.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  void add(const char* bytes, std::size_t count) { pending_.append(bytes, count); }
  /// The next whole frame, if it is there.
  /// \throws Error protocol: no frame begins here, an unknown kind, or a body over the limit
  std::optional<Frame> next();
  /// What has come and was not taken as a frame, for messages about text that is none.
  std::string_view rest() const noexcept { return std::string_view(pending_).substr(taken_); }

 private:
  std::size_t max_body_bytes_;
  std::string pending_;
  std::size_t taken_ = 0;
};

/// Builds a body: integers are little endian, text has its length before it.
class BodyWriter {
 public:
  BodyWriter& u8(std::uint8_t value);
  BodyWriter& u32(std::uint32_t value);
  BodyWriter& u64(std::uint64_t value);
  BodyWriter& text(std::string_view value);
  /// The bytes without a length: the last field of a body.
  BodyWriter& rest(std::string_view value);
  std::string take() { return std::move(body_); }

 private:
  std::string body_;
};

/// Reads a body. Every function throws Error protocol when the body is too short for it.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : left_(body) {}
  std::uint8_t u8();
  std::uint32_t u32();
  std::uint64_t u64();
  std::string text();
  std::string_view rest();
  /// How many more bytes there are; bounds what a count in the body may claim.
  std::size_t left() const noexcept { return left_.size(); }
  /// \throws Error protocol if anything is left
  void done() const;

 private:
  std::string_view take(std::size_t count);
  std::uint64_t integer(std::size_t bytes);
  std::string_view left_;
};

}  // namespace craton::job
