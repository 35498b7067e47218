/// \file
/// The coherent space of a rank: segments that all ranks load and store at the same addresses, mutexes,
/// barriers and atomic updates on them. What the C interface is made of.
///
///     program ─▶ application view ─fault─▶ LeaseSegment ─▶ fabric ─▶ other ranks' system views, words, twins
///             ─▶ Mutexes, Barrier ────────▶ LeaseRelease (fences)
///
/// Threads: any thread of the rank, but what is collective is called by one thread a rank, in the same order
/// on all ranks. Errors of the program (sizes, ranks) and of the system are Error; a dead rank ends calls
/// with Error peer_lost, and a fault that needs it ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/append_only.hpp"
#include "base/function_ref.hpp"
#include "coherence/exclusive.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"
#include "space/agreement.hpp"
#include "space/barrier.hpp"
#include "space/heartbeat.hpp"
#include "space/learning.hpp"
#include "space/mutexes.hpp"
#include "space/owned_segment.hpp"
#include "space/signature_board.hpp"
#include "vm/fault_dispatcher.hpp"
#include "vm/mechanism.hpp"
#include "vm/reservation.hpp"
#include "vm/thread_scope.hpp"

namespace craton::space {

struct SpaceOptions {
  std::size_t notice_capacity =
      1024;  ///< write notices in a signature, at most; a barrier tells 16 times as many
  unsigned parallel_releases = 16;  ///< blocks that a release takes from other ranks at a time
  TimeNs heartbeat_ns = 0;          ///< of a rank that does not synchronise: see Heartbeat; 0: none
  std::uint32_t mutexes = 1024;     ///< how many there are
  unsigned threads = 1;             ///< of each rank that take part in barriers
  std::string mechanism = "auto";   ///< of page tables: see vm::choose_mechanism
  std::size_t address_bytes = std::size_t{1}
                              << 40U;   ///< that segments share, less where there is less; costs no memory
  fabric::RegionId first_region = 0;    ///< regions from here on are the space's
  fabric::HandlerId first_handler = 0;  ///< so are `handlers` message handlers
  static constexpr fabric::HandlerId handlers = 7;
};

struct SegmentOptions {
  std::string name = "segment";
  std::size_t bytes = 0;           ///< rounded up to whole blocks
  std::size_t block_bytes = 4096;  ///< 4 KiB to 4 MiB, whole pages
  /// Where it has to be, the start of a page; whatever is mapped there goes. 0: where the space has room.
  std::uintptr_t address = 0;
  coherence::InitialHomes initial_homes;
  coherence::Dials dials;
};

class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const std::string& name() const noexcept { return memory_->views.name(); }
  /// Where the program finds it; the same on all ranks.
  std::byte* data() const noexcept { return memory_->views.application_view(); }
  std::size_t bytes() const noexcept { return memory_->views.bytes(); }
  std::size_t block_bytes() const noexcept { return memory_->views.block_bytes(); }
  coherence::LeaseSegment& blocks() const noexcept { return protocol_; }
  bool contains(const void* address) const noexcept {
    return address >= data() && address < data() + bytes();
  }

 private:
  friend class Space;
  /// Ends the process where a fault cannot be served, since no exception passes a signal handler.
  class Faults final : public vm::FaultHandler {
   public:
    Faults(coherence::LeaseSegment& protocol, const Clock& clock, coherence::Counters& counters)
        : protocol_(protocol), clock_(clock), counters_(counters) {}
    void fault(vm::BlockIndex block, bool write) override;

   private:
    coherence::LeaseSegment& protocol_;
    const Clock& clock_;
    coherence::Counters& counters_;
  };
  /// What it takes of this rank. Made before other ranks hear of the segment, since that may fail.
  struct Memory {
    Memory(vm::AddressRange range, const SegmentOptions& options, vm::Mechanism mechanism,
           const vm::Mechanisms& mechanisms, vm::MapBudget& budget);

    vm::SegmentMemory views;
    fabric::RegionMemory twins;
    fabric::RegionMemory words;
    fabric::RegionMemory home_bytes;
    std::unique_ptr<vm::ViewPageTable> pages;
  };
  Segment(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, std::unique_ptr<Memory> memory,
          const SegmentOptions& options, fabric::RegionId first_region);
  void close(fabric::Fabric& fabric);

  const fabric::RegionId first_region_;
  const std::unique_ptr<Memory> memory_;
  coherence::LeaseSegment& protocol_;
  Faults faults_;
  vm::CaughtSegment caught_;
};

