#include "coherence/lease_release.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/events.hpp"
#include "base/scope_exit.hpp"
#include "base/signal_section.hpp"
#include "coherence/exclusive.hpp"

namespace craton::coherence {

namespace {

std::vector<fabric::Rank> others_of(const fabric::Fabric& fabric) {
  std::vector<fabric::Rank> others;
  for (fabric::Rank rank = 0; rank < fabric.size(); ++rank)
    if (rank != fabric.rank()) others.push_back(rank);
  return others;
}

}  // namespace

/// With the release fence, where segments are causal: see SignatureExchange::set_turn.
class LeaseRelease::Turn {
 public:
  Turn(LeaseRelease& space, bool publishes)
      : space_(space), is_causal_(space.causal_.load()), is_under_way_(is_causal_ && publishes) {
    if (is_under_way_) space_.begin_turn();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (is_under_way_) space_.end_turn();
  }
  bool is_causal() const noexcept { return is_causal_; }
  bool is_under_way() const noexcept { return is_under_way_; }

 private:
  LeaseRelease& space_;
  const bool is_causal_;
  const bool is_under_way_;
};

LeaseRelease::LeaseRelease(fabric::Fabric& fabric, fabric::HandlerId handler, SignatureExchange& exchange,
                           Bulletin& bulletin, const SpaceDials& dials)
    : fabric_(fabric),
      others_(others_of(fabric)),
      handler_(handler),
      asked_(fabric::ranks_to_ask(fabric)),
      waits_(fabric, dials.parallel_releases),
      exchange_(exchange),
      bulletin_(bulletin),
      learnt_turns_(std::make_unique<std::atomic<std::uint64_t>[]>(fabric.size())),
      known_(exchange, dials.notice_capacity * dials.barrier_factor, dials.notice_capacity),
      acquired_(std::make_unique<std::atomic<std::uint64_t>[]>(fabric.size())) {
  fabric_.set_handler(handler_, &LeaseRelease::arrived, this);
}

LeaseRelease::~LeaseRelease() = default;

LeaseSegment& LeaseRelease::add_segment(const SegmentSetup& setup) {
  if (setup.dials.strength != Strength::release && exclusive_ == nullptr) {
    throw Error(ErrorCode::not_supported, {.asked = "cannot make a segment with strong blocks",
                                           .happened = "this space has no protocol for them",
                                           .limit = {},
                                           .remedy = "make a coherence::Exclusive first"});
  }
  const auto id = static_cast<SegmentId>(segments_.size());
  segments_.append(std::make_unique<LeaseSegment>(*this, fabric_, id, setup));
  if (setup.dials.causal) causal_.store(true);
  if (exclusive_ != nullptr) exclusive_->add_segment(segments_.back());
  return segments_.back();
}

// ---- Releases

bool LeaseRelease::has_writes() const noexcept {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const auto& segment) { return segment->has_writes(); });
}

/// With the release fence.
void LeaseRelease::publish_all(const Turn& turn, bool is_at_place, std::vector<WriteNotice>& notices) {
  Counters::add(counters_.releases);
  const SiteBits site = is_at_place ? unreleased_site_.exchange(0, std::memory_order_relaxed) : 0;
  if (!turn.is_causal()) {
    for (const auto& segment : segments_) segment->release_all(is_at_place, site, notices);
    return;
  }
  if (!turn.is_under_way()) return;  // there was nothing when it was to begin
  frozen_.store(true);
  {
    const StateGuard guard(turn_lock_);
    uncut_.store(false);
  }
  for (const auto& segment : segments_)
    if (segment->dials_.causal) segment->cut();
  frozen_.store(false);
  fabric_.notify();
  for (const auto& segment : segments_) segment->release_all(is_at_place, site, notices);
}

/// Shows what this rank knows if that needs no waiting, since all that its threads wrote is published.
/// \param shown gets the number of what others can see now \returns false: it takes a release()
bool LeaseRelease::show_if_published(std::uint64_t& shown) {
  const SignalSection section;
  const std::unique_lock fence(release_fence_, std::try_to_lock);
  if (!fence.owns_lock()) return false;
  for (const auto& segment : segments_) {
    if (segment->has_writes()) return false;
  }
  if (listener_ != nullptr && listener_->has_writes()) return false;
  return known_.try_show(shown);
}

/// \param tell with the release fence: others, what this rank knows by now \returns whether it has published
/// anything itself
bool LeaseRelease::publish(bool is_at_place, FunctionRef<void(bool has_published)> tell) {
  const SignalSection section;
  const events::Span span(events::Kind::release);
  if (listener_ != nullptr) listener_->before_release();
  const std::lock_guard fence(release_fence_);
  const Turn turn(*this, has_writes() || is_release_wanted());
  std::vector<WriteNotice> notices;
  publish_all(turn, is_at_place, notices);
  known_.learn(notices, 0);
  tell(!notices.empty());
  return !notices.empty();
}

