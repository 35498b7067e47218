/// \file
/// The command line of `craton`. The flags of options are made from the table in base/option_table.hpp;
/// everything wrong with a command line is reported in one line, with the nearest name that exists, and exit
/// code 2.
#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/option_value.hpp"
#include "base/options.hpp"
#include "commands.hpp"
#include "fabric/types.hpp"

namespace craton::tools {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;  // as of grep, ls and most commands

/// A command line that makes no sense.
class UsageError : public std::exception {
 public:
  explicit UsageError(std::string line) : line_(std::move(line)) {}
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  std::string line_;
};

void print_line_to_stderr(std::string_view text) {
  std::fprintf(stderr, "craton: %.*s\n", static_cast<int>(text.size()), text.data());
}

/// Started with one of 0, 1 and 2 closed, the next descriptor that is opened would get its number, and what
/// is written to standard output or error would end in it.
void open_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) std::abort();
  }
}

/// The flags of a subcommand, as "--spin".
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

[[noreturn]] void fail_unknown_flag(const CLI::App& command, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  const auto nearest = nearest_name(flag, flags_of(command));
  const std::string full_name = command.get_parent() == nullptr ? "craton" : "craton " + command.get_name();
  throw UsageError("unknown flag " + flag +
                   (nearest ? "; did you mean " + *nearest + "?" : "; " + full_name + " --help lists all"));
}

/// Fails on anything that a subcommand without a program to run did not understand.
void expect_no_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  if (extras.front().starts_with("-")) fail_unknown_flag(command, extras.front());
  throw UsageError("craton " + command.get_name() + " takes no argument \"" + extras.front() + "\"");
}

/// A flag without a value. (CLI11 cannot tell a help text that is a literal from a variable to set.)
CLI::Option* add_switch(CLI::App& command, const std::string& flag, const std::string& help) {
  return command.add_flag(flag, help);
}

