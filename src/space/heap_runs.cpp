#include "space/heap_runs.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"

namespace craton::space {

HeapRuns::HeapRuns(ChunkIndex chunks) : owners_(chunks), givers_(chunks) {
  free_.emplace(0, chunks);
}

std::optional<ChunkIndex> HeapRuns::take(ChunkIndex chunks, fabric::Rank owner) {
  CRATON_ASSERT(chunks > 0);
  if (budget_ != nullptr && !budget_->has_room(chunks)) return {};
  const auto found =
      std::find_if(free_.begin(), free_.end(), [chunks](const auto& run) { return run.second >= chunks; });
  if (found == free_.end()) return {};
  const auto [first, there] = *found;
  free_.erase(found);
  if (there > chunks) free_.emplace(first + chunks, there - chunks);
  for (ChunkIndex chunk = first; chunk < first + chunks; ++chunk) owners_[chunk] = owner + 1;
  if (budget_ != nullptr) budget_->take(chunks);
  return first;
}

void HeapRuns::give(ChunkRun run, fabric::Rank giver) {
  const ChunkIndex end = run.first + run.chunks;
  CRATON_ASSERT(end > run.first);
  CRATON_ASSERT(end <= owners_.size());
  for (ChunkIndex chunk = run.first; chunk < end; ++chunk) {
    CRATON_ASSERT(owners_[chunk] != 0);
    owners_[chunk] = 0;
    givers_[chunk] = giver + 1;
  }
  if (budget_ != nullptr) budget_->give(run.chunks);
  // Free runs on both sides become one with it.
  auto after = free_.lower_bound(run.first);
  if (after != free_.end() && after->first == end) {
    run.chunks += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == run.first) {
      before->second += run.chunks;
      return;
    }
  }
  free_.emplace(run.first, run.chunks);
}

std::vector<fabric::Rank> HeapRuns::givers(ChunkRun run) const {
  std::vector<fabric::Rank> all;
  for (ChunkIndex chunk = run.first; chunk < run.first + run.chunks; ++chunk) {
    const std::optional<fabric::Rank> giver = rank_of(givers_[chunk]);
    if (giver.has_value() && std::find(all.begin(), all.end(), *giver) == all.end()) all.push_back(*giver);
  }
  return all;
}

}  // namespace craton::space
