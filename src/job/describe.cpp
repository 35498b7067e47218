#include "job/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstring>
#include <span>
#include <utility>

#include "base/runs.hpp"

namespace craton::job {

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

std::string describe_exit(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  const char* description = ::sigdescr_np(number);
  if (description == nullptr) return fmt::format("died: {}", signal_name(number));
  std::string text = description;
  text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  return fmt::format("died: {} ({}){}", text, signal_name(number),
                     WCOREDUMP(wait_status) ? ", core dumped" : "");
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string list_ranks(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const char* before = "";
  for_runs(std::span(ranks), [&](auto run) {
    text += std::exchange(before, ", ");
    text += run.size() >= 3 ? fmt::format("{}-{}", run.front(), run.back())
                            : fmt::format("{}", fmt::join(run, ", "));
  });
  return text;
}

std::string describe_duration(TimeNs duration_ns) {
  if (duration_ns < 1000) return fmt::format("{} ns", duration_ns);
  const double ms = static_cast<double>(duration_ns) / 1e6;
  return ms < 1000 ? fmt::format("{:.3g} ms", ms) : fmt::format("{:.4g} s", ms / 1000);
}

namespace {

/// The state of a rank in words, the same for all ranks in the same state so that they can be grouped.
std::string describe_rank(const StalledRank& rank, bool plural) {
  const char* is = plural ? "are" : "is";
  const char* has = plural ? "have" : "has";
  if (!rank.running) return fmt::format("{} ended", has);
  if (!rank.joined) return fmt::format("{} not called craton_init", has);
  if (rank.finalized) return fmt::format("{} running after craton_finalize", is);
  if (!rank.ready) return fmt::format("{} in craton_init", is);
  if (!rank.answer)
    return plural ? "do not answer (stopped, or too busy)" : "does not answer (stopped, or too busy)";
  switch (rank.answer->activity) {
    case Activity::computing:
      if (rank.answer->barrier == 0) return fmt::format("{} computing", is);
      return fmt::format("{} computing after barrier {}", is, rank.answer->barrier);
    case Activity::in_barrier:
      return fmt::format("{} in barrier {}", plural ? "wait" : "waits", rank.answer->barrier);
    case Activity::in_finalize:
      return fmt::format("{} in craton_finalize", plural ? "wait" : "waits");
  }
  return {};
}

bool waits_in_barrier(const StalledRank& rank) {
  return rank.running && rank.answer && rank.answer->activity == Activity::in_barrier;
}

}  // namespace

std::string describe_stall(TimeNs limit_ns, const std::vector<StalledRank>& ranks) {
  std::string text = fmt::format("time limit of {}: ", describe_duration(limit_ns));
  // The furthest barrier that somebody waits in; whoever is not in it keeps the others waiting.
  std::uint64_t barrier = 0;
  std::uint64_t longest_ns = 0;
  for (const StalledRank& rank : ranks) {
    if (waits_in_barrier(rank)) barrier = std::max(barrier, rank.answer->barrier);
  }
  std::vector<Rank> waiting;
  std::vector<std::pair<const StalledRank*, std::vector<Rank>>>
      groups;  // by state, in order of the first rank
  std::vector<Rank> missing;
  for (const StalledRank& rank : ranks) {
    if (waits_in_barrier(rank) && rank.answer->barrier == barrier) {
      waiting.push_back(rank.rank);
      longest_ns = std::max(longest_ns, rank.answer->since_ns);
      continue;
    }
    missing.push_back(rank.rank);
    const auto same = std::find_if(groups.begin(), groups.end(), [&rank](const auto& group) {
      return describe_rank(*group.first, false) == describe_rank(rank, false);
    });
    if (same != groups.end()) {
      same->second.push_back(rank.rank);
    } else {
      groups.emplace_back(&rank, std::vector<Rank>{rank.rank});
    }
  }
  if (!waiting.empty() && missing.empty()) {
    return text + fmt::format("all ranks wait in barrier {} (for {})", barrier,
                              describe_duration(static_cast<TimeNs>(longest_ns)));
  }
  std::string separator;
  if (!waiting.empty()) {
    text += fmt::format("{} {} not reached barrier {}, where {} {} (for {})", list_ranks(missing),
                        missing.size() == 1 ? "has" : "have", barrier, list_ranks(waiting),
                        waiting.size() == 1 ? "waits" : "wait",
                        describe_duration(static_cast<TimeNs>(longest_ns)));
    separator = "; ";
  }
  for (const auto& [first, members] : groups) {
    text += fmt::format("{}{} {}", separator, list_ranks(members), describe_rank(*first, members.size() > 1));
    separator = "; ";
  }
  return text;
}

}  // namespace craton::job
