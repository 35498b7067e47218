#include "space/heartbeat.hpp"

#include <algorithm>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/processors.hpp"
#include "base/signals_blocked.hpp"

namespace craton::space {

namespace {
/// A beat of a twentieth of the time.
constexpr TimeNs rest_beats = 19;
/// Nor is anything published for a rank that has done so itself before so many times as long as that takes,
/// as it publishes the same again when it comes to its barrier. A program that spins waits no longer than
/// this.
constexpr TimeNs quiet_releases = 49;
constexpr TimeNs longest_quiet_ns = 500'000'000;
}  // namespace

Heartbeat::Heartbeat(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, SignatureBoard& board,
                     TimeNs interval_ns)
    : fabric_(fabric),
      protocol_(protocol),
      board_(board),
      interval_ns_(interval_ns),
      acquired_seen_(fabric.size(), 0) {
  if (interval_ns_ == 0 || fabric_.size() == 1) return;
  protocol_.set_releaser(*this);
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([this]() noexcept { run(); });
  } catch (const std::system_error& failure) {
    throw Error::from_errno("cannot start the thread of the heartbeat", failure.code().value(),
                            "ulimit -u, ulimit -d");
  }
}

void Heartbeat::set_also(Also also, void* context) noexcept {
  const std::lock_guard lock(also_lock_);
  also_ = also;
  also_context_ = context;
}

void Heartbeat::stop() noexcept {
  if (!thread_.joinable()) return;
  calls_.fetch_or(stopped, std::memory_order_release);
  fabric_.wake_sleepers(calls_);
  thread_.join();
}

void Heartbeat::want_release() noexcept {
  if ((calls_.fetch_or(wanted) & wanted) == 0) fabric_.wake_sleepers(calls_);
}

/// Releases meanwhile, where that is wanted. \returns false if it is time to stop
bool Heartbeat::sleep_until(TimeNs time_ns) {
  while (fabric_.lost_ranks() == 0) {
    const std::uint32_t calls = calls_.load(std::memory_order_acquire);
    if ((calls & stopped) != 0) return false;
    if ((calls & wanted) != 0) {
      calls_.fetch_and(~wanted);  // before it looks: who wants one later calls again
      if (protocol_.is_release_wanted()) publish();
    } else if (fabric_.clock().now_ns() >= time_ns) {
      return true;
    } else {
      fabric_.sleep_while(calls_, 0, time_ns);
    }
  }
  return false;
}

void Heartbeat::run() {
  use_all_processors();
  try {
    for (TimeNs next_ns = fabric_.clock().now_ns() + interval_ns_; sleep_until(next_ns);) {
      const TimeNs start_ns = fabric_.clock().now_ns();
      beat();
      {
        const std::lock_guard lock(also_lock_);
        if (also_ != nullptr) also_(also_context_);
      }
      const TimeNs end_ns = fabric_.clock().now_ns();
      next_ns = end_ns + std::max(interval_ns_, rest_beats * (end_ns - start_ns));
    }
  } catch (const Error& error) {
    // The program's own threads will say so. Of anything else nobody would hear.
    if (error.code() != ErrorCode::peer_lost) throw;
  }
}

void Heartbeat::publish() {
  const TimeNs start_ns = fabric_.clock().now_ns();
  coherence::Counters::add(protocol_.counters().heartbeats);
  protocol_.release(false);
  ++releases_seen_;
  released_ns_ = fabric_.clock().now_ns();
  release_cost_ns_ = released_ns_ - start_ns;
}

/// What the rank's threads have done since the last beat is left out. Only the half that they have done: who
/// uses a lock of its own publishes and acquires nothing, who only faults on strong blocks acquires and
/// publishes nothing.
void Heartbeat::beat() {
  coherence::Counters& counters = protocol_.counters();
  const std::uint64_t releases = counters.releases.load(std::memory_order_relaxed);
  const TimeNs now_ns = fabric_.clock().now_ns();
  if (releases != std::exchange(releases_seen_, releases)) {
    released_ns_ = now_ns;
    release_cost_ns_ -= release_cost_ns_ / 16;  // another phase of the program may have less to publish
  } else if (now_ns - released_ns_ >= std::min(quiet_releases * release_cost_ns_, longest_quiet_ns)) {
    publish();
  }
  const std::uint64_t barriers = protocol_.barriers();
  const std::uint64_t posts = protocol_.posts();
  const bool has_posted = posts != std::exchange(posts_seen_, posts);
  if (barriers != std::exchange(barriers_seen_, barriers) || has_posted) return;
  std::vector<SignatureBoard::View> unheard;
  for (const fabric::Rank rank : protocol_.others()) {
    const std::uint64_t acquired = protocol_.acquired(rank);
    if (acquired == std::exchange(acquired_seen_[rank], acquired))
      unheard.push_back({.rank = rank, .version = acquired});
  }
  if (unheard.empty()) return;
  board_.get_heads(unheard);
  std::vector<fabric::Rank> news;
  for (const SignatureBoard::View& view : unheard)
    if (view.now != view.version) news.push_back(view.rank);
  if (news.empty()) return;
  protocol_.acquire(news, coherence::no_place);
  for (const fabric::Rank rank : news) acquired_seen_[rank] = protocol_.acquired(rank);
}

}  // namespace craton::space
