/// \file
/// Places: the processors that threads are bound to, as OMP_PLACES, OMP_PROC_BIND and the clause `proc_bind`
/// say (OpenMP 5.0, sections 2.6.2, 6.4 and 6.5).
///
/// Each rank has the list of places of its node, and of it the part that falls to it among the node's ranks;
/// its threads are bound within that part by the rules for a team, so that ranks of a node do not sit on the
/// same processors unless there are too few places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "omp/icvs.hpp"
#include "omp/reader.hpp"

namespace craton::omp {

/// Numbers of processors, ascending.
using Place = std::vector<std::uint32_t>;

enum class PlaceKind : std::uint8_t { threads, cores, ll_caches, sockets, numa_domains };

/// How the processors of a node belong together.
class Topology {
 public:
  /// \param usable processors, ascending; others are in no place \param root has `cpu` and `node`, as
  /// /sys/devices/system; what is missing there is taken to be flat
  explicit Topology(std::vector<std::uint32_t> usable, std::string root = "/sys/devices/system");

  const std::vector<std::uint32_t>& usable() const noexcept { return usable_; }
  /// One for each thing of a kind, those of a socket, and then those of a core, one after the other.
  std::vector<Place> places(PlaceKind kind) const;

 private:
  Place together(PlaceKind kind, std::uint32_t processor) const;
  std::vector<Place> split(const Place& whole, PlaceKind kind) const;

  const std::vector<std::uint32_t> usable_;
  const std::string root_;
};

struct PlaceList {
  std::vector<Place> places;  ///< that have usable processors
  std::size_t asked_for = 0;  ///< how many were listed
};
/// A value of OMP_PLACES. \returns nothing if it makes no sense
std::optional<PlaceList> take_places(Reader& reader, const Topology& topology);
/// A value of GOMP_CPU_AFFINITY: numbers and ranges, each processor a place. \returns likewise
std::optional<PlaceList> take_cpu_affinity(Reader& reader, const Topology& topology);
/// As OMP_DISPLAY_ENV prints them: {0:4},{4,6}
std::string text_of(const std::vector<Place>& places);

/// Where a thread is, and where the threads of regions that it starts may be.
struct Seat {
  std::uint32_t place = 0;
  std::uint32_t first = 0;  ///< of the partition
  std::uint32_t count = 0;  ///< places in it; 0: none was given yet

  friend bool operator==(const Seat&, const Seat&) = default;
};

/// The part of a rank of the places of its node. \param number of the rank, of so many on the node
Seat seat_of_rank(std::uint32_t places, std::uint32_t number, std::uint32_t ranks) noexcept;
/// Where thread `number` of `threads` sits that are started from `starter`, whose thread is number 0. \param
/// binding not none
Seat seat_of_thread(const Seat& starter, Binding binding, std::uint32_t number,
                    std::uint32_t threads) noexcept;

}  // namespace craton::omp
