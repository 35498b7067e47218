#include "job/launcher_state.hpp"

#include <unistd.h>

namespace craton::job {

namespace {

/// How long a rank may take to answer before it is asked again: it leaves an answer out that it cannot send
/// at once.
constexpr TimeNs ask_again_ns = 1'000'000'000;

}  // namespace

/// Asks each rank that can answer, and has answered before: of one that does not, no more than one question
/// a second is on its way.
void Launcher::look(bool wanted) {
  const TimeNs now_ns = clock_.now_ns();
  for (Rank rank = 0; rank < size_; ++rank) {
    RankRecord& record = ranks_[rank];
    NodeLink& node = node_of(rank);
    if (!record.ready || record.finalized || record.exited || !node.channel) continue;
    if (wanted && !record.is_seen && now_ns - record.asked_ns < ask_again_ns) continue;
    if (wanted) {
      record.is_seen = false;
      record.asked_ns = now_ns;
    }
    node.channel->send(FrameKind::look, RankNumber{rank, wanted ? 1U : 0U}.encode());
  }
}

JobLook Launcher::told() const {
  JobLook told{.pid = static_cast<std::uint32_t>(::getpid()), .command = request_.command, .ranks = {}};
  for (const RankRecord& rank : ranks_) {
    JobLook::Row& row = told.ranks.emplace_back(rank.seen);
    row.host = nodes_[rank.node].host;
    row.pid = rank.pid;
    row.phase = rank.exited || rank.finalized ? RankPhase::ended
                : rank.ready                  ? RankPhase::running
                                              : RankPhase::starting;
  }
  return told;
}

}  // namespace craton::job
