/// \file
/// Strong blocks (MOESI-F; vGASNet, section III-E): one rank at a time may write a block, or several may read
/// it. So every access is ordered, also where the program has races. They lie in the segments of
/// lease_release.hpp, among blocks of release consistency, and a block may change from the one to the other.
///
///     Exclusive            a rank: its copies, faults, atomic operations, and its service thread
///     ExclusiveDirectory   the manager's side: each block's is its initial home (exclusive_directory.hpp)
///
///     reader ──want──▶ manager ──serve──▶ forward rank: closes to writes, publishes, shows
///        ▲                │ ◀───ready────────┘   ▲
///        ├◀────grant──────┘                      │
///        └─ acquires, gets the bytes ────────────┘  then opens its copy ──done──▶ manager
///
/// Why a strong block is sequentially consistent
///  1. At any moment either one rank may write it or some may read it: the manager grants when all who must
///     give something up have answered, and they answer when PageTable::set_access has returned.
///  2. Then every store through the page is in memory. Taking access away interrupts each processor that may
///     have it, and waits until it has answered; a processor's answer is a store that comes after its earlier
///     ones, and none of these can be in its store buffer any more when the answer has been seen. So a copy
///     that is fetched afterwards has all of them.
///  3. So each access happens at a moment at which its rank's copy is the newest, and those moments order all
///     accesses to all strong blocks, in agreement with each thread's own order, as far as the processor
///     keeps that: threads of one rank see each other as on one machine, which for plain accesses is x86-TSO.
///     Between ranks it is never weaker: a load that finds its page taken away waits for an answer that
///     drains the store before it. Atomic instructions are sequentially consistent everywhere.
///
/// How they order with release blocks: a transfer of a strong block is a release at its source, after it was
/// closed there, and an acquire at its destination, before it is opened there. Who reads what another wrote
/// to a strong block so knows all that the writer knew. A copy that was only read is passed on with what its
/// holder knows, so that this holds over several ranks. A rank that loses a copy and passes on nothing
/// releases nothing: nobody learns anything of its accesses by that.
///
/// A release may have to wait, which a message handler must not. If nothing was written and nothing learnt
/// since the last one, the handler answers at once; else the rank's service thread does it. That also keeps
/// the manager's deadlines and does the blocking steps of changes of strength.
///
/// Progress: requests are served in the order in which they come to the manager. Who gets a block and loses
/// it at once several times in a row, perhaps before its instruction has been tried again, asks to keep it
/// for `Dials::hold_ns` the next time. Nothing here waits for the program: not for its mutexes or barriers,
/// nor for its threads to run.
///
/// Threads: any thread of the rank calls; fault() also inside a signal handler, where what there is to be
/// acquired takes memory from malloc (docs/coherence.md, Limits). A dead rank ends all waits with Error
/// peer_lost, and the service.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/append_only.hpp"
#include "base/function_ref.hpp"
#include "coherence/block.hpp"
#include "coherence/block_store.hpp"
#include "coherence/exclusive_directory.hpp"
#include "coherence/exclusive_message.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"
#include "fabric/fabric.hpp"
#include "fiber/fiber.hpp"

namespace craton::coherence {

class Exclusive {
 public:
  /// Starts a thread that calls serve(). Called once, when there is something for it to do; perhaps inside a
  /// message handler or a fault, so that it must not wait for anything.
  using StartService = void (*)(void* context) noexcept;

  /// Before the first segment of `protocol`. \param handler the protocol's messages, the same on all ranks
  Exclusive(fabric::Fabric& fabric, fabric::HandlerId handler, LeaseRelease& protocol, StartService start,
            void* context);
  ~Exclusive();
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

  /// Where the bytes of a segment are before any rank has them. Its blocks must be strong from the start
  /// (Dials::strength), and then stay so. Before the segment is used, the same transfer on all ranks.
  /// \throws Error invalid_argument
  void set_store(SegmentId segment, BlockStore& store, Transfer transfer);

