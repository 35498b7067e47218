/// \file
/// The blocks of one segment on one rank, under the protocol of lease_release.hpp.
///
///     system view  the copy, which the application view shows        region `data`
///     twins        what copies with writes in them started from      region `twins`
///     words        link, lease, ... of each block                    region `words`
///     home bytes   only where homes are fixed: the merged blocks      region `home_bytes`
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "base/zero_bytes.hpp"
#include "coherence/block.hpp"
#include "coherence/block_lock.hpp"
#include "coherence/counters.hpp"
#include "coherence/dials.hpp"
#include "coherence/lending.hpp"
#include "coherence/merge.hpp"
#include "coherence/put_by.hpp"
#include "coherence/scratch.hpp"
#include "coherence/sending.hpp"
#include "coherence/signature.hpp"
#include "coherence/sites.hpp"
#include "fabric/fabric.hpp"
#include "vm/page_table.hpp"

namespace craton::coherence {

class Exclusive;
class LeaseRelease;
class Taking;
struct TakeTerms;

/// Which rank is the home of each block at first.
struct InitialHomes {
  enum class Kind : std::uint8_t {
    cyclic,   ///< block i at rank i modulo the number of ranks
    blocked,  ///< as many consecutive blocks at each rank
    one,      ///< all at `rank`
  };
  Kind kind = Kind::cyclic;
  fabric::Rank rank = 0;
};

struct SegmentSetup {
  vm::PageTable& pages;  ///< its system view is registered as `data`
  fabric::RegionId data;
  fabric::RegionId twins;  ///< as large as the data
  std::byte* own_twins;
  fabric::RegionId words;  ///< sizeof(BlockWords) a block, zero at first
  BlockWords* own_words;
  fabric::RegionId home_bytes;  ///< as large as the data, zero at first; with Home::fixed only
  std::byte* own_home_bytes;
  InitialHomes initial_homes;
  Dials dials;
  const std::byte* application_view = nullptr;  ///< where the program finds it: for events
};

class LeaseSegment final : public vm::FaultHandler {
 public:
  LeaseSegment(LeaseRelease& space, fabric::Fabric& fabric, SegmentId id, const SegmentSetup& setup);
  ~LeaseSegment() override;

  SegmentId id() const noexcept { return id_; }
  const Dials& dials() const noexcept { return dials_; }
  std::uint64_t blocks() const noexcept { return pages_.blocks(); }
  /// What was done for the blocks of this segment.
  Counters& counters() noexcept { return counters_; }
  const Counters& counters() const noexcept { return counters_; }
  /// There are blocks for a release to look at. Those that it is looking at already do not count.
  bool has_writes() const noexcept { return first_listed_.load(std::memory_order_acquire) != 0; }

  // vm::FaultHandler
  void fault(vm::BlockIndex block, bool write) override;

  /// Makes the block writable and keeps it so: neither acquires nor releases take access away, acquires bring
  /// it up to date at once (section 3.5.5). For memory that is touched where a fault must not happen, like
  /// stacks. A strong block becomes weak first, and none becomes strong while it is pinned. Blocks.
  /// \throws Error not_supported: it cannot become weak
  void pin(vm::BlockIndex block);
  void unpin(vm::BlockIndex block);

 private:
  friend class Exclusive;
  friend class LeaseRelease;

