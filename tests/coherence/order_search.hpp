/// \file
/// The oracle of sequential consistency (Lamport 1979): is there one order of all accesses, in agreement with
/// the order in each thread, in which every read returns what the write before it wrote?
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace craton::coherence::test {

struct Access {
  std::size_t word;
  bool reads;
  bool writes;
  std::uint64_t found = 0;    ///< by the read
  std::uint64_t written = 0;  ///< by the write: no other write of the word wrote the same, and it is not 0
  std::uint64_t moment = 0;   ///< when it is thought to have happened: decides only what is tried first
};
using History = std::vector<std::vector<Access>>;  ///< by thread

/// Searches depth first. What has been shown to lead nowhere (how far each thread is, and what is in memory)
/// is not tried again. A read that is right as things are is taken at once, since nothing depends on it.
class OrderSearch {
 public:
  OrderSearch(const History& history, std::size_t words)
      : history_(history), at_(history.size(), 0), memory_(words, 0) {}

  bool legal_order_exists() {
    const std::vector<std::size_t> came_from = at_;
    take_reads();
    if (at_end()) return true;
    std::vector<std::uint64_t> state(at_.begin(), at_.end());
    state.insert(state.end(), memory_.begin(), memory_.end());
    if (!hopeless_.contains(state)) {
      for (const std::size_t thread : writers_in_order()) {
        const Access& access = history_[thread][at_[thread]];
        const std::uint64_t before = memory_[access.word];
        memory_[access.word] = access.written;
        ++at_[thread];
        if (legal_order_exists()) return true;
        --at_[thread];
        memory_[access.word] = before;
      }
      hopeless_.insert(state);
    }
    at_ = came_from;
    return false;
  }

 private:
  bool at_end() const noexcept {
    for (std::size_t thread = 0; thread < history_.size(); ++thread) {
      if (at_[thread] < history_[thread].size()) return false;
    }
    return true;
  }
  void take_reads() {
    for (std::size_t thread = 0; thread < history_.size(); ++thread) {
      while (at_[thread] < history_[thread].size()) {
        const Access& access = history_[thread][at_[thread]];
        if (access.writes || memory_[access.word] != access.found) break;
        ++at_[thread];
      }
    }
  }
  /// Threads whose next access is a write that may come now, the earliest first.
  std::vector<std::size_t> writers_in_order() const {
    std::vector<std::size_t> threads;
    for (std::size_t thread = 0; thread < history_.size(); ++thread) {
      if (at_[thread] == history_[thread].size()) continue;
      const Access& access = history_[thread][at_[thread]];
      if (!access.writes || (access.reads && memory_[access.word] != access.found)) continue;
      auto place = threads.begin();
      while (place != threads.end() && history_[*place][at_[*place]].moment < access.moment) ++place;
      threads.insert(place, thread);
    }
    return threads;
  }

  const History& history_;
  std::vector<std::size_t> at_;  ///< by thread: how many of its accesses are in the order
  std::vector<std::uint64_t> memory_;
  std::set<std::vector<std::uint64_t>> hopeless_;
};

}  // namespace craton::coherence::test