class Space final : public Learning {
 public:
  /// Collective; blocks. The calling thread gets an alternate stack for faults; others should have a
  /// vm::ThreadScope. \throws Error
  Space(fabric::Fabric& fabric, const SpaceOptions& options);
  ~Space() override;
  /// Ends all segments. Collective; nobody uses them any more. After it only the destructor may be called.
  /// \throws Error peer_lost
  void close();

  /// All zero bytes at first. Collective, with the same options on all ranks; blocks.
  /// \throws Error invalid_argument (also where ranks differ), out_of_resources, not_supported
  Segment& create_segment(const SegmentOptions& options);
  /// Memory of which every rank has a part of its own: see OwnedSegment. One at most. Collective; blocks.
  /// \param part_bytes of each rank, whole pages \throws Error
  OwnedSegment& create_owned_segment(const std::string& name, std::size_t part_bytes,
                                     vm::Contents contents = vm::Contents::data);
  /// The segment that an address is in; null if none.
  Segment* find(const void* address) noexcept;

  const AppendOnly<Segment, coherence::segments_at_most>& segments() const noexcept { return segments_; }
  /// Null where there is none.
  OwnedSegment* owned_segment() noexcept { return owned_.get(); }
  Barrier& barrier() noexcept { return barrier_; }
  Mutexes& mutexes() noexcept { return mutexes_; }
  Heartbeat& heartbeat() noexcept { return heartbeat_; }
  coherence::LeaseRelease& protocol() noexcept { return protocol_; }
  coherence::Exclusive& exclusive() noexcept { return exclusive_; }
  vm::Mechanism mechanism() const noexcept { return mechanism_; }

  /// Calls `modify` on the newest value of a word in a segment: atomically, a release before and an acquire
  /// after. Blocks. \param modify must not touch shared memory: locks of the word's block are held
  /// \param word aligned to `bytes`, which are 1, 2, 4 or 8 \throws Error invalid_argument,
  /// peer_lost
  void update(void* word, std::size_t bytes, FunctionRef<void(std::byte* value)> modify);
  /// The newest value of a word, likewise; of a strong block without taking it from who writes it. Blocks.
  /// \param value gets `bytes` bytes \throws as update()
  void load(const void* word, std::size_t bytes, void* value);
  void publish() override;
  /// Publishes, and acquires what all others have published so far: what a program means by a flush. Blocks.
  /// \returns false: there was nothing new either way \throws Error peer_lost
  bool flush();
  /// Acquires what `rank` has published so far. Blocks. \throws Error peer_lost
  void learn(fabric::Rank rank);
  void learn(std::vector<fabric::Rank> ranks) override;
  void learn_from_all() override;
  /// Keeps blocks accessible all the time: see coherence::LeaseSegment::pin. \throws Error invalid_argument
  void pin(const void* begin, std::size_t bytes);
  void unpin(const void* begin, std::size_t bytes);
  /// What programs may rely on in the blocks that some bytes are in: see coherence::Exclusive::set_strength.
  /// Any rank may call it. \throws Error invalid_argument, not_supported, peer_lost
  void set_strength(const void* begin, std::size_t bytes, coherence::Strength strength);

 private:
  static void start_service(void* self) noexcept;
  void end_service();
  std::unique_ptr<vm::Reservation> reserve(std::size_t wanted);
  vm::AddressRange take_addresses(const SegmentOptions& options);
  std::unique_ptr<Segment::Memory> make_memory(const SegmentOptions& options);
  void agree(std::uint64_t own, const char* asked, const char* what);
  Segment& segment_of_word(const void* word, std::size_t bytes, std::uint64_t& offset);
  void for_blocks(const void* begin, std::size_t bytes, const char* asked,
                  FunctionRef<void(coherence::LeaseSegment&, std::uint64_t)> action);

  fabric::Fabric& fabric_;
  const SpaceOptions options_;
  const vm::Mechanisms mechanisms_;
  const vm::Mechanism mechanism_;
  vm::ThreadScope thread_scope_;
  vm::MapBudget budget_;
  Agreement agreement_;
  std::unique_ptr<vm::Reservation> reservation_;
  std::vector<std::unique_ptr<vm::Reservation>> claimed_;  ///< of segments whose address was given
  SignatureBoard board_;
  coherence::Bulletin bulletin_;
  coherence::LeaseRelease protocol_;
  coherence::Exclusive exclusive_;
  std::mutex service_lock_;
  std::thread service_;  ///< of strong blocks, where there are any
  bool service_ended_ = false;
  Barrier barrier_;
  Mutexes mutexes_;
  AppendOnly<Segment, coherence::segments_at_most> segments_;
  std::unique_ptr<OwnedSegment> owned_;
  Heartbeat heartbeat_;  ///< the first to go
};

}  // namespace craton::space