  // What holds of a block.
  bool floating() const noexcept { return dials_.home == Home::floating; }
  bool directory() const noexcept { return dials_.invalidation == Invalidation::directory; }
  bool fast() const noexcept { return dials_.release == Release::fast; }
  /// At the home of a block its twin is what was published last, and that is what others fetch. From the copy
  /// they could get a value that is not released, and that is overwritten by the published one before the
  /// release finds the block unchanged and says nothing.
  bool has_published_twins() const noexcept { return floating() && (!fast() || dials_.hot_blocks); }
  fabric::RegionId published_region() const noexcept {
    if (!floating()) return home_region_;
    return has_published_twins() ? twin_region_ : data_region_;
  }
  void stays_open_at_home(std::uint64_t index, Block& block) noexcept;
  /// With `busy`, of a block whose home is here and which is about to be published.
  void renew_published_twin(std::uint64_t index) noexcept;
  /// This rank is its home, and so its copy has all that was published.
  bool owns(std::uint64_t index) const noexcept {
    return floating() && lease::is_open(words_.own_lease(index));
  }
  /// It goes by the rules of exclusive.hpp, and not by ours. Under its state lock or its `busy`.
  bool strong(std::uint64_t index) const noexcept {
    return states_[index].strength_changed.load(std::memory_order_acquire) !=
           (dials_.strength == Strength::strong);
  }
  void set_strong(std::uint64_t index, bool strong) noexcept {
    states_[index].strength_changed.store(strong != (dials_.strength == Strength::strong),
                                          std::memory_order_release);
  }
  /// Under its state lock.
  bool usable(std::uint64_t index, const Block& block) const noexcept;
  std::byte* data(std::uint64_t index) const noexcept { return pages_.system_view(index); }
  const std::byte* block_address(std::uint64_t index) const noexcept {
    return application_view_ + index * block_bytes_;
  }
  std::byte* twin(std::uint64_t index) const noexcept { return twins_ + index * block_bytes_; }
  /// Where it is fixed.
  fabric::Rank fixed_home(std::uint64_t index) const noexcept { return words_.initial_home(index); }
  /// With `busy`, of a copy that is usable or dirty. It knows of no write of any rank: it is zero bytes, but
  /// for what this rank has written and not published, and its twin, whose memory need not exist, is too.
  bool is_untouched(const Block& block) const noexcept {
    return has_published_twins() && block.copy_write_ts == 0;
  }
  /// With `busy`, of a block with a twin.
  bool unchanged(std::uint64_t index) noexcept {
    return is_untouched(states_[index]) ? is_zero(data(index), block_bytes_)
                                        : equal_blocks(data(index), base(index), block_bytes_);
  }
  const std::byte* base(std::uint64_t index) noexcept;
  /// With `busy`, of a dirty block with a twin: a release need not publish it.
  bool has_nothing_to_tell(std::uint64_t index, const Block& block) noexcept {
    return !block.untold && finds_unchanged(index);
  }

  // Faults (lease_segment.cpp).
  void make_usable(std::uint64_t index, Block& block);

  // More than they ask for (lease_segment_ahead.cpp).
  static constexpr std::uint32_t read_ahead_most = 64;
  static constexpr std::uint32_t open_ahead_most = 64;
  bool open_with_neighbours(std::uint64_t index, bool first_touch);
  bool can_prepare(std::uint64_t index, Block& block, bool may_be_new) noexcept;
  bool needs_copy(std::uint64_t index, const Block& block) const noexcept;
  bool prepare_ahead(std::uint64_t index, Block& block);
  bool open_to_write(std::span<const std::uint64_t> indices, std::uint64_t wanted);
  void note_opening(std::uint64_t first, std::uint64_t count, std::uint64_t together) noexcept;
  void read_ahead(std::uint64_t index);
  std::uint64_t lock_ahead(std::uint64_t index);
  void unlock_ahead(std::uint64_t first, std::uint64_t count) noexcept;
  /// Bytes of other ranks that came into a closed copy (causal).
  struct Arrived {
    std::uint64_t index;
    std::uint64_t arrival;  ///< of the block
    SiteBits site;          ///< of the acquire that brought them; 0: a fault did
  };
  void note_arrived(std::uint64_t index, SiteBits site);
  std::vector<Arrived> take_arrived() noexcept;
  void open_arrived(std::vector<Arrived>& arrived);

  // Bytes of other ranks (lease_segment_fetch.cpp).
  struct Source {
    fabric::Rank rank;
    Timestamp write_ts;
    Timestamp read_ts;
    bool written;       ///< else what the copy has is right
    bool kept = false;  ///< at its home: in the copy, not in the twin
  };
  void fetch(std::uint64_t index, Block& block);
  bool get_to(std::byte* to, std::uint64_t index, const Source& source);
  fabric::RegionId region_of(const Source& source) const noexcept {
    return source.kept ? data_region_ : published_region();
  }
  bool is_still(std::uint64_t index, const Source& source);
  static void forget_copy(Block& block) noexcept;
  void fetch_run(std::uint64_t first, std::span<Source> sources);
  Source find_source(std::uint64_t index, Block& block);
  std::optional<Source> try_find_source(std::uint64_t index, Block& block);
  Source known_source(const Block& block) const noexcept;
  static void note_copy(Block& block, const Source& source);
  std::optional<Source> try_ask_home(std::uint64_t index, Block& block);
  bool fetch_from(const Source& source, std::uint64_t index, Block& block);
  bool try_fetch(std::uint64_t index, Block& block);
  std::optional<LentWords> try_join_sharers(fabric::Rank home, std::uint64_t index);
  std::optional<LentWords> try_borrow(fabric::Rank home, std::uint64_t index, const LendTerms& terms);
  LentWords ask_to_lend(fabric::Rank home, std::uint64_t index, const LendTerms& terms);
  void lend(fabric::Rank to, std::uint64_t index, std::uint64_t lending, const LendTerms& terms) noexcept;
  LendTerms terms_for(Block& block) const noexcept;
  static void note_lent(Block& block, Timestamp write_ts) noexcept;

