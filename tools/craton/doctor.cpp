#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.hpp"
#include "job/machine.hpp"
#include "job/machine_findings.hpp"

namespace craton::tools {
namespace {

std::size_t count(const std::vector<job::Finding>& findings, job::Severity severity) {
  return static_cast<std::size_t>(std::count_if(
      findings.begin(), findings.end(), [&](const job::Finding& f) { return f.severity == severity; }));
}

void print_json(const job::MachineFacts& facts, const std::vector<job::Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const job::Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"severity", job::name_of(finding.severity)},
                    {"seen", finding.seen},
                    {"cause", finding.cause},
                    {"meaning", finding.meaning},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json report = {{"host", facts.host},
                                         {"kernel", facts.kernel},
                                         {"architecture", facts.architecture},
                                         {"problems", count(findings, job::Severity::problem)},
                                         {"warnings", count(findings, job::Severity::warning)},
                                         {"findings", list}};
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_text(const job::MachineFacts& facts, const std::vector<job::Finding>& findings) {
  fmt::print("{}: Linux {}, {}\n\n", facts.host, facts.kernel, facts.architecture);
  for (const job::Finding& finding : findings) {
    fmt::print("{:<8} {:<14} {}\n", job::name_of(finding.severity), finding.name, finding.seen);
    const auto detail = [](const char* label, const std::string& text) {
      if (!text.empty()) fmt::print("{:9}{:<8} {}\n", "", label, text);
    };
    detail("cause", finding.cause);
    detail("means", finding.meaning);
    detail("remedy", finding.remedy);
  }
  fmt::print("\nchecks: {}, problems: {}, warnings: {}\n", findings.size(),
             count(findings, job::Severity::problem), count(findings, job::Severity::warning));
}

}  // namespace

int doctor_main(bool json) {
  const job::MachineFacts facts = job::read_machine_facts();
  const std::vector<job::Finding> findings = job::judge(facts);
  if (json) {
    print_json(facts, findings);
  } else {
    print_text(facts, findings);
  }
  return count(findings, job::Severity::problem) > 0 ? 1 : 0;
}

}  // namespace craton::tools
