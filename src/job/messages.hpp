/// \file
/// The bodies of the frames that carry more than a number. Each is built and checked here, in one place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/events.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/types.hpp"

namespace craton::job {

using fabric::Rank;

/// Changes with the meaning of any frame: launcher and nodes must be of one version.
inline constexpr std::uint32_t control_version = 5;

/// Which of a rank's two output streams.
enum class Stream : std::uint8_t { out = 0, error = 1 };
inline constexpr std::size_t stream_count = 2;

/// How much of a rank's output may be on its way to the launcher's own output: node and launcher hold no more
/// of it. Each of the two streams may hold back half a line limit, so it is well above twice that.
inline constexpr std::size_t output_window_bytes = 256U << 10U;
/// How much standard input may be on its way to rank 0.
inline constexpr std::size_t input_window_bytes = 64U << 10U;

struct NodeHello {
  std::uint32_t version = control_version;
  std::string host;
  std::uint32_t pid = 0;

  std::string encode() const;
  static NodeHello decode(std::string_view body);
};

/// All that a node needs to know to start its ranks.
struct StartOrder {
  Rank first_rank = 0;
  Rank rank_count = 0;
  Rank size = 0;
  fabric::JobSecret secret{};
  std::string directory;                                         ///< to start in
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables to set
  std::vector<std::string> command;                              ///< at least the program

  std::string encode() const;
  static StartOrder decode(std::string_view body);
};

/// Whether the program can be started.
struct StartResult {
  std::uint8_t exit_code = 0;  ///< 0: it can. 126 or 127, as shells have it: it cannot
  std::string message;

  std::string encode() const;
  static StartResult decode(std::string_view body);
};

/// How a rank ended.
struct RankExit {
  Rank rank = 0;
  int wait_status = 0;      ///< as from waitpid
  bool unfinished = false;  ///< it called craton_init and did not finish craton_finalize

  std::string encode() const;
  static RankExit decode(std::string_view body);
};

/// What a rank is doing, as far as its runtime knows.
enum class Activity : std::uint8_t { computing = 0, in_barrier, in_finalize };
inline constexpr Activity last_activity = Activity::in_finalize;

struct RankActivity {
  Rank rank = 0;
  Activity activity = Activity::computing;
  std::uint64_t barrier =
      0;  ///< the number of the barrier it waits in, or of the last one that it has passed; from 1
  std::uint64_t since_ns = 0;  ///< how long it has been in there

  std::string encode() const;
  static RankActivity decode(std::string_view body);
};

/// What a rank was seen to do at a moment.
struct RankLook {
  Rank rank = 0;
  std::uint64_t at_ns = 0;  ///< by the rank's own clock
  events::Look look;

  std::string encode() const;
  static RankLook decode(std::string_view body);
};

/// How far a rank has come, as the launcher knows.
enum class RankPhase : std::uint8_t { starting = 0, running, ended };
inline constexpr RankPhase last_rank_phase = RankPhase::ended;

/// All that the launcher has seen of a job since it began to look.
struct JobLook {
  struct Row {
    std::string host;
    std::uint32_t pid = 0;
    RankPhase phase = RankPhase::starting;
    std::uint64_t looks = 0;  ///< answers of the rank
    std::uint64_t at_ns = 0;  ///< of the last one, by the rank's own clock
    std::uint32_t threads = 0;
    // Sums over the answers, of threads.
    std::uint64_t computing = 0;
    std::uint64_t in_faults = 0;
    std::uint64_t in_fences = 0;
    std::uint64_t waiting = 0;
    // As the last answer has them.
    std::uint64_t faults = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t messages = 0;

    void add(const RankLook& seen);
  };
  std::uint32_t pid = 0;             ///< of the launcher
  std::vector<std::string> command;  ///< at least the program
  std::vector<Row> ranks;

  std::string encode() const;
  static JobLook decode(std::string_view body);
};

/// A body that is a rank and then bytes.
struct RankBytes {
  Rank rank = 0;
  std::string_view bytes;  ///< points into the body

  std::string encode() const;
  static RankBytes decode(std::string_view body);
};

/// A body that is two numbers: a rank and a pid, a count of bytes, or another rank.
struct RankNumber {
  Rank rank = 0;
  std::uint32_t number = 0;

  std::string encode() const;
  static RankNumber decode(std::string_view body);
};

/// Output of a rank, or with no bytes the end of a stream.
struct RankOutput {
  Rank rank = 0;
  Stream stream = Stream::out;
  std::string_view bytes;  ///< points into the body

  std::string encode() const;
  static RankOutput decode(std::string_view body);
};

/// A body that is one number.
std::string encode_number(std::uint32_t number);
std::uint32_t decode_number(std::string_view body);

}  // namespace craton::job
