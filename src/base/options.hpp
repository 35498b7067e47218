/// \file
/// The values of the options of option_table.hpp, and where each came from.
/// Invariant: every value held lies within the limits of its line in the table; a weaker source never
/// replaces a stronger one, in whatever order they are read: default < config file < environment < flag.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/option_table.hpp"

namespace craton {

/// Kinds of sources, weakest first.
enum class OptionSource : std::uint8_t { default_value, file, environment, flag };

/// An option whose type is checked when the program is compiled: `options.bytes(Option::spin)` does not
/// compile.
template <OptionType... accepted>
class OptionKey {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): made to convert
  consteval OptionKey(Option option) : option_(option) {
    if (!((spec_of(option).type == accepted) || ...))
      throw "this accessor does not fit the type of the option";
  }
  constexpr Option option() const noexcept { return option_; }

 private:
  Option option_;
};

/// A value type. Reading does not block and any thread may read; setting is for one thread.
class Options {
 public:
  /// Every option at its default.
  Options();

  /// Options of this process: defaults, the file that CRATON_CONFIG names if it does, and CRATON_* variables.
  /// Reads a file, so it may block on a slow disk.
  /// \param environment null-terminated array of NAME=VALUE, as in `environ`
  /// \throws Error invalid_argument (which source, which value, which limits), not_found (the file)
  static Options from_environment(const char* const* environment);

  /// Reads CRATON_* variables, not CRATON_CONFIG. Other names are left alone.
  /// \throws Error invalid_argument
  void read_environment(const char* const* environment);

  /// Reads a TOML file: top-level keys named as in the table with '_' for '-'.
  /// \throws Error invalid_argument with file and line, not_found, permission
  void read_file(const std::string& path);

  /// Reads TOML text; `path` is for messages. \throws Error invalid_argument with path and line
  void read_toml(std::string_view text, const std::string& path);

  /// Sets one option if no stronger source has set it.
  /// \param where for messages: "environment variable CRATON_SPIN", "flag --spin", "craton.toml:3, key spin"
  /// \throws Error invalid_argument; checked even where a stronger source wins
  void set(Option option, std::string_view value, OptionSource source, std::string where);

  bool flag(OptionKey<OptionType::flag> key) const noexcept { return number(key.option()) != 0; }
  /// \returns none for auto
  std::optional<bool> flag_or_auto(OptionKey<OptionType::automatic> key) const noexcept;
  std::int64_t integer(OptionKey<OptionType::integer> key) const noexcept { return number(key.option()); }
  std::uint64_t bytes(OptionKey<OptionType::bytes> key) const noexcept {
    return static_cast<std::uint64_t>(number(key.option()));
  }
  TimeNs duration_ns(OptionKey<OptionType::duration> key) const noexcept { return number(key.option()); }
  const std::string& text(OptionKey<OptionType::text, OptionType::choice> key) const noexcept {
    return entry(key.option()).text;
  }

  /// Any option's value as it was written, as in "64Ki".
  const std::string& value_text(Option option) const noexcept { return entry(option).text; }
  OptionSource source(Option option) const noexcept { return entry(option).source; }
  /// Where a value came from, as in "environment variable CRATON_SPIN"; "default" if nobody set it.
  const std::string& where(Option option) const noexcept { return entry(option).where; }

  /// NAME=VALUE of every option that ranks read and that somebody has set, for the environment of ranks. If a
  /// config file was read, CRATON_CONFIG= is among them: ranks must not read it again, it may not be on their
  /// host.
  std::vector<std::string> rank_environment() const;

  /// One line for each CRATON_* variable whose name looks like that of an option with a slip in it. The
  /// command prints them; ranks do not. Other names with our prefix may be anybody's.
  const std::vector<std::string>& misspelt_variables() const noexcept { return misspelt_variables_; }

 private:
  struct Entry {
    std::string text;
    std::int64_t number = 0;  ///< as in ParsedValue
    OptionSource source = OptionSource::default_value;
    std::string where = "default";
  };
  const Entry& entry(Option option) const noexcept { return entries_[static_cast<std::size_t>(option)]; }
  std::int64_t number(Option option) const noexcept { return entry(option).number; }

  std::array<Entry, option_count> entries_;
  std::vector<std::string> misspelt_variables_;
  bool file_read_ = false;
};

/// "CRATON_LINK_DELAY" of "link-delay".
std::string variable_name(const OptionSpec& spec);
/// "link_delay" of "link-delay".
std::string key_name(const OptionSpec& spec);
/// Type and limits in words: "a size in bytes, a power of two, 4Ki to 16Mi".
std::string type_and_limits(const OptionSpec& spec);
/// What stands for the value in a usage line: "BYTES", "raw|prefix|ordered"; empty for a flag.
std::string value_placeholder(const OptionSpec& spec);
/// The word for a source: "default", "file", "environment", "flag".
std::string_view name_of(OptionSource source) noexcept;

/// The known name nearest to what was typed, if one is near enough to be what was meant.
std::optional<std::string> nearest_name(std::string_view typed, const std::vector<std::string>& known);

/// The table as text, Markdown (docs/options.md) or a man page. Text shows values and sources of `options`
/// too.
std::string options_as_text(const Options& options);
std::string options_as_markdown();
std::string options_as_man_page(std::string_view version);

}  // namespace craton
