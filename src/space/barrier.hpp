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
/// The first so many ranks are a tree as well, and can meet without the others. The two halves of a meeting
/// can be had alone: tell() and hear() go down the tree from rank 0, gather() goes up to it.
///
/// Between ranks of a node what is told is stored into the other's memory, where a thread that has come looks
/// for it; messages, which a rank's agent takes where no thread has come yet, are for long signatures and
/// other nodes. Each link counts what goes over it, either way. A neighbour may be ahead by a meeting, a
/// tell() and its part of the next meeting, for which it need not wait: so there is room for four.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/events.hpp"
#include "base/function_ref.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"

namespace craton::space {

/// How often a rank looks for nothing but words of its node's ranks, about 2 us: then it serves the fabric as
/// well.
inline constexpr unsigned barrier_polls = 40;

/// Words that rank 0 gives along, for all whom a meeting or a tell() reaches, and a mark that any gives.
struct BarrierNote {
  static constexpr std::uint32_t words_at_most = 14;

  std::uint32_t reach = 0;  ///< the ranks below it are reached
  /// By any rank, not only by rank 0. After a meeting of all ranks: rank 0 tells, and all others hear, next.
  bool is_marked = false;
  std::uint32_t count = 0;                         ///< of words
  std::array<std::uint64_t, words_at_most> words;  ///< those that count are set

  BarrierNote() = default;
  BarrierNote(const BarrierNote& other) noexcept { *this = other; }
  BarrierNote& operator=(const BarrierNote& other) noexcept {
    if (this == &other) return *this;
    reach = other.reach;
    is_marked = other.is_marked;
    count = other.count;
    std::copy_n(other.words.begin(), other.count, words.begin());
    return *this;
  }
};

/// What a rank does while it waits for others: run(), whenever can_run() holds, which is looked at as the
/// condition of Fabric::wait_until is.
struct Meanwhile {
  FunctionRef<bool()> can_run;
  FunctionRef<void()> run;
};

class Barrier final : private coherence::BarrierExit {
 public:
  /// Collective: registers `region`. \param handler a message handler, the same on all ranks
  /// \param threads of this rank that take part
  Barrier(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::RegionId region,
          fabric::HandlerId handler, unsigned threads, unsigned polls = barrier_polls);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  ~Barrier() override = default;
  /// Collective. \throws Error peer_lost
  void close();

  /// How long who waits for others polls before it sleeps, as Fabric::wait_until has it. Before any does.
  void set_patience(unsigned patience) noexcept { patience_ = patience; }

  /// Blocks until all have called it. Any thread, as many a rank as the constructor was told.
  /// \param site where in the program it is: see LeaseRelease::acquire
  /// \param marks the same on all ranks: see BarrierNote::is_marked. \throws Error peer_lost
  void wait(std::uint32_t site = 0, bool marks = false);

  // ---- For ranks of which one thread speaks for all. Such calls of a rank follow one another, and
  // neighbours make the same ones in the same order.

  /// Blocks until the first `ranks` ranks, one of which is this, have called it. \param note if not null:
  /// rank 0's, for all, marked if any rank's was. \throws Error peer_lost
  void meet(fabric::Rank ranks, std::uint32_t site = 0, BarrierNote* note = nullptr,
            const Meanwhile* meanwhile = nullptr);
  /// Rank 0 sees afterwards what all below `ranks` had written when they called it. Blocks where there are
  /// ranks further down the tree. \param marks whether this rank has something to be looked at
  /// \returns at rank 0: whether any marks; at others: false \throws Error peer_lost
  bool gather(fabric::Rank ranks, std::uint32_t site = 0, const Meanwhile* meanwhile = nullptr,
              bool marks = false);
  /// By rank 0: its release, and a note, for at least the ranks below `ranks`, which hear() it. Does not wait
  /// for them. A gather() with all that it reached comes before the next one. \returns how many it reaches
  /// \throws Error peer_lost
  fabric::Rank tell(fabric::Rank ranks, const BarrierNote& note);
  /// By others: blocks until rank 0 tells, and acquires what it knew. \param site_word the word of the note
  /// that says where in the program it is. \param kind what the thread does, for those who ask
  /// \throws Error peer_lost
  BarrierNote hear(std::uint32_t site_word, const Meanwhile* meanwhile = nullptr,
                   events::Kind kind = events::Kind::idle);

