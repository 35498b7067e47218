#include "job/launcher_state.hpp"

#include <unistd.h>

namespace craton::job {

/// Asks each rank that can answer, and has answered before: of one that does not, no more than one question
/// is on its way.
void Launcher::look(bool wanted) {
  for (Rank rank = 0; rank < size_; ++rank) {
    RankRecord& record = ranks_[rank];
    NodeLink& node = node_of(rank);
    if (!record.ready || record.finalized || record.exited || !node.channel) continue;
    if (wanted && !record.is_seen) continue;
    if (wanted) record.is_seen = false;
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