/// Shows what this rank knows, also to those who flush. Blocks only if there is something that it has not
/// posted.
void LeaseRelease::show_to_all() {
  if (bulletin_.is_used() && known_.has_unposted()) {
    const std::lock_guard posting(posting_);
    if (known_.has_unposted()) {
      bulletin_.stop();
      known_.stop_posting();
    }
  }
  known_.show();
}

void LeaseRelease::release(bool is_at_place) {
  publish(is_at_place, [this](bool /*has_published*/) { show_to_all(); });
}

Signature LeaseRelease::release_to_all() {
  const SignalSection section;
  const events::Span span(events::Kind::release);
  if (listener_ != nullptr) listener_->before_release();
  // The usual case in programs that only meet. In this order: a release that had begun before, and perhaps
  // has looked at a block too early and not listed it again yet, has the fence; one that begins later takes
  // what is listed, publishes it, and has it known before the fence is open again. What was written before is
  // in memory before it looks: see LeaseSegment::end_sole.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto is_releasing = [this] {
    interleave();
    return release_fence_.is_held();
  };
  if (!is_releasing() && !has_writes() && !is_releasing() && !known_.has_untold()) {
    Counters::add(counters_.releases);
    return Signature(known_.capacity());
  }
  const std::lock_guard fence(release_fence_);
  const Turn turn(*this, has_writes() || is_release_wanted());
  std::vector<WriteNotice> notices;
  publish_all(turn, true, notices);
  known_.learn(notices, 0);
  if (turn.is_causal()) known_.show();  // to those who are not at the barrier yet as well
  return known_.untold();
}

// ---- Acquires

void LeaseRelease::acquire(std::span<const fabric::Rank> ranks, std::uint32_t site) {
  const SignalSection section;
  const events::Span span(events::Kind::acquire);
  acquire_shown(ranks, site);
  arrive(site);
}

void LeaseRelease::acquire(SignatureExchange::View& view, std::span<const std::byte> news,
                           std::uint32_t site) {
  const SignalSection section;
  const bool is_news = view.now != view.version;
  if (is_news && !exchange_.decode_news(view, news)) return acquire(view.rank, site);
  const events::Span span(events::Kind::acquire);
  acquire_views(std::span(&view, 1), is_news, come_to(site));
  arrive(site);
}

/// The end of an acquire at a place.
void LeaseRelease::arrive(std::uint32_t site) {
  if (site != no_site && site != no_place) open_expected(sites_.bit_of(site));
  refresh_pinned();
}

bool LeaseRelease::flush() {
  if (bulletin_.is_used() && !causal_.load()) return flush_by_bulletin();
  const bool has_published = publish(true, [this](bool has_published_any) {
    if (has_published_any) show_to_all();
  });
  const SignalSection section;
  const events::Span span(events::Kind::acquire);
  const bool has_acquired = acquire_shown(others_, no_site);
  refresh_pinned();
  return has_published || has_acquired;
}

bool LeaseRelease::flush_by_bulletin() {
  const SignalSection section;
  std::unique_lock<fiber::Mutex> posting(posting_, std::defer_lock);
  Bulletin::Told told;
  // Within the fence: a release of another thread ends when what this one has published is posted.
  const bool has_published = publish(true, [&](bool shows) {
    posting.lock();
    told = bulletin_.post(known_.post(shows));
  });
  const events::Span span(events::Kind::acquire);
  const bool has_acquired = acquire_told(told);
  posts_.fetch_add(1, std::memory_order_release);
  posting.unlock();
  refresh_pinned();
  if (!has_published && !has_acquired) bulletin_.linger();
  return has_published || has_acquired;
}

/// All but the pinned blocks. \returns whether there was any news
bool LeaseRelease::acquire_told(const Bulletin::Told& told) {
  bool is_news = false;
  if (!told.news.empty()) is_news = acquire_notices(told.news, come_to(no_site), true);
  if (!told.ask.empty()) return acquire_shown(told.ask, no_site) || is_news;
  if (told.news.empty()) acquire_views({}, false, come_to(no_site));
  return is_news;
}