  // What all of these use (lease_segment.cpp).
  void start_get_bytes(fabric::Rank from, fabric::RegionId region, std::uint64_t index, std::byte* to,
                       fabric::Completion& completion);
  void get_bytes(fabric::Rank from, fabric::RegionId region, std::uint64_t index, std::byte* to);
  void put_bytes(fabric::Rank to, fabric::RegionId region, std::uint64_t index, std::size_t first_byte,
                 const std::byte* from, std::size_t bytes);
  void prepare_write(std::uint64_t index, Block& block);
  bool has_clean_twin(std::uint64_t index, const Block& block) const noexcept;
  void make_twin(std::uint64_t index, Block& block);
  std::uint64_t open(std::uint64_t first, std::uint64_t count, vm::Access access);
  void close_to_reads(std::uint64_t index, Block& block);
  std::uint64_t close_to(vm::Access most, std::span<const std::uint64_t> indices,
                         FunctionRef<bool(std::uint64_t index, const Block& block)> is_due);
  void expect_arrival(std::uint64_t index, Block& block);
  void settle(std::uint64_t index, Block& block);
  void back_off(unsigned& round);

  // Releases (lease_segment_release.cpp).
  void release_all(bool is_at_place, SiteBits site, std::vector<WriteNotice>& notices);
  std::vector<std::uint64_t> take_listed();
  void cut();
  void open_again(std::vector<std::uint64_t>& closed);
  void close_due(std::span<const std::uint64_t> listed);
  void expect_writes(SiteBits site, std::span<const std::uint64_t> listed);
  void release_elsewhere(const std::vector<std::uint64_t>& indices, std::vector<WriteNotice>& notices);
  bool release(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  bool release_at_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  static bool is_dirty(Block& block) noexcept;
  bool finds_unchanged(std::uint64_t index) noexcept;
  void found_unchanged(Block& block) noexcept;
  void found_written(Block& block) const noexcept;
  void found_changed(std::uint64_t index, Block& block) noexcept;
  bool found_closed(Block& block) noexcept;
  void opened_for_nothing(Block& block) noexcept;
  /// Under the block's state lock. The acquire that opened it for writing need not have done so.
  static void forget_opening(Block& block) noexcept {
    block.written_after &= ~block.opened_after;
    block.opened_after = 0;
  }
  void learn_written(Block& block) noexcept;
  void learn_gap(Block& block) noexcept;
  std::uint32_t looks_an_opening(const Block& block, std::uint32_t look_ns) const noexcept;
  void expect_next_write(std::uint64_t index, Block& block) noexcept;
  void written_elsewhere(Block& block) noexcept;
  /// Of this rank, that looked at what is open, or would have.
  std::uint32_t fences() const noexcept;
  bool merge_and_move(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  bool merge_at_fixed_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  struct Taken {
    fabric::Rank from;  ///< who had the lock before
    Timestamp write_ts;
    std::uint64_t updater;       ///< BlockWords::updater
    Timestamp published_ts = 0;  ///< when the home was written last
    Timestamp leased_until = 0;  ///< until when others may use copies
  };
  void publish_at_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  Taken fetch_fixed_home(std::uint64_t index, Block& block);
  void publish_at_fixed_home(std::uint64_t index, Block& block, const Taken& taken,
                             std::vector<WriteNotice>& notices);
  void publish(std::uint64_t index, Block& block, fabric::Rank home, Timestamp write_ts,
               std::vector<WriteNotice>& notices);
  Timestamp extend_for_write(fabric::Rank home, std::uint64_t index, Timestamp home_write_ts);
  Timestamp extend_for_write(fabric::Rank home, std::uint64_t index, Timestamp home_write_ts,
                             std::uint64_t marks, Timestamp lease);
  static Timestamp extend_for_write(
      std::uint64_t seen, Timestamp home_write_ts, Timestamp least, std::uint64_t marks, Timestamp lease,
      FunctionRef<std::uint64_t(std::uint64_t expected, std::uint64_t desired)> exchange);
  void invalidate_sharers(std::uint64_t index, Block& block, std::uint64_t sharers, fabric::Rank also);
  void merge(std::uint64_t index, fabric::Rank there, const std::byte* incoming);
  void report_races(std::uint64_t index, fabric::Rank there, const MergeOutcome& outcome);
  void note_writes(std::uint64_t index, bool others_wrote) noexcept;
  void list_dirty(std::uint64_t index, Block& block);

  // Homes that go to another rank (lease_segment_take.cpp).
  /// A block's bytes come with the answer of its home, if they are no more.
  static constexpr std::size_t told_bytes = fabric::max_message_bytes;
  Taken take_home(std::uint64_t index, Block& block);
  Taken take_home_from(fabric::Rank home, std::uint64_t index, Block& block, Taking& taking,
                       std::byte* incoming);
  std::optional<fabric::Rank> later_home(std::uint64_t index, Block& block) const noexcept;
  bool is_to_bring_bytes(const Block& block) const noexcept;
  TakeTerms terms_to_take(const Block& block) const noexcept;
  std::uint64_t try_take(fabric::Rank at, std::uint64_t index, Taking& taking);
  void close_home(fabric::Rank home, std::uint64_t index, Taking& taking, std::byte* to);
  Timestamp begin_move(fabric::Rank home, std::uint64_t index, Taking& taking);
  void end_move(fabric::Rank home, std::uint64_t index, Taking& taking);
  void publish_taken(std::uint64_t index, Block& block, const Taken& taken,
                     std::vector<WriteNotice>& notices);
  void give_home(fabric::Rank to, std::uint64_t index, std::uint64_t taking, const TakeTerms& terms) noexcept;
  void has_moved(std::uint64_t index, Timestamp write_ts) noexcept;

  // Homes that stay where they are (lease_segment_send.cpp).
  bool is_time_to_send(const Block& block) const noexcept;
  void note_return(std::uint64_t index, Block& block) noexcept;
  bool send_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  MergedWords send_to(fabric::Rank home, std::uint64_t index, std::span<const DiffPiece> pieces);
  void note_sent(std::uint64_t index, Block& block, fabric::Rank home, const MergedWords& merged,
                 std::vector<WriteNotice>& notices);
  void merge_sent(fabric::Rank from, std::uint64_t index, std::uint64_t sending, const SendTerms& terms,
                  std::vector<DiffPiece> pieces) noexcept;
  bool can_put_by(std::uint64_t index, Block& block) noexcept;
  MergedWords publish_sent(fabric::Rank from, std::uint64_t index, Block& block, const SendTerms& terms,
                           std::vector<DiffPiece> pieces) noexcept;
  PutBy& put_by(std::uint64_t index) noexcept;
  void forget_put_by(std::uint64_t index, Block& block) noexcept;
  void catch_up(std::uint64_t index, Block& block);
  void catch_up(std::uint64_t index, Block& block, Timestamp until);

  // Strength (lease_segment_strength.cpp).
  void become_home(std::uint64_t index, std::vector<WriteNotice>& notices);
  void make_old(std::uint64_t index, Timestamp write_ts, Timestamp read_ts, fabric::Rank home);

  // Sole copies (lease_segment_sole.cpp).
  bool is_time_for_sole(Block& block) const noexcept;
  std::uint16_t sole_delay_after(const Block& block) const noexcept;
  void publish_as_sole(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  Timestamp end_sole(std::uint64_t index, Block& block);
  void end_sole_here(std::uint64_t index, Block& block);
  void open_sole(std::uint64_t index, Block& block);
  void note_published(std::uint64_t index, Block& block, Timestamp write_ts) noexcept;
  void tell_to_ask(std::uint64_t index, Timestamp write_ts, std::vector<WriteNotice>& notices);
  Timestamp share(fabric::Rank home, std::uint64_t index);

  // Blocks that migrate (lease_segment_migrate.cpp).
  bool is_time_to_migrate(Block& block) const noexcept;
  static void disturbed(Block& block) noexcept;
  bool take_ahead(std::uint64_t index, Block& block);
  static void expect_to_migrate(Block& block) noexcept;
  bool is_migrated(Block& block) const noexcept;
  bool release_migrated(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  void publish_kept(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices);
  bool write_kept(std::uint64_t index, Block& block);
  void unkeep(std::uint64_t index, Block& block);

  // Updates (lease_segment_update.cpp).
  using Modify = FunctionRef<void(std::byte* word)>;
  /// Tells who updated a word of the block before, with the lock held. A release of another rank may have had
  /// the lock since, which does not know what that one knew.
  using Locked = FunctionRef<void(fabric::Rank updater)>;
  bool update(std::uint64_t index, std::size_t offset, std::size_t bytes, Modify modify, Locked locked,
              std::vector<WriteNotice>& notices);

  // Acquires (lease_segment_acquire.cpp).
  /// Open copies that have become too old.
  struct Stale {
    std::vector<std::uint64_t> close;    ///< until they are used again
    std::vector<std::uint64_t> refresh;  ///< now, in place
  };
  /// Of a write of this rank, or one that was sent here.
  bool is_own(const WriteNotice& notice) const noexcept {
    return floating() && notice.source == fabric_.rank();
  }
  bool is_in_copy(const WriteNotice& notice, const Block& block) const noexcept;
  /// It was learnt here, or one of the block that was as new.
  bool knows(const WriteNotice& notice) noexcept;
  void note(const WriteNotice& notice, SiteBits site, Stale& stale);
  void expire(Timestamp min_write_ts, SiteBits site, Stale& stale);
  void sort_out(std::uint64_t index, Block& block, SiteBits site, Stale& stale);
  void expect_use(Block& block, SiteBits site) const noexcept;
  bool is_to_prefetch(const Block& block, SiteBits site) const noexcept;
  bool is_time_to_probe(std::uint64_t index, Block& block) const noexcept;
  void found_used(std::uint64_t index, Block& block) noexcept;
  std::uint32_t probe_distance(std::uint64_t index, unsigned hits) const noexcept;
  bool renew(std::uint64_t index, Timestamp until);
  void close_stale(Stale& stale);
  /// A copy that an acquire brings up to date.
  struct Refresh {
    enum class Way : std::uint8_t {
      get,   ///< from a source that a notice told of
      ask,   ///< as a fault would
      take,  ///< with its home: take_ahead()
      none,  ///< it is up to date already, or not used
    };
    std::uint64_t index;
    Source source;  ///< write_ts 0: unknown
    Way way = Way::get;
    bool is_done = false;
  };
  Refresh plan_refresh(std::uint64_t index, SiteBits site);
  void expect_arrivals(std::span<const Refresh> refreshes);
  void fetch_known(std::span<Refresh> refreshes);
  void refresh_stale(Stale& stale, SiteBits site);
  void open_refreshed(std::uint64_t first, std::uint64_t count, SiteBits site);
  void open_expected(SiteBits site);
  void open_closed(std::span<const std::uint64_t> closed, SiteBits site);
  void refresh_pinned();
  void keep_in_heap(Block& block, Timestamp key);

  // Messages.
  static void tell(void* self, fabric::Rank to, std::uint64_t index, BlockLock::Answer answer);
  void drop_by_message(std::uint64_t index) noexcept;

  static fabric::Rank initial_home(const void* self, std::uint64_t index) noexcept;

  LeaseRelease& space_;
  fabric::Fabric& fabric_;
  Counters counters_;
  const SegmentId id_;
  vm::PageTable& pages_;
  const std::size_t block_bytes_;
  const fabric::RegionId data_region_;
  const fabric::RegionId twin_region_;
  const fabric::RegionId home_region_;
  std::byte* const twins_;
  const std::byte* const application_view_;
  const InitialHomes initial_homes_;
  const Dials dials_;
  Interleaver& waits_;
  RemoteWords words_;
  BlockLock lock_;
  ZeroedArray<Block> states_;

  StateLock list_lock_;
  std::atomic<std::uint32_t> releases_{
      0};                       ///< of the program's, that had something to look at; one at a time counts
  std::uint32_t interval_ = 0;  ///< of releases: the number of the next one of the program's
  std::atomic<std::uint64_t> first_listed_{
      0};                                ///< index plus one of the first dirty block; chained by next_listed
  std::vector<std::uint64_t> cut_;       ///< under the release fence: see cut()
  std::atomic<std::uint32_t> looks_{0};  ///< more or less
  std::atomic<std::uint32_t> look_ns_{0};  ///< what those in vain cost lately, by the page; 0: not known
  // What an acquire opens of the blocks that releases have closed: see expect_writes().
  StateLock expected_lock_;
  std::array<std::vector<std::uint64_t>, Sites::most> expected_;  ///< by place, that has a bit
  std::atomic<SiteBits> expecting_{0};                            ///< the places after which there are any
  StateLock arrived_lock_;
  std::vector<Arrived> arrived_;  ///< until what went before them is learnt (causal)
  StateLock heap_lock_;
  LeaseHeap heap_;
  fiber::Mutex expiry_fence_;  ///< from the moment a copy leaves the heap until it is closed
  StateLock pinned_lock_;
  std::vector<std::uint64_t> pinned_;
  std::atomic<std::size_t> pins_{0};  ///< how many these are, for who has not the lock

  StateLock put_by_lock_;
  std::map<std::uint64_t, PutBy> put_by_;  ///< of copies that are behind; each is used with `busy`

  ScratchPool scratch_;
};

}  // namespace craton::coherence
