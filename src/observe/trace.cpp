#include "observe/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/json_text.hpp"

namespace craton::observe {

namespace {

using events::Event;
using events::Kind;

/// Looks up each once, since there may be a million events.
class Names {
 public:
  explicit Names(const Symbols& symbols) : symbols_(symbols) {}
  const std::string& region(std::uint64_t function) {
    std::string& name = regions_[function];
    if (name.empty()) name = json_text(symbols_.region(function));
    return name;
  }
  const std::string& line(std::uint64_t code) {
    std::string& name = lines_[code];
    if (name.empty()) name = json_text(symbols_.code(code).line);
    return name;
  }

 private:
  const Symbols& symbols_;
  std::map<std::uint64_t, std::string> regions_;
  std::map<std::uint64_t, std::string> lines_;
};

}  // namespace

std::string trace_as_json(const Record& record, Symbols& symbols) {
  std::vector<std::uint64_t> addresses;
  std::uint64_t first_ns = ~std::uint64_t{0};
  for (const RankPart& rank : record.ranks) {
    for (const ThreadPart& thread : rank.threads) {
      for (const Event& event : thread.events) {
        first_ns = std::min(first_ns, event.start_ns);
        addresses.push_back(event.region);
        if (is_fault(event.kind)) addresses.push_back(event.code);
      }
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  symbols.learn_code(addresses);

  Names names(symbols);
  std::string text = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
  const auto out = std::back_inserter(text);
  constexpr double us = 1e3;
  const char* separator = "";
  for (std::size_t rank = 0; rank < record.ranks.size(); ++rank) {
    fmt::format_to(out, R"({}{{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})",
                   separator, rank, rank);
    separator = ",\n";
    for (const ThreadPart& thread : record.ranks[rank].threads) {
      fmt::format_to(out, R"(,
{{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{} {}{}"}}}})",
                     rank, thread.number, thread.is_of_program ? "thread" : "runtime's thread", thread.number,
                     thread.lost == 0 ? "" : fmt::format(", {} events lost", thread.lost));
      for (const Event& event : thread.events) {
        if (event.kind == Kind::merge || event.kind == Kind::allocation) continue;
        const std::string_view kind = events::kind_names[static_cast<std::size_t>(event.kind)];
        fmt::format_to(
            out,
            ",\n"
            R"({{"ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{)",
            event.kind == Kind::compute ? std::string_view(names.region(event.region)) : kind,
            event.kind == Kind::compute ? "region" : kind, rank, thread.number,
            static_cast<double>(event.start_ns - first_ns) / us, static_cast<double>(event.duration_ns) / us);
        if (event.kind != Kind::compute) fmt::format_to(out, R"("region":"{}",)", names.region(event.region));
        if (is_fault(event.kind)) fmt::format_to(out, R"("line":"{}",)", names.line(event.code));
        if (event.address != 0) fmt::format_to(out, R"("address":"{:#x}",)", event.address);
        fmt::format_to(out, R"("bytes":{},"messages":{}}}}})", event.bytes, event.messages);
      }
    }
  }
  return text + "\n]}\n";
}

}  // namespace craton::observe
