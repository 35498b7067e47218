/// \file
/// The report of sharing, as text and as a web page.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "observe/sharing.hpp"

namespace craton::observe {

namespace {

constexpr double ms = 1e6;
constexpr std::size_t variables_most = 20;
constexpr std::size_t uses_most = 16;

std::string summary(const SharingReport& report) {
  std::string text = fmt::format(
      "sharing: {} ranks, {:.1f} ms; faults and fences for memory that ranks share took {:.1f} ms of all "
      "their threads, "
      "for memory that one rank alone uses {:.1f} ms",
      report.ranks, static_cast<double>(report.whole_ns) / ms, static_cast<double>(report.cost_ns) / ms,
      static_cast<double>(report.private_ns) / ms);
  if (report.lost != 0) text += fmt::format("; {} events are missing (--observed-events)", report.lost);
  return text;
}

std::string title(const SharedVariable& variable) {
  return fmt::format("{}{}", variable.name, variable.line.empty() ? "" : fmt::format(" ({})", variable.line));
}

std::string cost(const SharedVariable& variable) {
  return fmt::format("{:.1f} ms, {} faults, {} merges, {} block{} of {} bytes",
                     static_cast<double>(variable.cost_ns) / ms, variable.faults, variable.merges,
                     variable.blocks, variable.blocks == 1 ? "" : "s", variable.block_bytes);
}

std::string use_line(const Use& use) {
  return fmt::format("rank {} {} bytes {} to {} {} times: {}", use.rank, use.writes ? "wrote" : "read",
                     use.first_byte, use.last_byte, use.times, use.line);
}

std::string html(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '<') {
      escaped += "&lt;";
    } else if (letter == '&') {
      escaped += "&amp;";
    } else if (letter == '"') {
      escaped += "&quot;";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

std::string heat_map(const SharingReport& report) {
  constexpr int cell_width = 8;
  constexpr int cell_height = 8;
  constexpr int left = 330;
  constexpr int top = 22;
  std::uint64_t most_ns = 1;
  for (const HeatRow& row : report.heat)
    most_ns = std::max(most_ns, *std::max_element(row.cost_ns.begin(), row.cost_ns.end()));
  const int width = left + cell_width * static_cast<int>(time_bins) + 10;
  const int height = top + cell_height * static_cast<int>(report.heat.size()) + 10;
  std::string text = fmt::format(
      "<svg width=\"{}\" height=\"{}\"><text x=\"{}\" y=\"14\">0 ms</text><text x=\"{}\" y=\"14\" "
      "text-anchor=\"end\">{:.0f} ms</text><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
      "fill=\"#f4f4f4\"/>\n",
      width, height, left, width - 10, static_cast<double>(report.whole_ns) / ms, left, top,
      cell_width * static_cast<int>(time_bins), cell_height * static_cast<int>(report.heat.size()));
  const auto out = std::back_inserter(text);
  constexpr std::size_t name_most = 44;
  constexpr int rows_a_name = 2;
  int last_named = -rows_a_name;
  std::string last_name;
  for (int number = 0; const HeatRow& row : report.heat) {
    const int y = top + cell_height * number;
    if (row.name != last_name && number - last_named >= rows_a_name) {
      fmt::format_to(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 6,
                     y + cell_height,
                     html(row.name.size() > name_most ? row.name.substr(0, name_most) + "…" : row.name));
      last_named = number;
      last_name = row.name;
    }
    for (std::size_t bin = 0; bin < time_bins; ++bin) {
      if (row.cost_ns[bin] == 0) continue;
      const double share = static_cast<double>(row.cost_ns[bin]) / static_cast<double>(most_ns);
      fmt::format_to(
          out,
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"rgb({},{},{})\"><title>{:#x} {}: {:.3f} "
          "ms</title></rect>\n",
          left + cell_width * static_cast<int>(bin), y, cell_width, cell_height, 255,
          static_cast<int>(210 * (1 - share)), static_cast<int>(150 * (1 - share)), row.begin, html(row.name),
          static_cast<double>(row.cost_ns[bin]) / ms);
    }
    ++number;
  }
  return text + "</svg>\n";
}

}  // namespace

std::string report_as_text(const SharingReport& report) {
  std::string text = summary(report) + "\n";
  const std::size_t shown = std::min(report.variables.size(), variables_most);
  for (std::size_t i = 0; i < shown; ++i) {
    const SharedVariable& variable = report.variables[i];
    text += fmt::format("\n{}. {}: {}\n   {}\n", i + 1, title(variable), cost(variable),
                        name_of(variable.verdict));
    for (std::size_t use = 0; use < std::min(variable.uses.size(), uses_most); ++use)
      text += fmt::format("     {}\n", use_line(variable.uses[use]));
    text += fmt::format("   advice: {}\n", variable.advice);
  }
  if (shown < report.variables.size())
    text += fmt::format("\nand {} more, which cost less\n", report.variables.size() - shown);
  return text;
}

std::string report_as_html(const SharingReport& report) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Craton: "
      "sharing</title>\n<style>"
      "body{font:14px sans-serif;margin:24px;max-width:1140px}table{border-collapse:collapse}"
      "td,th{border-bottom:1px solid #ccc;padding:5px 8px;text-align:left;vertical-align:top}"
      "text{font:11px sans-serif}small{color:#555}.v{white-space:nowrap}</style></head><body>\n"
      "<h1>Memory that ranks share</h1>\n";
  text += fmt::format(
      "<p>{}</p>\n<h2>Where and when it cost time</h2>\n<p>Down: memory in use, by address; to the right: "
      "time; the redder, the more time in faults and releases.</p>\n{}",
      html(summary(report)), heat_map(report));
  text +=
      "<h2>By variable</h2>\n<table><tr><th>#<th>variable<th>cost<th>verdict<th>who and "
      "where<th>advice</tr>\n";
  const std::size_t shown = std::min(report.variables.size(), variables_most);
  for (std::size_t i = 0; i < shown; ++i) {
    const SharedVariable& variable = report.variables[i];
    text += fmt::format("<tr><td>{}<td><b>{}</b><td>{}<td class=\"v\">{}<td><small>", i + 1,
                        html(title(variable)), cost(variable), name_of(variable.verdict));
    for (std::size_t use = 0; use < std::min(variable.uses.size(), uses_most); ++use)
      text += html(use_line(variable.uses[use])) + "<br>";
    text += fmt::format("</small><td>{}</tr>\n", html(variable.advice));
  }
  return text + "</table></body></html>\n";
}

}  // namespace craton::observe
