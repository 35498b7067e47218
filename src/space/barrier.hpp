/// \file
/// The barrier of a space: all threads of all ranks meet, and what any wrote before it all see after it.
///
/// The ranks are a tree. Signatures are merged on the way up, so that each link carries one; the root sends
/// the merged one down. So a rank sends and receives as many as it has children, plus one.
///
///            0
///          /   \          up:   release, wait for the children, merge, send to the parent
///         1     2         down: wait for the parent, send to the children, acquire
///        / \   / \        .
///       3   4 5   6
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"

namespace craton::space {

class Barrier {
 public:
  /// \param first_handler this message handler and the next, the same on all ranks
  /// \param threads of this rank that take part
  Barrier(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::HandlerId first_handler,
          unsigned threads, std::size_t notice_capacity);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  /// Blocks until all have called it. Any thread, as many a rank as the constructor was told.
  /// \param site where in the program it is: see LeaseRelease::acquire. \throws Error peer_lost
  void wait(std::uint32_t site = 0);

 private:
  static constexpr fabric::Rank children_at_most = 2;
  static constexpr std::size_t origins = children_at_most + 1;  ///< of signatures: the children, the parent

  /// A signature that arrives in pieces. Two of each origin: a fast child may be a barrier ahead.
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
  void send(fabric::Rank to, const coherence::Signature& signature);
  coherence::Signature take(std::size_t origin);
  fabric::Rank child(fabric::Rank number) const noexcept {
    return fabric_.rank() * children_at_most + 1 + number;
  }

  fabric::Fabric& fabric_;
  coherence::LeaseRelease& protocol_;
  const fabric::HandlerId handler_;
  const unsigned threads_;
  const std::size_t notice_capacity_;
  std::atomic<std::uint64_t> generation_{0};  ///< barriers that this rank has left
  std::atomic<unsigned> arrived_threads_{0};
  std::array<std::array<Arrival, 2>, origins> arrivals_;
};

}  // namespace craton::space
