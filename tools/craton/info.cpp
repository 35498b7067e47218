#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "commands.hpp"
#include "entry_points.hpp"
#include "job/machine.hpp"
#include "job/machine_findings.hpp"
#include "transports.hpp"

namespace craton::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Empty for what the build was made without.
struct BuildFacts {
  std::string version = CRATON_VERSION;
#if defined(__clang__)
  std::string compiler = "clang " __clang_version__;
#else
  std::string compiler = "gcc " __VERSION__;
#endif
  std::string type = CRATON_BUILD_TYPE;
  std::string sanitizers = CRATON_SANITIZERS;
  std::string ucx_headers = CRATON_UCX_HEADERS;
  std::string pmix_headers = CRATON_PMIX_HEADERS;
};

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

Json options_as_json(const Options& options) {
  Json list = Json::array();
  for (const OptionSpec& spec : option_table) {
    list.push_back({{"name", spec.name},
                    {"value", options.value_text(spec.id)},
                    {"source", name_of(options.source(spec.id))},
                    {"where", options.where(spec.id)},
                    {"default", spec.default_text},
                    {"takes", type_and_limits(spec)},
                    {"variable", variable_name(spec)},
                    {"key", key_name(spec)},
                    {"launcher_only", spec.scope == OptionScope::launcher},
                    {"help", spec.help}});
  }
  return list;
}

void print_json(const Json& report) {
  // What comes from the environment need not be UTF-8.
  fmt::print("{}\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_all_as_json(const Options& options) {
  const BuildFacts build;
  const job::MachineFacts facts = job::read_machine_facts();
  Json transports = Json::array();
  for (const TransportReport& report : report_transports(facts)) {
    transports.push_back({{"name", report.name}, {"usable", report.usable}, {"detail", report.detail}});
  }
  Json machine = {{"host", facts.host}, {"kernel", facts.kernel}, {"architecture", facts.architecture}};
  for (const job::Finding& finding : job::judge(facts)) machine["allows"][finding.name] = finding.seen;
  print_json({{"version", build.version},
              {"build",
               {{"compiler", build.compiler},
                {"type", build.type},
                {"sanitizers", build.sanitizers},
                {"ucx_headers", build.ucx_headers},
                {"pmix_headers", build.pmix_headers}}},
              {"transports", transports},
              {"options", options_as_json(options)},
              {"machine", machine}});
}

void print_all_as_text(const Options& options) {
  const BuildFacts build;
  fmt::print(
      "Craton {}\n  compiler      {}\n  build type    {}\n  sanitizers    {}\n  UCX headers   {}\n  PMIx "
      "headers  {}\n",
      build.version, build.compiler, or_none(build.type), or_none(build.sanitizers),
      or_none(build.ucx_headers), or_none(build.pmix_headers));

  const job::MachineFacts facts = job::read_machine_facts();
  fmt::print("\nTransports\n");
  for (const TransportReport& report : report_transports(facts)) {
    fmt::print("  {:<13} {:<8} {}\n", report.name, report.usable ? "usable" : "unusable", report.detail);
  }

  fmt::print("\nOptions (craton info --options explains them)\n");
  for (const OptionSpec& spec : option_table) {
    const std::string& value = options.value_text(spec.id);
    fmt::print("  {:<16} {:<14} {}\n", spec.name, value.empty() ? "(empty)" : value, options.where(spec.id));
  }

  fmt::print("\nThis machine: {}, Linux {}, {} (craton doctor judges it)\n", facts.host, facts.kernel,
             facts.architecture);
  for (const job::Finding& finding : job::judge(facts))
    fmt::print("  {:<14} {}\n", finding.name, finding.seen);
}

}  // namespace

int info_main(const InfoRequest& request) {
  if (request.entry_points_only) {
    fmt::print("{}", entry_points_as_text());
    return 0;
  }
  using Format = InfoRequest::Format;
  switch (request.format) {
    case Format::markdown:
      fmt::print("{}", options_as_markdown());
      break;
    case Format::man:
      fmt::print("{}", options_as_man_page(CRATON_VERSION));
      break;
    case Format::json:
      if (request.options_only) {
        print_json(options_as_json(request.options));
      } else {
        print_all_as_json(request.options);
      }
      break;
    case Format::text:
      if (request.options_only) {
        fmt::print("{}", options_as_text(request.options));
      } else {
        print_all_as_text(request.options);
      }
      break;
  }
  return 0;
}

}  // namespace craton::tools