 private:
  static constexpr fabric::Rank children_at_most = 2;
  static constexpr std::size_t links_at_most = children_at_most + 1;  ///< the parent and the children
  static constexpr std::size_t ahead_at_most = 4;                     ///< messages on their way, each way

  /// What ranks of the node store into each other's memory.
  struct alignas(fabric::line_bytes) Line {
    std::uint64_t words[2];
  };
  /// Signatures between ranks of a node that take more are messages.
  static constexpr std::size_t near_bytes = 32 << 10;
  /// A message between ranks of a node.
  struct alignas(fabric::line_bytes) Slot {
    std::uint64_t number;  ///< stored last
    std::uint64_t head;
    std::array<std::uint64_t, BarrierNote::words_at_most> words;
    std::uint64_t signature_bytes;  ///< 0: it says nothing
    std::array<std::byte, near_bytes> signature;
  };
  struct Words {
    Line sleeps;  ///< 1: this rank waits in the fabric, and may sleep; who stores here wakes it
    std::array<std::array<Slot, ahead_at_most>, links_at_most> slots;  ///< a message's is its number's
  };
  /// A message of the fabric that arrives in pieces, likewise.
  struct Arrival {
    std::vector<std::byte> bytes;
    std::size_t received = 0;
    std::atomic<bool> whole{false};
  };
  struct Piece {
    std::uint64_t number;
    std::uint32_t offset;
    std::uint32_t total_bytes;
  };

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void send(std::size_t link, const coherence::Signature& signature, const BarrierNote& note);
  void wake_told();
  void send_message(fabric::Rank to, std::uint64_t number, const coherence::Signature& signature,
                    const BarrierNote& note);
  bool is_near(std::size_t link) const noexcept {
    return fabric_.direct(neighbour(link), region_) != nullptr;
  }
  /// What a thread is in that waits for links: who has left it has acquired what all others told.
  struct Passage {
    FunctionRef<bool()> is_over;
    FunctionRef<bool()> can_go_on;  ///< one of the links that it waits for has told
    FunctionRef<void()> go_on;      ///< then: takes that
    FunctionRef<bool()> has_near;   ///< whether some link may tell by a word in this rank's memory
  };
  void pass(const Passage& passage, const Meanwhile* meanwhile);
  void leave_now(const Passage& passage);
  bool can_leave() noexcept override { return inside_.load(std::memory_order_seq_cst) == Inside::yes; }
  void leave() override;
  void enter_program(const Passage& passage) noexcept;
  void come_back();
  bool has_arrived(std::size_t link) noexcept;
  void take(std::size_t link, coherence::Signature& signature, BarrierNote& note);
  void wait_for_links(const Passage& passage, const Meanwhile* meanwhile);
  void send_to_children(const coherence::Signature& signature, const BarrierNote& note);
  static constexpr std::size_t to_parent = 0;  ///< the links; to the children from 1 on
  fabric::Rank first_child() const noexcept { return fabric_.rank() * children_at_most + 1; }
  /// Whether there is such a link among the first so many ranks.
  bool has_link(std::size_t link, fabric::Rank ranks) const noexcept {
    return link == to_parent ? fabric_.rank() != 0 : first_child() + link - 1 < ranks;
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
  unsigned patience_ = 1;
  fabric::RegionMemory memory_;
  std::atomic<std::uint64_t> generation_{0};  ///< wait()s that this rank has left
  std::atomic<unsigned> arrived_threads_{0};
  std::array<std::uint64_t, links_at_most> sent_{};
  std::array<std::uint64_t, links_at_most> taken_{};
  std::array<std::array<Arrival, ahead_at_most>, links_at_most> arrivals_;
  std::array<bool, links_at_most> owes_wake_{};  ///< a word was stored there, which may be asleep
  // While a thread that waits runs the program's code, handlers of signals or tasks, all others may have
  // left, and who acquires of them what they learnt, here or on another thread, leaves for it.
  enum class Inside : std::uint8_t { no, yes, leaves };
  std::atomic<Inside> inside_{Inside::no};
  const Passage* passage_inside_ = nullptr;
};

}  // namespace craton::space
