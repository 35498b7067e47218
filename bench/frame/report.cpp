#include "frame/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/error.hpp"

namespace craton::bench {
namespace {

/// One write a line, so that lines of several processes do not mix.
void write_line(const std::string& line) {
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw Error::from_errno("cannot write a result", errno);
  }
}

std::string head(const Turn& turn, std::string_view unit, double value) {
  return fmt::format(R"({{"kernel":"{}","case":"{}","variant":"{}","round":{},"unit":"{}","value":{:.6g})",
                     turn.kernel, turn.what, turn.variant, turn.round, unit, value);
}

}  // namespace

void report_time(const Turn& turn, const Sample& sample) {
  write_line(fmt::format("{},\"p50\":{:.6g},\"p99\":{:.6g},\"operations\":{}}}\n",
                         head(turn, "ns", sample.mean_ns), sample.p50_ns, sample.p99_ns, sample.operations));
}

void report_rate(const Turn& turn, std::string_view unit, double value) {
  write_line(head(turn, unit, value) + "}\n");
}

void report_rival(std::string_view rival, std::string_view version) {
  write_line(fmt::format(R"({{"rival":"{}","version":"{}"}})", rival, version) + "\n");
}

void report_problem(std::string_view rival, std::string_view why) {
  std::string text;
  for (const char c : why) text += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '\'' : c;
  write_line(fmt::format(R"({{"rival":"{}","problem":"{}"}})", rival, text) + "\n");
}

std::string size_text(std::size_t bytes) {
  if (bytes >= 1024 * 1024 && bytes % (1024 * 1024) == 0) return fmt::format("{} MiB", bytes / (1024 * 1024));
  if (bytes >= 1024 && bytes % 1024 == 0) return fmt::format("{} KiB", bytes / 1024);
  return fmt::format("{} B", bytes);
}

}  // namespace craton::bench