/// All but the pinned blocks. What this rank has acquired once it need not acquire again: who spins, and
/// acquires each time that it looks, asks for no more than a word. \returns whether there was any news
bool LeaseRelease::acquire_shown(std::span<const fabric::Rank> ranks, std::uint32_t site) {
  const SiteBits at = come_to(site);
  // Locks and faults ask one rank, often for nothing new: no memory for that.
  SignatureExchange::View one;
  std::vector<SignatureExchange::View> many(ranks.size() == 1 ? 0 : ranks.size());
  const std::span<SignatureExchange::View> views = ranks.size() == 1 ? std::span(&one, 1) : std::span(many);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    views[i].rank = ranks[i];
    views[i].version = acquired(ranks[i]);
  }
  const bool is_news = exchange_.look(views);
  acquire_views(views, is_news, at);
  return is_news;
}

/// \param is_news whether any of them shows what has not been acquired
void LeaseRelease::acquire_views(std::span<SignatureExchange::View> views, bool is_news, SiteBits at) {
  if (!is_news) {
    Counters::add(counters_.acquires);
    return acquire_unshown([] {});
  }
  if (views.size() == 1) {
    acquire_notices(views.front().signature, at);
  } else {
    std::size_t notices = 0;
    for (const SignatureExchange::View& view : views) notices += view.signature.notices().size();
    Signature all(notices);
    for (const SignatureExchange::View& view : views) {
      await_barriers(view.signature.barriers());
      all.merge(view.signature);
    }
    acquire_notices(all, at);
  }
  for (const SignatureExchange::View& view : views) {
    std::atomic<std::uint64_t>& acquired = acquired_[view.rank];
    std::uint64_t before = view.version;
    const auto is_newer = [&] { return static_cast<std::int64_t>(view.now - before) > 0; };  // versions wrap
    while (is_newer() && !acquired.compare_exchange_weak(before, view.now, std::memory_order_acq_rel)) {
    }
  }
}

/// \returns the place's bit
SiteBits LeaseRelease::come_to(std::uint32_t site) noexcept {
  const SiteBits at = sites_.bit_of(site);
  if (site == no_place) return at;
  place_.store(Sites::place_of(at), std::memory_order_relaxed);
  unreleased_site_.store(site == no_site ? 0 : at, std::memory_order_relaxed);
  return at;
}

/// What no notice tells of. \param meanwhile what else there is to acquire
void LeaseRelease::acquire_unshown(FunctionRef<void()> meanwhile) {
  if (listener_ == nullptr) return meanwhile();
  listener_->after_acquire(meanwhile);
}

void LeaseRelease::acquire_from_all(const Signature& signature, std::uint32_t site, bool is_last) {
  const SignalSection section;
  const events::Span span(events::Kind::acquire);
  Counters::add(counters_.acquires);
  const SiteBits at = come_to(site);
  if (signature.empty()) {  // and so it is for all ranks
    acquire_unshown([] {});
    open_expected(at);
    if (is_last && std::exchange(pinned_are_due_, false)) refresh_pinned();
    return;
  }
  acquire_unshown([&] {
    // Before a block is told of it: another thread takes what a block was told of for known here, and need
    // not carry it along. Who acquires of that one waits for its own rank to have passed this barrier.
    known_.rely_on(signature, barriers_.load(std::memory_order_relaxed) + 1);
    acquire_blocks(signature, at);
  });
  passed_barrier();
  open_expected(at);
  pinned_are_due_ = !is_last;
  if (is_last) refresh_pinned();
}

void LeaseRelease::told_all(const Signature& signature) {
  const SignalSection section;
  if (signature.empty()) return;
  known_.rely_on(signature, barriers_.load(std::memory_order_relaxed) + 1);
  // What others write before they hear it may be older than the minimum, and they then take it for told. And
  // what another thread of this rank has learnt of it, that one may not have closed yet.
  acquire_blocks(signature, no_site_);
  passed_barrier();
  refresh_pinned();
}

void LeaseRelease::passed_barrier() noexcept {
  barriers_.fetch_add(1, std::memory_order_release);
  fabric_.notify();
}

void LeaseRelease::acquire_from_some(const Signature& signature, std::uint32_t site) {
  const SignalSection section;
  const events::Span span(events::Kind::acquire);
  const SiteBits at = come_to(site);
  const bool is_news = !signature.empty();
  if (is_news) {
    acquire_notices(signature, at);
  } else {
    Counters::add(counters_.acquires);
    acquire_unshown([] {});
  }
  open_expected(at);
  if (is_news) refresh_pinned();
}

void LeaseRelease::open_expected(SiteBits at) {
  for (const auto& segment : segments_) segment->open_expected(at);
}

