// `craton top`: what the ranks of a running job are doing, again and again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "commands.hpp"
#include "job/watch.hpp"

namespace craton::tools {

namespace {

using job::JobLook;
using job::RankPhase;
using job::WatchedJob;

/// What a rank did between two looks.
struct Rates {
  double faults;  ///< these a second
  double bytes_in;
  double bytes_out;
  double messages;
  double compute;  ///< these of the time of its threads
  double wait;
  double fault;
  double fence;
};

/// None where the rank has not answered in between.
std::optional<Rates> rates_of(const JobLook::Row& before, const JobLook::Row& after) {
  if (before.looks == 0 || after.looks <= before.looks || after.at_ns <= before.at_ns) return {};
  const double seconds = static_cast<double>(after.at_ns - before.at_ns) / 1e9;
  const auto grown = [&](std::uint64_t JobLook::Row::*value) {
    return static_cast<double>(after.*value - before.*value);
  };
  const double seen = grown(&JobLook::Row::computing) + grown(&JobLook::Row::waiting) +
                      grown(&JobLook::Row::in_faults) + grown(&JobLook::Row::in_fences);
  const auto share = [&](std::uint64_t JobLook::Row::*value) { return seen > 0 ? grown(value) / seen : 0; };
  return Rates{.faults = grown(&JobLook::Row::faults) / seconds,
               .bytes_in = grown(&JobLook::Row::bytes_in) / seconds,
               .bytes_out = grown(&JobLook::Row::bytes_out) / seconds,
               .messages = grown(&JobLook::Row::messages) / seconds,
               .compute = share(&JobLook::Row::computing),
               .wait = share(&JobLook::Row::waiting),
               .fault = share(&JobLook::Row::in_faults),
               .fence = share(&JobLook::Row::in_fences)};
}

const char* state_of(const JobLook::Row& row, bool answers) {
  if (row.phase == RankPhase::starting) return "has not joined";
  if (row.phase == RankPhase::ended) return "has ended";
  return answers ? "running" : "does not answer";
}

std::string as_text(const JobLook& before, const JobLook& after) {
  std::size_t width = 4;
  for (const JobLook::Row& row : after.ranks) width = std::max(width, row.host.size());
  std::string text = fmt::format(
      "job {}: {}, {} ranks\n{:>5} {:<{}} {:>7} {:>9} {:>9} {:>9} {:>10} {:>7} {:>5} {:>5} {:>5}\n",
      after.pid, fmt::join(after.command, " "), after.ranks.size(), "rank", "host", width, "threads",
      "faults/s", "MB/s in", "MB/s out", "messages/s", "compute", "wait", "fault", "fence");
  for (std::size_t rank = 0; rank < after.ranks.size(); ++rank) {
    const JobLook::Row& row = after.ranks[rank];
    const std::optional<Rates> rates = rates_of(before.ranks[rank], row);
    text += fmt::format("{:>5} {:<{}} ", rank, row.host, width);
    if (!rates) {
      text += fmt::format("{:>7}\n", state_of(row, false));
      continue;
    }
    text += fmt::format("{:>7} {:>9.0f} {:>9.1f} {:>9.1f} {:>10.0f}", row.threads, rates->faults,
                        rates->bytes_in / 1e6, rates->bytes_out / 1e6, rates->messages);
    if (row.threads == 0) {
      text += fmt::format(" {:>7} {:>5} {:>5} {:>5}\n", "-", "-", "-", "-");
    } else {
      text += fmt::format(" {:>5.0f} % {:>3.0f} % {:>3.0f} % {:>3.0f} %\n", rates->compute * 100,
                          rates->wait * 100, rates->fault * 100, rates->fence * 100);
    }
  }
  return text;
}

/// One line.
std::string as_json(const JobLook& before, const JobLook& after) {
  using Value = nlohmann::ordered_json;
  Value ranks = Value::array();
  for (std::size_t rank = 0; rank < after.ranks.size(); ++rank) {
    const JobLook::Row& row = after.ranks[rank];
    const std::optional<Rates> rates = rates_of(before.ranks[rank], row);
    Value told = {
        {"rank", rank}, {"host", row.host}, {"pid", row.pid}, {"state", state_of(row, rates.has_value())}};
    if (rates) {
      told.update({{"threads", row.threads},
                   {"faults_per_s", rates->faults},
                   {"bytes_in_per_s", rates->bytes_in},
                   {"bytes_out_per_s", rates->bytes_out},
                   {"messages_per_s", rates->messages}});
      if (row.threads != 0)
        told.update({{"compute", rates->compute},
                     {"wait", rates->wait},
                     {"fault", rates->fault},
                     {"fence", rates->fence}});
    }
    ranks.push_back(std::move(told));
  }
  const Value all = {{"job", after.pid}, {"command", after.command}, {"ranks", std::move(ranks)}};
  // Arguments of programs need not be UTF-8.
  return all.dump(-1, ' ', false, Value::error_handler_t::replace) + "\n";
}

std::string program_of(const JobLook& job) {
  return std::filesystem::path(job.command.front()).filename().string();
}

/// The job that was meant: its pid, or its program's name where no other job has it.
WatchedJob find_job(const std::string& wanted) {
  pid_t pid = 0;
  const char* const end = wanted.data() + wanted.size();
  const std::from_chars_result number = std::from_chars(wanted.data(), end, pid);
  if (number.ec == std::errc{} && number.ptr == end) return WatchedJob(pid);
  std::vector<pid_t> found;
  std::string names;
  for (const pid_t each : WatchedJob::running()) {
    try {
      const std::string name = program_of(WatchedJob(each).look());
      if (!wanted.empty() && name != wanted) continue;
      found.push_back(each);
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", each, name);
    } catch (const Error& error) {  // it has ended meanwhile, or is stopped
      if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::peer_lost &&
          error.code() != ErrorCode::timed_out)
        throw;
    }
  }
  if (found.size() == 1) return WatchedJob(found.front());
  const std::string which = wanted.empty() ? "" : " of the name " + wanted;
  if (found.empty())
    throw Error(ErrorCode::not_found,
                {.asked = "no job to watch",
                 .happened = "this user's craton run has started none" + which + " that runs on this host",
                 .limit = {},
                 .remedy = {}});
  throw Error(ErrorCode::invalid_argument, {.asked = "cannot choose among several jobs" + which,
                                            .happened = "there are " + names,
                                            .limit = {},
                                            .remedy = "say which: --job " + std::to_string(found.front())});
}

/// What was seen when each running rank has answered once, so that the first table is not empty.
JobLook first_look(WatchedJob& job) {
  constexpr TimeNs pause_ns = 20'000'000;
  JobLook look = job.look();
  for (int pauses = 0; pauses < 50; ++pauses) {
    const bool all = std::all_of(look.ranks.begin(), look.ranks.end(), [](const JobLook::Row& row) {
      return row.phase != RankPhase::running || row.looks != 0;
    });
    if (all || !job.runs_for(pause_ns)) break;
    look = job.look();
  }
  return look;
}

}  // namespace

int top_main(const TopRequest& request) {
  WatchedJob job = find_job(request.job);
  const bool in_place = !request.json && !request.once && ::isatty(STDOUT_FILENO) == 1;
  bool has_told = false;
  try {
    JobLook before = first_look(job);
    while (job.runs_for(request.interval_ns)) {
      JobLook after = job.look();
      if (in_place) fmt::print("\033[H\033[2J");  // whatever lines the terminal has broken
      fmt::print("{}", request.json ? as_json(before, after) : as_text(before, after));
      // Whoever read this has gone; main() says what else can go wrong.
      if (std::fflush(stdout) != 0) return 1;
      has_told = true;
      if (request.once) return 0;
      before = std::move(after);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost) throw;
  }
  fmt::print(stderr, "craton: the job has ended\n");
  return has_told ? 0 : 1;
}

}  // namespace craton::tools