  /// The service thread. Returns after stop(), or when a rank has died.
  void serve();
  /// When all ranks have stopped using strong blocks; the caller sees to a barrier.
  void stop() noexcept;

  /// Of a thread that is in Fabric::wait_until for something that other ranks do, a barrier for instance,
  /// with has_release() among what it waits for, and without a lock of the protocol. While one exists,
  /// releases for the sake of other ranks wake no service thread: often it is that thread which runs the
  /// handler.
  class Helper {
   public:
    explicit Helper(Exclusive& exclusive) noexcept;
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;
    ~Helper();

   private:
    Exclusive& exclusive_;
  };
  bool has_release() const noexcept { return releases_due_.load() != 0; }
  /// Makes one, if one is still due. Nothing else: who waits in a barrier must not acquire what another
  /// thread of its rank knows, which may be that barrier's. Blocks. \throws Error peer_lost
  void help_releasing();

  /// Makes blocks strong or weak until they are told otherwise; automatic, of a segment that is so by its
  /// dial: a strong one may become weak again by itself. Any thread; blocks, for a round of messages a block.
  /// \throws Error not_supported: a block is pinned, or has a store; invalid_argument; peer_lost
  void set_strength(SegmentId segment, std::uint64_t first, std::uint64_t count, Strength strength);

  /// Runs `instruction`, an atomic instruction (or a few) on the application view of the block that `offset`
  /// is in, which becomes strong before if the segment's dial says automatic, and stays so meanwhile. Costs
  /// some ten nanoseconds where this rank has the block to write already. Any thread; blocks.
  /// \returns false if the block is weak: nothing was done, LeaseRelease::update does it
  bool run_atomic(SegmentId segment, std::uint64_t offset, FunctionRef<void()> instruction);
  /// Waits while this rank may read a strong block and `seen` is what it holds at `offset`; another rank that
  /// writes there takes the copy away before. Wakes up at once for that, and sees no later than at the
  /// deadline what a thread of this rank has written. Any thread. \throws Error peer_lost
  void wait_while(SegmentId segment, std::uint64_t offset, std::span<const std::byte> seen,
                  TimeNs deadline_ns);
  /// As run_atomic(), for what is no instruction: see LeaseRelease::update, which calls this first. `modify`
  /// may be called several times, each time on what the word is then.
  bool update(SegmentId segment, std::uint64_t offset, std::size_t bytes,
              FunctionRef<void(std::byte* word)> modify);
  /// Of a block that was found strong. Waits until it is no longer about to become so, or weak. Any thread;
  /// blocks. \returns whether it is weak then
  bool is_weak_again(SegmentId segment, std::uint64_t offset);

 private:
  friend class LeaseRelease;
  friend class LeaseSegment;
  using Kind = ExclusiveMessage::Kind;

  /// What a rank knows of its copy of a strong block, beside Block. All zero bytes at first.
  struct Copy {
    // Under Block::state.
    CopyState state;           ///< what it may be opened for
    std::uint8_t lost_early;   ///< how often it was lost soon after it came, lately
    std::uint8_t migrations;   ///< how often in a row it was read first, then written: see will_write()
    bool on_trust;             ///< it came to be written since that was expected, and was not yet
    std::uint32_t generation;  ///< see ExclusiveMessage
    TimeNs opened_ns;

    // Set under Block::state, and waited for without.
    std::atomic<bool> changing;            ///< between `prepare` and `conclude`: nobody uses it
    std::atomic<std::uint32_t> asked;      ///< number of the last want
    std::atomic<std::uint32_t> granted;    ///< number of the last want that was granted
    std::atomic<std::uint32_t> settled;    ///< number of the last want that has its copy, or is void
    std::atomic<std::uint32_t> in_flight;  ///< atomic operations
    std::atomic<TimeNs> last_atomic_ns;
    ExclusiveMessage grant;