/// A thread of this rank is about to leave those whose notices a signature was not given.
void LeaseRelease::await_barriers(std::uint64_t barriers) {
  const auto has_had = [&] {
    return barriers_.load(std::memory_order_acquire) >= barriers || fabric_.lost_ranks() != 0;
  };
  const auto can_leave = [&] { return barrier_exit_ != nullptr && barrier_exit_->can_leave(); };
  while (!has_had()) {
    if (can_leave()) {
      barrier_exit_->leave();
      continue;
    }
    awaiting_barrier_.fetch_add(1, std::memory_order_seq_cst);
    const fabric::Status waited = fabric_.wait_until([&] { return has_had() || can_leave(); });
    awaiting_barrier_.fetch_sub(1, std::memory_order_relaxed);
    if (waited != fabric::Status::ok) break;
  }
  if (barriers_.load(std::memory_order_acquire) < barriers) throw_lost(fabric_);
}

/// All but the pinned blocks, for which it may have to wait. \param is_posted this rank was told it by posts
/// \returns whether it was news
bool LeaseRelease::acquire_notices(const Signature& signature, SiteBits at, bool is_posted) {
  await_barriers(signature.barriers());
  // Most of what a rank tells one by one it has told before, and adding it would be a sort.
  std::vector<WriteNotice> news;
  std::copy_if(signature.notices().begin(), signature.notices().end(), std::back_inserter(news),
               [this](const WriteNotice& notice) { return !is_known(notice); });
  known_.learn(news, signature.min_write_ts(), is_posted);
  Counters::add(counters_.acquires);
  const bool raises = signature.min_write_ts() > min_write_ts_.load();
  acquire_unshown([&] { acquire_blocks(signature, at); });
  return raises || !news.empty();
}

/// This rank has learnt it, though perhaps not yet closed its copy.
bool LeaseRelease::is_known(const WriteNotice& notice) noexcept {
  CRATON_ASSERT(notice.segment < segments_.size());
  return segments_[notice.segment].knows(notice);
}

void LeaseRelease::acquire_blocks(const Signature& signature, SiteBits at) {
  const Timestamp min_write_ts = signature.min_write_ts();
  Timestamp before = min_write_ts_.load();
  while (before < min_write_ts && !min_write_ts_.compare_exchange_weak(before, min_write_ts)) {
  }
  std::vector<LeaseSegment::Stale> stale(segments_.size());
  for (const WriteNotice& notice : signature.notices()) {
    CRATON_ASSERT(notice.segment < segments_.size());
    CRATON_ASSERT(notice.block < segments_[notice.segment].blocks());
    segments_[notice.segment].note(notice, at, stale[notice.segment]);
  }
  // Another thread may add a segment meanwhile, of which this signature tells nothing.
  for (SegmentId id = 0; id < stale.size(); ++id) {
    LeaseSegment& segment = segments_[id];
    segment.expire(min_write_ts, at, stale[id]);
    segment.refresh_stale(stale[id], at);
    segment.close_stale(stale[id]);
  }
}

void LeaseRelease::refresh_pinned() {
  for (const auto& segment : segments_) segment->refresh_pinned();
}

Exclusive& LeaseRelease::exclusive() noexcept {
  CRATON_ASSERT(exclusive_ != nullptr);  // a segment with strong blocks is refused without it
  return *exclusive_;
}

// ---- Causality

/// Of all ranks, as the bytes of one that merged have writes of others in them of which it knows nothing.
/// What is under way is waited for: some of its blocks can be fetched before the last is published and told
/// of. Without any lock, since a release elsewhere may wait for one of this rank's blocks. Opens what came
/// before the look at those numbers, and so is the effect of nothing else.
void LeaseRelease::learn_from_all() {
  constexpr TimeNs first_pause_ns = 1'000;
  constexpr unsigned doublings = 6;
  std::vector<std::vector<LeaseSegment::Arrived>> arrived;
  for (const auto& segment : segments_) arrived.push_back(segment->take_arrived());
  std::vector<std::uint64_t> wanted(fabric_.size());
  exchange_.get_turns(wanted);
  std::vector<std::uint64_t> now = wanted;
  std::vector<fabric::Rank> changed;
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank) {
    if (rank == fabric_.rank() || learnt_turns_[rank].load(std::memory_order_acquire) >= wanted[rank])
      continue;
    changed.push_back(rank);
    wanted[rank] += wanted[rank] % 2;
  }
  const auto has_ended = [&](fabric::Rank rank) { return now[rank] >= wanted[rank]; };
  for (unsigned round = 0; !std::all_of(changed.begin(), changed.end(), has_ended); ++round) {
    const auto lost = [this] { return fabric_.lost_ranks() != 0; };
    const TimeNs pause_ns = first_pause_ns << std::min(round, doublings);
    if (fabric_.wait_until(lost, fabric_.clock().now_ns() + pause_ns) == fabric::Status::ok)
      throw_lost(fabric_);
    exchange_.get_turns(now);
  }
  if (!changed.empty()) acquire(changed, no_place);
  for (const fabric::Rank rank : changed) {
    Counters::add(counters_.causal_acquires);
    std::atomic<std::uint64_t>& learnt = learnt_turns_[rank];
    std::uint64_t before = learnt.load(std::memory_order_relaxed);
    while (before < wanted[rank] && !learnt.compare_exchange_weak(before, wanted[rank])) {
    }
  }
  for (SegmentId id = 0; id < arrived.size(); ++id) segments_[id].open_arrived(arrived[id]);
}

