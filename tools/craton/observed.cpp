#include "observed.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/line_writer.hpp"
#include "job/placement.hpp"
#include "observe/record.hpp"
#include "observe/regions.hpp"
#include "observe/sharing.hpp"
#include "observe/symbols.hpp"
#include "observe/trace.hpp"

namespace craton::tools {

namespace {

[[noreturn]] void cannot_write(const std::string& path, int error) {
  throw Error(ErrorCode::invalid_argument, {.asked = "cannot write " + path,
                                            .happened = std::strerror(error),
                                            .limit = {},
                                            .remedy = "name another file"});
}

/// Now, and not when the program has run for an hour. Empty files stay where it then fails.
void check_writable(const std::string& path) {
  if (path.empty()) return;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!file) cannot_write(path, errno);
}

/// Where it fails the job has run, and its exit code stays.
void write_file(const std::string& path, const std::string& text) {
  const UniqueFd file(path.empty() ? ::dup(STDERR_FILENO)
                                   : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = file ? ::write(file.get(), text.data() + at, text.size() - at) : -1;
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      write_fully(STDERR_FILENO,
                  fmt::format("craton run: cannot write {}: {}\n", path, std::strerror(errno)));
      return;
    }
    at += static_cast<std::size_t>(written);
  }
}

std::string all_of(int file) {
  std::string text;
  std::array<char, 16 * 1024> buffer{};
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(file, buffer.data(), buffer.size(), at);
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

bool is_html(const std::string& path) {
  return path.ends_with(".html");
}

}  // namespace

Observation::Observation(const Options& options, job::LaunchRequest& launch) : options_(options) {
  const bool has_statistics = options.text(Option::stats) != "none";
  if (has_statistics || options.text(Option::races) != "ignore") what_ |= events::totals;
  if (!options.text(Option::trace).empty()) what_ |= events::totals | events::list;
  const bool reports = options.text(Option::report) == "sharing";
  if (reports) what_ |= events::totals | events::list | events::sharing;
  if (!reports && !options.text(Option::report_file).empty()) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot write a report to " + options.text(Option::report_file),
                 .happened = "none is asked for",
                 .limit = {},
                 .remedy = "say --report=sharing as well"});
  }
  if (!has_statistics && !options.text(Option::stats_file).empty()) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot write statistics to " + options.text(Option::stats_file),
                 .happened = "none are asked for",
                 .limit = {},
                 .remedy = "say --stats=text or --stats=json as well"});
  }
  if (what_ == 0) return;
  if (!job::is_this_host(launch.placements.front().host)) {
    if ((what_ & events::list) == 0) {
      what_ = 0;  // rank 0 prints them, without regions
      return;
    }
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot trace or report a job that begins on another host",
                 .happened = "rank 0 hands over what the ranks recorded",
                 .limit = {},
                 .remedy = "name this host first in --host"});
  }
  check_writable(options.text(Option::stats_file));
  check_writable(options.text(Option::trace));
  check_writable(options.text(Option::report_file));
  memory_.reset(::memfd_create("craton observed", MFD_CLOEXEC));
  if (!memory_) throw Error::from_errno("cannot make a file in memory", errno);
  const observe::Request request{
      .what = what_,
      .events_a_thread = static_cast<std::size_t>(options.integer(Option::observed_events)),
      .path = fmt::format("/proc/{}/fd/{}", ::getpid(), memory_.get())};
  launch.environment.emplace_back(observe::request_variable, request.text());
}

void Observation::tell_statistics(const std::string& counters, const std::string& regions) {
  std::string text = counters;
  if (options_.text(Option::stats) == "json") {
    const std::size_t end = text.rfind('}');
    text.insert(end == std::string::npos ? 0 : end, ",\n \"regions\": " + regions);
  } else {
    text += regions;
  }
  write_file(options_.text(Option::stats_file), text);
}

void Observation::tell() {
  if (what_ == 0) return;
  const std::string pieces = all_of(memory_.get());
  if (pieces.empty()) {
    if ((what_ & events::list) != 0) {
      write_fully(
          STDERR_FILENO,
          "craton run: there is nothing to trace or report: the program uses no memory of other ranks, or "
          "did not end in order\n");
    }
    return;
  }
  const observe::Record record = observe::read_pieces(pieces);
  observe::Symbols symbols(record.ranks.empty() ? std::vector<observe::Module>{} : record.ranks[0].modules);
  observe::tell_races(record, symbols, [](const std::string& line) { write_fully(STDERR_FILENO, line); });
  if (options_.text(Option::stats) != "none") {
    const std::vector<observe::RegionRow> rows = observe::region_rows(record, symbols);
    tell_statistics(record.statistics, options_.text(Option::stats) == "json"
                                           ? observe::regions_as_json(rows)
                                           : observe::regions_as_text(rows));
  }
  if (const std::string& path = options_.text(Option::trace); !path.empty())
    write_file(path, observe::trace_as_json(record, symbols));
  if ((what_ & events::sharing) == 0) return;
  const observe::SharingReport report = observe::sharing_report(record, symbols);
  const std::string& path = options_.text(Option::report_file);
  write_file(path, is_html(path) ? observe::report_as_html(report) : observe::report_as_text(report));
}

}  // namespace craton::tools
