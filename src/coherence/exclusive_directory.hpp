/// \file
/// The manager's side of strong blocks (vGASNet's owner node, sections III-B to III-E): who has copies, in
/// which state, who wants one, and what is being done about it. A state machine without threads, clocks or
/// memory: messages go in, messages to send come out.
///
///     M  one copy, written                 ─ a read ──▶ O     the writer keeps the only dirty copy
///     O  several copies, one rank owes it  ─ a write ─▶ M
///     E  one copy, as it was               ─ a read ──▶ S     E ─ its holder's write ─▶ M, without a message
///     S  several copies, as they were      ─ a write ─▶ M
///     I  no copy                           ─ a read ──▶ E
///
/// A block has one transaction at a time and a queue of requests, served in the order of arrival, of which
/// each rank has at most two (a want and a change). Whatever is sent in a transaction is answered before it
/// ends, so that the messages of two never overtake each other, whichever threads send them.
///
///     read, write   ask the ranks concerned ▶ all have answered ▶ (store) ▶ grant ▶ done
///     change        prepare, all ranks ▶ all have closed ▶ take over, one rank ▶ conclude, all ranks
///
/// Where it departs from the paper: the request does not go on from the forward rank to the requester, since
/// the forward rank may have to publish first, which takes longer than its handler may: it answers the
/// manager, and the requester fetches the bytes itself, with one get. The list of sharers is the forward
/// stack itself. A requester that already has a copy is not sent the bytes again.
///
/// Not for several threads.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "coherence/block_store.hpp"
#include "coherence/counters.hpp"
#include "coherence/exclusive_message.hpp"
#include "coherence/forward_stack.hpp"

namespace craton::coherence {

class ExclusiveDirectory {
 public:
  struct Order {
    fabric::Rank to;
    ExclusiveMessage message;
  };
  using Orders = std::vector<Order>;
  struct Segment {
    bool strong = false;       ///< its blocks are at first
    TimeNs fall_after_ns = 0;  ///< a block that rose by itself falls so long after its last atomic
    bool has_store = false;    ///< then its blocks are strong for ever
    Transfer transfer = Transfer::cooperative;
  };
  /// A fall that was asked for and met an atomic operation is tried again after so long.
  static constexpr TimeNs retry_ns = 50'000;

  /// \param self the manager's rank \param ranks of the job
  ExclusiveDirectory(fabric::Rank self, fabric::Rank ranks, Counters& counters)
      : self_(self), ranks_(ranks), counters_(counters) {}

  /// Segments are numbered from 0 on. Before the first message about it.
  void add_segment(const Segment& segment);
  void set_store(SegmentId segment, Transfer transfer);
  /// A message to the manager. \param orders gets the messages that follow from it
  void arrived(fabric::Rank from, const ExclusiveMessage& message, TimeNs now_ns, Orders& orders);
  /// When tick() has something to do; no_deadline: never, as things are.
  TimeNs due_ns() const noexcept { return timers_.empty() ? no_deadline : timers_.front().due_ns; }
  void tick(TimeNs now_ns, Orders& orders);

  /// What it knows of a block; for tests.
  CopyState state(SegmentId segment, std::uint64_t block) { return entry(segment, block).state; }
  bool strong(SegmentId segment, std::uint64_t block) { return entry(segment, block).strong; }

 private:
  enum class Phase : std::uint8_t { idle, asking, filling, granted, preparing, taking_over, concluding };
  struct Request {
    enum class Kind : std::uint8_t { read, write, rise, fall };
    Kind kind;
    fabric::Rank rank = nobody;  ///< who is answered; nobody: it is the manager's own idea
    std::uint32_t number = 0;
    TimeNs hold_ns = 0;
    bool kept = false;
    bool is_transfer() const noexcept { return kind == Kind::read || kind == Kind::write; }
  };
  struct Entry {
    SegmentId segment;
    std::uint64_t block;
    bool strong;
    bool kept;  ///< strong until it is told otherwise
    CopyState state = CopyState::invalid;
    fabric::Rank owner = nobody;  ///< whose copy is modified or owned
    ForwardStack holders{};
    std::uint32_t generation = 0;
    std::deque<Request> queue{};
    TimeNs hold_until_ns = 0;
    TimeNs fall_at_ns = no_deadline;
    // The transaction.
    Phase phase = Phase::idle;
    Request current{.kind = Request::Kind::read};
    std::uint32_t answers_due = 0;
    fabric::Rank source = nobody;   ///< of the bytes
    fabric::Rank teacher = nobody;  ///< who published for it
    std::uint64_t shown = 0;
    bool refused = false;        ///< by a rank that prepared
    bool goes_weak = false;      ///< what is concluded
    fabric::Rank home = nobody;  ///< the newest that prepared ranks told of
    Timestamp home_write_ts = 0;
  };
  struct Timer {
    TimeNs due_ns;
    SegmentId segment;
    std::uint64_t block;
  };

  Entry& entry(SegmentId segment, std::uint64_t block);
  static void order(const Entry& entry, fabric::Rank to, ExclusiveMessage message, Orders& orders);
  void order_all(const Entry& entry, const ExclusiveMessage& message, Orders& orders) const;
  void enqueue(Entry& entry, const Request& request);
  void wake_at(const Entry& entry, TimeNs due_ns);

  void go_on(Entry& entry, TimeNs now_ns, Orders& orders);
  void begin_read(Entry& entry, Orders& orders);
  void begin_write(Entry& entry, Orders& orders);
  void all_answered(Entry& entry, Orders& orders);
  void grant(Entry& entry, Orders& orders);
  void done(Entry& entry, TimeNs now_ns);
  // exclusive_directory_strength.cpp
  void begin_rise(Entry& entry, Orders& orders);
  void begin_fall(Entry& entry, Orders& orders);
  void prepared(Entry& entry, fabric::Rank from, const ExclusiveMessage& message, Orders& orders);
  void call_off(Entry& entry, Orders& orders);
  void taken_over(Entry& entry, const ExclusiveMessage& message, Orders& orders);
  void conclude_release(Entry& entry, ExclusiveMessage message, Orders& orders);
  void conclude(Entry& entry, ExclusiveMessage message, Orders& orders);
  void concluded(Entry& entry, TimeNs now_ns, Orders& orders);
  void answer_change(const Entry& entry, const Request& request, bool agreed, Orders& orders) const;
  void fall_later(Entry& entry, TimeNs now_ns);

  const fabric::Rank self_;
  const fabric::Rank ranks_;
  Counters& counters_;
  std::vector<Segment> segments_;
  std::vector<std::unordered_map<std::uint64_t, Entry>> entries_;
  std::vector<Timer> timers_;  ///< a heap, the earliest first
};

}  // namespace craton::coherence