void LeaseRelease::begin_turn() noexcept {
  const StateGuard guard(turn_lock_);
  if (turn_ % 2 == 0) exchange_.set_turn(++turn_);
}

/// It goes on where bytes can be fetched since its cut of which the next release has to tell.
void LeaseRelease::end_turn() noexcept {
  const StateGuard guard(turn_lock_);
  if (!uncut_.load()) exchange_.set_turn(++turn_);
}

/// A block that was sole has been closed to writes, and is about to be fetched: what was written before, and
/// is not published, may be the cause of what is in it. For who fetches, this rank's release is under way
/// until one has taken its cut from now on.
void LeaseRelease::show_uncut() noexcept {
  {
    const StateGuard guard(turn_lock_);
    uncut_.store(true);
    if (turn_ % 2 == 0) exchange_.set_turn(++turn_);
  }
  releaser_->want_release();
}

/// A write that was made while a release closes blocks could be published without one that was made before
/// it; and one that is made after they are closed must not be. With no lock that a release needs.
void LeaseRelease::wait_to_write(const Block& block) {
  ++waiting_to_write_;
  const ScopeExit passed([this]() noexcept { --waiting_to_write_; });
  bool may_write = false;
  const auto ended = [&] {
    may_write = !is_frozen() && !block.in_cut.load();
    return may_write || fabric_.lost_ranks() != 0;
  };
  if (fabric_.wait_until(ended) != fabric::Status::ok || !may_write) throw_lost(fabric_);
}

/// With the block's `busy`: the release has looked at it.
void LeaseRelease::leave_cut(Block& block) noexcept {
  if (!block.in_cut.load(std::memory_order_relaxed)) return;
  block.in_cut.store(false);
  if (waiting_to_write_.load() != 0) fabric_.notify();
}

// ---- Updates

void LeaseRelease::update(SegmentId segment, std::uint64_t offset, std::size_t bytes,
                          FunctionRef<void(std::byte* word)> modify) {
  const SignalSection section;
  while (exclusive_ == nullptr || !exclusive_->update(segment, offset, bytes, modify)) {
    if (update_weak(segment, offset, bytes, modify)) return;
  }
}

/// \returns false if the block has become strong. One that was only asked to, and did not since a rank has
/// pinned it, is tried again at once: ranks that all ask would be in one another's way for ever.
bool LeaseRelease::update_weak(SegmentId segment, std::uint64_t offset, std::size_t bytes,
                               FunctionRef<void(std::byte* word)> modify) {
  release();
  while (!try_update_weak(segment, offset, bytes, modify)) {
    if (!exclusive().is_weak_again(segment, offset)) return false;
  }
  refresh_pinned();
  return true;
}

/// \returns false if the block is strong, or may become so
bool LeaseRelease::try_update_weak(SegmentId segment, std::uint64_t offset, std::size_t bytes,
                                   FunctionRef<void(std::byte* word)> modify) {
  LeaseSegment& in = segments_[segment];
  const std::uint64_t index = offset / in.block_bytes_;
  std::vector<WriteNotice> notices;
  const auto locked = [&](fabric::Rank updater) {
    // What the last one to update it knew, and shown to the next one before it can have it.
    acquire_shown(std::span(&updater, 1), ~static_cast<std::uint32_t>(index));
    known_.show();
  };
  std::unique_lock fence(release_fence_, std::defer_lock);
  if (causal_.load()) fence.lock();  // one turn at a time
  const Turn turn(*this, fence.owns_lock());
  if (!in.update(index, offset % in.block_bytes_, bytes, modify, locked, notices)) return false;
  known_.learn(notices, 0);
  if (turn.is_under_way()) known_.show();
  return true;
}

void LeaseRelease::report(const Race& race) {
  Counters::add(segments_[race.segment].counters_.races);
  if (race_handler_ != nullptr) race_handler_(race_context_, race);
}

}  // namespace craton::coherence
