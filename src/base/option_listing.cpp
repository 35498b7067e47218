/// \file
/// The table of options as text, as docs/options.md and as a man page.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/options.hpp"

namespace craton {
namespace {

constexpr OptionScope scopes[] = {OptionScope::rank, OptionScope::launcher};

const char* heading(OptionScope scope) {
  return scope == OptionScope::rank ? "Options of a job" : "Options of the launcher";
}

const char* explanation(OptionScope scope) {
  return scope == OptionScope::rank ? "Every rank reads these. `craton run` passes on what it was given; "
                                      "under `mpirun` and `srun` the "
                                      "environment variables and the config file do the same."
                                    : "Only `craton run` reads these.";
}

std::string shown(std::string_view value) {
  return value.empty() ? std::string("(empty)") : std::string(value);
}

std::string flag_form(const OptionSpec& spec) {
  const std::string placeholder = value_placeholder(spec);
  return fmt::format("--{}{}{}", spec.name, placeholder.empty() ? "" : " ", placeholder);
}

/// '|' would end a cell of a Markdown table.
std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

/// A hyphen is \- in a man page, or it cannot be copied as a flag; a backslash and a leading dot are escaped.
std::string man_text(std::string_view text) {
  std::string escaped;
  if (text.starts_with('.') || text.starts_with('\'')) escaped += "\\&";
  for (const char c : text) {
    if (c == '-') {
      escaped += "\\-";
    } else if (c == '\\') {
      escaped += "\\e";
    } else if (c != '`') {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string options_as_text(const Options& options) {
  std::string text;
  for (const OptionScope scope : scopes) {
    fmt::format_to(std::back_inserter(text), "{}{}\n", text.empty() ? "" : "\n", heading(scope));
    for (const OptionSpec& spec : option_table) {
      if (spec.scope != scope) continue;
      fmt::format_to(std::back_inserter(text), "  {:<18} {:<14} {}\n", spec.name,
                     shown(options.value_text(spec.id)), options.where(spec.id));
      fmt::format_to(std::back_inserter(text), "      {}.\n      Takes {}; default {}. Also {}, {} =\n",
                     spec.help, type_and_limits(spec), shown(spec.default_text), variable_name(spec),
                     key_name(spec));
    }
  }
  return text;
}

std::string options_as_markdown() {
  std::string text =
      "# Options\n\n"
      "Printed by `craton info --options --markdown` from the table in `src/base/option_table.hpp`; do not "
      "edit.\n\n"
      "An option is set by, strongest first: its flag to `craton run`; its environment variable; its key in "
      "the TOML\n"
      "file that `--config` or `CRATON_CONFIG` names; its default. `craton info` shows the values in force "
      "and where\n"
      "each came from.\n\n"
      "A number of bytes may end in k, M, G or T (powers of 1000) or Ki, Mi, Gi or Ti (powers of 1024); a "
      "time ends in\n"
      "ns, us, ms, s, min or h. Both may have a decimal point.\n";
  for (const OptionScope scope : scopes) {
    fmt::format_to(std::back_inserter(text),
                   "\n## {}\n\n{}\n\n| flag | environment variable | key | takes | default | what it does |\n"
                   "|---|---|---|---|---|---|\n",
                   heading(scope), explanation(scope));
    for (const OptionSpec& spec : option_table) {
      if (spec.scope != scope) continue;
      fmt::format_to(std::back_inserter(text), "| `--{}` | `{}` | `{}` | {} | {} | {} |\n", spec.name,
                     variable_name(spec), key_name(spec), markdown_cell(type_and_limits(spec)),
                     spec.default_text.empty() ? "" : fmt::format("`{}`", spec.default_text),
                     markdown_cell(spec.help));
    }
  }
  return text;
}

std::string options_as_man_page(std::string_view version) {
  std::string text = fmt::format(
      ".TH CRATON\\-OPTIONS 7 \"\" \"Craton {}\" \"Craton\"\n"
      ".SH NAME\ncraton\\-options \\- options of Craton jobs and of craton run\n"
      ".SH DESCRIPTION\n"
      "An option is set by, strongest first: its flag to\n.BR \"craton run\" ;\nits environment variable; "
      "its key in "
      "the TOML file that\n.B \\-\\-config\nor\n.B CRATON_CONFIG\nnames; its default.\n.PP\n"
      "A number of bytes may end in k, M, G or T (powers of 1000) or Ki, Mi, Gi or Ti (powers of 1024); a "
      "time ends in\n"
      "ns, us, ms, s, min or h. Both may have a decimal point.\n",
      version);
  for (const OptionScope scope : scopes) {
    std::string title = heading(scope);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    fmt::format_to(std::back_inserter(text), ".SH {}\n{}\n", title, man_text(explanation(scope)));
    for (const OptionSpec& spec : option_table) {
      if (spec.scope != scope) continue;
      fmt::format_to(std::back_inserter(text),
                     ".TP\n.B {}\n{}.\nTakes {}; default {}.\nVariable {}, key {}.\n",
                     man_text(flag_form(spec)), man_text(spec.help), man_text(type_and_limits(spec)),
                     man_text(shown(spec.default_text)), variable_name(spec), key_name(spec));
    }
  }
  return text;
}

}  // namespace craton