/// Adds a flag for every option of the table.
void add_option_flags(CLI::App& command) {
  for (const OptionSpec& spec : option_table) {
    const std::string flag = "--" + std::string(spec.name);
    const std::string help = std::string(spec.help) + " [" + std::string(spec.default_text) + "]";
    const std::string placeholder = value_placeholder(spec);
    const bool is_switch = spec.type == OptionType::flag || spec.type == OptionType::automatic;
    CLI::Option* option = is_switch ? add_switch(command, flag, help) : command.add_option(flag, help);
    if (!is_switch) option->type_name(placeholder)->expected(1);
    option->group(spec.scope == OptionScope::rank ? "Options of the job" : "Options of the launcher");
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

void add_config_flag(CLI::App& command) {
  command.add_option("--config", "A TOML file of options, instead of the one that CRATON_CONFIG names")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

/// Options from all sources: the environment, the config file, and the flags that the command was given.
Options options_of(const CLI::App& command) {
  Options options;
  if (const CLI::Option* config = command.get_option_no_throw("--config");
      config != nullptr && config->count() > 0) {
    if (const std::string path = config->results().back(); !path.empty()) options.read_file(path);
    options.read_environment(environ);
  } else {
    options = Options::from_environment(environ);
  }
  for (const OptionSpec& spec : option_table) {
    const std::string flag = "--" + std::string(spec.name);
    const CLI::Option* given = command.get_option_no_throw(flag);
    if (given == nullptr || given->count() == 0) continue;
    options.set(spec.id, given->results().back(), OptionSource::flag, "flag " + flag);
  }
  for (const std::string& complaint : options.misspelt_variables()) print_line_to_stderr(complaint);
  return options;
}

unsigned parse_ranks(const std::string& text) {
  unsigned ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  if (error != std::errc{} || end != text.data() + text.size() || ranks == 0 || ranks > fabric::max_ranks) {
    throw UsageError("cannot run \"" + text + "\" ranks: -n takes a whole number from 1 to " +
                     std::to_string(fabric::max_ranks));
  }
  return ranks;
}

CLI::App* add_run(CLI::App& app) {
  CLI::App* run = app.add_subcommand("run", "Runs a program as the ranks of one job");
  run->footer(
      "craton run -n RANKS [flags] [--] program [arguments]\n"
      "The first word that is no flag is the program; all that follows it is the program's own.");
  run->add_option("-n,--ranks", "How many ranks the job has")
      ->type_name("RANKS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_config_flag(*run);
  add_option_flags(*run);
  // The first word that is no flag is the program; all that follows is the program's own.
  run->prefix_command();
  return run;
}

/// \param after_dashes the words after the first `--`, null if there was none
int start_run(const CLI::App& run, const std::vector<std::string>* after_dashes) {
  std::vector<std::string> command = run.remaining();
  if (!command.empty() && command.front().starts_with("-")) fail_unknown_flag(run, command.front());
  if (after_dashes != nullptr) {
    if (!command.empty()) command.emplace_back("--");  // it stood after the program: it is the program's own
    command.insert(command.end(), after_dashes->begin(), after_dashes->end());
  }
  const CLI::Option* ranks = run.get_option("--ranks");
  if (ranks->count() == 0)
    throw UsageError("craton run needs -n, the number of ranks: craton run -n 4 -- program");
  const unsigned rank_count = parse_ranks(ranks->results().back());
  if (command.empty()) throw UsageError("craton run needs a program: craton run -n 4 -- program arguments");
  return run_main({.ranks = rank_count, .options = options_of(run), .command = std::move(command)});
}

CLI::App* add_info(CLI::App& app) {
  CLI::App* info =
      app.add_subcommand("info", "Shows build, transports, options and what this machine allows");
  add_switch(*info, "--options", "Only the options, with their values and where each came from");
  add_switch(*info, "--entry-points",
             "Only what of libgomp 12's and libomp 14's interfaces OpenMP programs find, and what not");
  add_switch(*info, "--json", "As JSON");
  add_switch(*info, "--markdown", "With --options: the table as Markdown (docs/options.md)");
  add_switch(*info, "--man", "With --options: the table as a man page");
  add_config_flag(*info);
  info->allow_extras();
  return info;
}

int start_info(const CLI::App& info) {
  expect_no_extras(info);
  InfoRequest request;
  request.options_only = info.count("--options") > 0;
  request.entry_points_only = info.count("--entry-points") > 0;
  const std::size_t forms = std::size_t{info.count("--json") > 0} +
                            std::size_t{info.count("--markdown") > 0} + std::size_t{info.count("--man") > 0};
  if (forms > 1) throw UsageError("craton info takes one of --json, --markdown and --man");
  if (info.count("--json") > 0) request.format = InfoRequest::Format::json;
  if (info.count("--markdown") > 0) request.format = InfoRequest::Format::markdown;
  if (info.count("--man") > 0) request.format = InfoRequest::Format::man;
  const bool table_only =
      request.format == InfoRequest::Format::markdown || request.format == InfoRequest::Format::man;
  if (table_only && !request.options_only)
    throw UsageError("craton info: --markdown and --man need --options");
  if (request.entry_points_only && (forms != 0 || request.options_only))
    throw UsageError("craton info --entry-points takes no other flags");
  request.options = options_of(info);
  return info_main(request);
}

/// The time from one table to the next. No line of the table of options: it is nothing that jobs have.
constexpr OptionSpec interval_spec = {.id = {},
                                      .name = "interval",
                                      .type = OptionType::duration,
                                      .scope = OptionScope::launcher,
                                      .default_text = "1s",
                                      .help = "The time from one table to the next",
                                      .minimum = 100 * option_limits::ms,
                                      .maximum = 1'000 * option_limits::s};

CLI::App* add_top(CLI::App& app) {
  CLI::App* top = app.add_subcommand("top", "Shows what the ranks of a running job do, until it ends");
  top->add_option("--job", "The pid of its craton run, or the name of its program; needed where several run")
      ->type_name("PID|NAME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const std::string interval_help = fmt::format("{} [{}]", interval_spec.help, interval_spec.default_text);
  top->add_option("--interval", interval_help)
      ->type_name("TIME")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_switch(*top, "--once", "One table");
  add_switch(*top, "--json", "As JSON, one object a line");
  top->allow_extras();
  return top;
}

int start_top(const CLI::App& top) {
  expect_no_extras(top);
  TopRequest request{.job = {},
                     .interval_ns = parse_value(interval_spec, interval_spec.default_text).number,
                     .once = top.count("--once") > 0,
                     .json = top.count("--json") > 0};
  if (top.count("--job") > 0) request.job = top.get_option("--job")->results().back();
  if (top.count("--interval") > 0) {
    const std::string text = top.get_option("--interval")->results().back();
    const ParsedValue parsed = parse_value(interval_spec, text);
    if (!parsed.problem.empty())
      throw UsageError(fmt::format("cannot use \"{}\" of flag --interval: {} (it takes {})", text,
                                   parsed.problem, type_and_limits(interval_spec)));
    request.interval_ns = parsed.number;
  }
  return top_main(request);
}

/// CLI11 takes the next word for the value of "--trace=", which has an empty one: gives it that as a word of
/// its own. \param words of a subcommand, from its name on
void separate_empty_values(const CLI::App& command, std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size() && words[i].starts_with("-"); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(0, equals);
    const CLI::Option* option = command.get_option_no_throw(flag);
    if (option == nullptr) continue;  // "-n4", or no flag at all
    const bool takes_value = option->get_items_expected_max() > 0;
    if (equals != std::string::npos && equals + 1 == words[i].size()) {
      if (!takes_value) throw UsageError(flag + " needs a value after =, or no =");
      words[i] = flag;
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
      ++i;
    } else if (equals == std::string::npos && takes_value) {
      ++i;
    }
  }
}

int start(std::vector<std::string> words) {
  CLI::App app("The memory of many machines as one memory.", "craton");
  app.set_version_flag("--version", std::string("craton ") + CRATON_VERSION);
  app.set_help_flag("-h,--help", "Shows this text");
  app.allow_extras();
  CLI::App* run = add_run(app);
  CLI::App* info = add_info(app);
  CLI::App* top = add_top(app);
  CLI::App* doctor = app.add_subcommand("doctor", "Checks what this machine allows and says what to do");
  add_switch(*doctor, "--json", "As JSON");
  doctor->allow_extras();
  CLI::App* version = app.add_subcommand("version", "Shows the version");
  version->allow_extras();
  CLI::App* node = app.add_subcommand("_node", "")->group("");
  int input_of_node = -1;
  node->add_option("--input", input_of_node);
  app.require_subcommand(0, 1);

  // CLI11 would take what follows `--` for arguments of the main command, so it does not see it.
  std::vector<std::string> after_dashes;
  bool has_dashes = false;
  if (!words.empty() && words.front() == "run") {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    has_dashes = dashes != words.end();
    if (has_dashes) after_dashes.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  for (const CLI::App* command : {run, info, top}) {
    if (!words.empty() && command->get_name() == words.front()) separate_empty_values(*command, words);
  }
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ArgumentMismatch& error) {  // "--spin: 1 required TIME missing"
    const std::string_view what = error.what();
    throw UsageError(std::string(what.substr(0, what.find(':'))) + " needs a value");
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  if (run->parsed()) return start_run(*run, has_dashes ? &after_dashes : nullptr);
  if (info->parsed()) return start_info(*info);
  if (top->parsed()) return start_top(*top);
  if (node->parsed()) return node_main(input_of_node);
  if (doctor->parsed()) {
    expect_no_extras(*doctor);
    return doctor_main(doctor->count("--json") > 0);
  }
  if (version->parsed()) {
    expect_no_extras(*version);
    std::printf("craton %s\n", CRATON_VERSION);
    return 0;
  }
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) throw UsageError("which command? craton --help lists them");
  if (extras.front().starts_with("-")) fail_unknown_flag(app, extras.front());
  const auto nearest = nearest_name(extras.front(), {"run", "top", "info", "doctor", "version"});
  throw UsageError("unknown command \"" + extras.front() + "\"" +
                   (nearest ? "; did you mean " + *nearest + "?" : "; craton --help lists all"));
}

}  // namespace
}  // namespace craton::tools

int main(int argc, char** argv) {
  craton::tools::open_standard_descriptors();
  int exit_code = 0;
  try {
    exit_code = craton::tools::start(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const craton::tools::UsageError& error) {
    craton::tools::print_line_to_stderr(error.what());
    return craton::tools::exit_usage;
  } catch (const craton::Error& error) {
    craton::tools::print_line_to_stderr(error.what());
    return error.code() == craton::ErrorCode::invalid_argument ? craton::tools::exit_usage
                                                               : craton::tools::exit_failure;
  } catch (const std::exception& error) {
    craton::tools::print_line_to_stderr(std::string("internal error: ") + error.what());
    return craton::tools::exit_failure;
  }
  // What was printed may have got lost on the way: `craton info > /dev/full` is a failure.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    craton::tools::print_line_to_stderr("cannot write to standard output");
    return craton::tools::exit_failure;
  }
  return exit_code;
}
