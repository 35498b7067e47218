/// \file
/// What the ranks of a job have seen of themselves, on its way to whoever tells: a sequence of pieces, each
/// behind its head. A rank makes its own; rank 0 writes all of them, one after the other, into a file in
/// memory of the launcher's, which leaves nothing behind whoever dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/events.hpp"
#include "fabric/types.hpp"
#include "space/race_log.hpp"

namespace craton::observe {

/// Set by the launcher in ranks: "MARKS:ROOM:PATH", where MARKS are those of base/events.hpp, ROOM the events
/// of a thread, and PATH where rank 0 writes. They take it out of their environment.
inline constexpr const char* request_variable = "CRATON_OBSERVED";

struct Request {
  unsigned what = 0;
  std::size_t events_a_thread = 0;
  std::string path;

  std::string text() const;
  /// Of this process's environment, from which it is removed. Nothing is wanted where there is none.
  static Request take();
};

/// An executable or library.
struct Module {
  std::uint64_t base;  ///< what is added to its own addresses
  std::uint64_t begin;
  std::uint64_t end;
  std::string path;
};

/// Memory that ranks share.
struct Part {
  std::uint64_t begin;
  std::uint64_t bytes;
  std::uint64_t block_bytes;
  std::uint64_t part_bytes;  ///< of each rank, one after the other; 0: it is the space's
  std::string name;
};

/// A thread of a rank.
struct ThreadPart {
  std::uint32_t number = 0;
  bool is_of_program = false;
  std::uint64_t lost = 0;
  std::vector<events::Totals> totals;
  std::vector<events::Event> events;
};

/// A clock of events at the moment at which all ranks met.
struct ClockPart {
  std::string host;  ///< ranks with the same one read the same clock
  std::uint64_t now_ns = 0;

  static ClockPart read();
};

struct RankPart {
  ClockPart clock;
  std::vector<Module> modules;
  std::vector<Part> parts;
  std::vector<ThreadPart> threads;
};

struct Record {
  std::vector<RankPart> ranks;
  std::vector<space::RacePlace> races;
  std::vector<std::string> race_wheres;  ///< of each: as far as rank 0 knows
  std::uint64_t races_left_out = 0;
  std::string statistics;  ///< as rank 0 would have printed them
};

/// The pieces of the calling process's rank.
/// \param parts what it shares
/// \param clock read when this rank had met the others
std::vector<std::byte> own_pieces(fabric::Rank rank, const std::vector<Part>& parts, const ClockPart& clock);
/// Pieces for what rank 0 knows of all.
std::vector<std::byte> pieces_of(const std::vector<space::RacePlace>& races,
                                 const std::vector<std::string>& wheres, std::uint64_t left_out,
                                 std::string_view statistics);
/// Writes to the place that the launcher named. \returns 0, or an error number
int write_pieces(const std::string& path, const std::vector<std::vector<std::byte>>& pieces) noexcept;
/// Moves the events of ranks on other hosts to the clock of rank 0's.
void take_one_clock(Record& record);
/// With the events of all hosts by the clock of rank 0's. \throws Error protocol if they are not what the
/// above make
Record read_pieces(std::string_view bytes);

}  // namespace craton::observe
