/// \file
/// The barrier of a space: all threads of all ranks meet, and what any wrote before it all see after it.
///
/// The ranks are a tree without a root: over each link goes, in both directions, what all ranks on the
/// sender's side have to tell, as soon as the sender has heard from its other links. So a rank sends and
/// receives as many signatures as it has neighbours in the tree, and two ranks meet in one crossing.
///
///         1 ─── 0 ─── 2      3 sends its own to 1 at once; 1 sends to 0 what 1, 3 and 4 have to tell,
///        / \         / \     and to 4 what all but 4 have, once it has heard from 0 and 3
///       3   4       5   6
///
/// Between ranks of a node a signature that says nothing is one store into the other's memory; all else is
/// messages.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"

namespace craton::space {

/// How often a rank looks for nothing but words of its node's ranks, about 2 us: then it serves the fabric as
/// well.
inline constexpr unsigned barrier_polls = 40;

class Barrier {
 public:
  /// Collective: registers `region`. \param handler a message handler, the same on all ranks
  /// \param threads of this rank that take part
  Barrier(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::RegionId region,
          fabric::HandlerId handler, unsigned threads, unsigned polls = barrier_polls);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  /// Collective. \throws Error peer_lost
  void close();

  /// Blocks until all have called it. Any thread, as many a rank as the constructor was told.
  /// \param site where in the program it is: see LeaseRelease::acquire. \throws Error peer_lost
  void wait(std::uint32_t site = 0);

 private:
  static constexpr fabric::Rank children_at_most = 2;
  static constexpr std::size_t links_at_most = children_at_most + 1;  ///< the parent and the children

  /// What ranks of the node store into each other's memory.
  struct alignas(fabric::line_bytes) Line {
    std::uint64_t words[2];
  };
  struct Words {
    Line sleeps;  ///< 1: this rank waits in the fabric, and may sleep; who stores here wakes it
    /// The last even and the last odd barrier for which a link had nothing to tell: a fast neighbour may be a
    /// barrier ahead.
    std::array<Line, links_at_most> nothing;
  };
  /// A signature that arrives in pieces. Two a link, likewise.
  struct Arrival {
    std::vector<std::byte> bytes;
    std::size_t received = 0;
    std::atomic<bool> whole{false};
  };
  struct Piece {
    std::uint64_t generation;
    std::uint32_t offset;
    std::uint32_t total_bytes;
  };

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void meet_ranks(std::uint32_t site);
  void send(std::size_t link, const coherence::Signature& signature);
  void wake_told();
  void send_message(fabric::Rank to, const coherence::Signature& signature);
  bool is_near(std::size_t link) const noexcept {
    return fabric_.direct(neighbour(link), region_) != nullptr;
  }
  bool has_arrived(std::size_t link) noexcept;
  void take(std::size_t link, coherence::Signature& signature);
  void wait_for_links(FunctionRef<bool()> condition, unsigned polls);
  /// This barrier, counted from 1.
  std::uint64_t number() const noexcept { return generation_.load(std::memory_order_relaxed) + 1; }
  static constexpr std::size_t to_parent = 0;  ///< the links; to the children from 1 on
  fabric::Rank first_child() const noexcept { return fabric_.rank() * children_at_most + 1; }
  bool has_link(std::size_t link) const noexcept {
    return link == to_parent ? fabric_.rank() != 0 : first_child() + link - 1 < fabric_.size();
  }
  fabric::Rank neighbour(std::size_t link) const noexcept {
    return link == to_parent ? (fabric_.rank() - 1) / children_at_most
                             : static_cast<fabric::Rank>(first_child() + link - 1);
  }
  /// The link by which a neighbour knows this rank.
  std::size_t link_at(fabric::Rank neighbour) const noexcept {
    return neighbour > fabric_.rank() ? to_parent : 1 + (fabric_.rank() - (neighbour * children_at_most + 1));
  }
  Words& own_words() const noexcept { return *reinterpret_cast<Words*>(memory_.data()); }

  fabric::Fabric& fabric_;
  coherence::LeaseRelease& protocol_;
  const fabric::RegionId region_;
  const fabric::HandlerId handler_;
  const unsigned threads_;
  const unsigned polls_;
  fabric::RegionMemory memory_;
  std::atomic<std::uint64_t> generation_{0};  ///< barriers that this rank has left
  std::atomic<unsigned> arrived_threads_{0};
  std::array<std::array<Arrival, 2>, links_at_most> arrivals_;
  std::array<bool, links_at_most> owes_wake_{};  ///< a word was stored there, which may be asleep
};

}  // namespace craton::space