    // Under the work lock: what the service thread is to do about the block.
    ExclusiveMessage work;
    Copy* next_work;
  };
  struct Part {
    explicit Part(LeaseSegment& segment) : blocks(segment), copies(segment.blocks()) {}
    LeaseSegment& blocks;
    ZeroedArray<Copy> copies;
    BlockStore* store = nullptr;
  };
  /// A block, and all that is known of it here.
  struct Place {
    LeaseSegment& segment;
    std::uint64_t index;
    Block& block;
    Copy& copy;
  };
  class InFlight;

  void add_segment(LeaseSegment& segment);
  Place place(SegmentId segment, std::uint64_t index) noexcept;
  fabric::Rank manager(const Place& at) const noexcept;

  // Faults (exclusive.cpp).
  void fault(LeaseSegment& segment, std::uint64_t index, bool write);
  bool open_if_allowed(const Place& at, bool write);
  std::uint32_t ask(const Place& at, bool write, ExclusiveMessage& want);
  static bool will_write(const Copy& copy) noexcept;
  void collect(const Place& at, bool write);
  void learn_from(fabric::Rank rank, std::uint64_t shown, std::uint64_t index);
  void wait(FunctionRef<bool()> condition);
  enum class Footing : std::uint8_t { strong, weak, changing };
  Footing footing(const Place& at);
  void await_change(const Place& at);
  bool make_strong_if_automatic(const Place& at);

  // Messages (exclusive_service.cpp).
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void process(fabric::Rank source, const ExclusiveMessage& message);
  void direct(fabric::Rank source, const ExclusiveMessage& message);
  void send(fabric::Rank to, const ExclusiveMessage& message);
  void answer(const Place& at, ExclusiveMessage message);
  void granted(const Place& at, const ExclusiveMessage& grant);
  void pass_on(const Place& at, ExclusiveMessage serve);
  void drop(const Place& at);
  void note_loss(const Place& at) noexcept;

  // The service thread (exclusive_service.cpp).
  void later(Copy& copy, const ExclusiveMessage& work);
  enum class Work : std::uint8_t { any, release };
  bool take_work(Work kind, ExclusiveMessage& work);
  void do_work(const ExclusiveMessage& work);
  void wake_service();
  void fill(const Place& at, fabric::Rank source);

  // Changes of strength (exclusive_change.cpp).
  bool change(const Place& at, Strength strength, bool kept);
  void weaken(LeaseSegment& segment, std::uint64_t index);
  void prepare_rise(const Place& at);
  void prepare_fall(const Place& at, TimeNs idle_ns);
  void own(const Place& at);
  void become_home(const Place& at);
  void stay_strong(const Place& at);
  void become_weak(const Place& at, const ExclusiveMessage& message);

  fabric::Fabric& fabric_;
  const fabric::HandlerId handler_;
  LeaseRelease& protocol_;
  Counters& counters_;
  const StartService start_;
  void* const context_;
  AppendOnly<Part, segments_at_most> parts_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> learnt_;  ///< by rank: LeaseRelease::shown_ that we acquired

  StateLock directory_lock_;
  ExclusiveDirectory directory_;
  std::atomic<TimeNs> due_ns_{no_deadline};  ///< of the directory

  StateLock work_lock_;
  Copy* first_work_ = nullptr;
  Copy* last_work_ = nullptr;
  std::atomic<std::uint32_t> releases_due_{0};  ///< of the work: `serve`
  std::atomic<std::uint32_t> helpers_{0};
  std::atomic<std::uint32_t> service_calls_{0};  ///< what the service thread sleeps on
  std::atomic<bool> stopping_{false};
  std::atomic<bool> started_{false};

  fiber::Mutex change_lock_;  ///< one change at a time is asked for
  std::uint32_t change_number_ = 0;
  bool change_agreed_ = false;
  std::atomic<std::uint32_t> change_answered_{0};
};

}  // namespace craton::coherence
