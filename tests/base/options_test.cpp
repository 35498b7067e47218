#include "base/options.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/option_value.hpp"

namespace craton {
namespace {

using Environment = std::vector<const char*>;

Options from(Environment variables) {
  variables.push_back(nullptr);
  return Options::from_environment(variables.data());
}

/// The message of the Error that a call throws; "" if it throws none.
template <typename Call>
std::string message_of(Call call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

/// A file that goes with its scope.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string form = testing::TempDir() + "craton-options-XXXXXX";
    const int fd = ::mkstemp(form.data());
    EXPECT_GE(fd, 0);
    ::close(fd);
    path_ = form;
    std::ofstream(path_) << text;
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  ~ConfigFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(OptionTable, EveryDefaultIsAllowedAndEveryNameIsWellFormedAndUnique) {
  std::set<std::string> names;
  for (const OptionSpec& spec : option_table) {
    EXPECT_EQ(parse_value(spec, spec.default_text).problem, "") << spec.name;
    EXPECT_EQ(spec.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), spec.name.npos) << spec.name;
    EXPECT_FALSE(spec.help.empty() || spec.help.ends_with('.')) << spec.name;
    EXPECT_LE(spec.minimum, spec.maximum) << spec.name;
    EXPECT_EQ(spec.type == OptionType::choice, !spec.choices.empty()) << spec.name;
    names.insert(variable_name(spec));
  }
  EXPECT_EQ(names.size(), option_count) << "two names are the same";
}

TEST(OptionTable, NamesFollowFromOneAnother) {
  const OptionSpec& spec = spec_of(Option::link_delay);
  EXPECT_EQ(spec.name, "link-delay");
  EXPECT_EQ(variable_name(spec), "CRATON_LINK_DELAY");
  EXPECT_EQ(key_name(spec), "link_delay");
}

TEST(Options, HaveTheirDefaults) {
  const Options options;
  EXPECT_EQ(options.text(Option::transport), "auto");
  EXPECT_FALSE(options.flag(Option::isolate_nodes));
  EXPECT_EQ(options.duration_ns(Option::spin), 20'000);
  EXPECT_EQ(options.duration_ns(Option::connect_timeout), 30'000'000'000);
  EXPECT_EQ(options.text(Option::tcp_interface), "");
  EXPECT_EQ(options.duration_ns(Option::link_delay), 0);
  EXPECT_EQ(options.bytes(Option::link_bandwidth), 0U);
  EXPECT_EQ(options.bytes(Option::ring_bytes), 65536U);
  EXPECT_EQ(options.integer(Option::ranks_per_node), 0);
  EXPECT_EQ(options.text(Option::launch_agent), "ssh");
  EXPECT_EQ(options.duration_ns(Option::timeout), 0);
  EXPECT_EQ(options.text(Option::output), "raw");
  for (const OptionSpec& spec : option_table) {
    EXPECT_EQ(options.source(spec.id), OptionSource::default_value);
    EXPECT_EQ(options.where(spec.id), "default");
    EXPECT_EQ(options.value_text(spec.id), spec.default_text);
  }
}

TEST(Options, ComeFromTheEnvironment) {
  const Options options =
      from({"PATH=/bin", "CRATON_SPIN=5us", "CRATON_ISOLATE_NODES=1", "CRATON_TRANSPORT=tcp",
            "CRATON_LINK_BANDWIDTH=1.25G", "CRATON_RANKS_PER_NODE=3", "CRATON_HOST=a,b=c"});
  EXPECT_EQ(options.duration_ns(Option::spin), 5'000);
  EXPECT_TRUE(options.flag(Option::isolate_nodes));
  EXPECT_EQ(options.text(Option::transport), "tcp");
  EXPECT_EQ(options.bytes(Option::link_bandwidth), 1'250'000'000U);
  EXPECT_EQ(options.integer(Option::ranks_per_node), 3);
  EXPECT_EQ(options.text(Option::host), "a,b=c") << "the value starts behind the first =";
  EXPECT_EQ(options.source(Option::spin), OptionSource::environment);
  EXPECT_EQ(options.where(Option::spin), "environment variable CRATON_SPIN");
  EXPECT_EQ(options.value_text(Option::spin), "5us");
  EXPECT_EQ(options.source(Option::output), OptionSource::default_value);
}

TEST(Options, ComeFromTheFileThatTheEnvironmentNames) {
  const ConfigFile file(
      "# ours\nspin = \"7us\"\nisolate_nodes = true\nranks_per_node = 2\nring_bytes = 131072\n");
  const std::string variable = "CRATON_CONFIG=" + file.path();
  const Options options = from({variable.c_str()});
  EXPECT_EQ(options.duration_ns(Option::spin), 7'000);
  EXPECT_TRUE(options.flag(Option::isolate_nodes));
  EXPECT_EQ(options.integer(Option::ranks_per_node), 2);
  EXPECT_EQ(options.bytes(Option::ring_bytes), 131072U);
  EXPECT_EQ(options.source(Option::spin), OptionSource::file);
  EXPECT_EQ(options.where(Option::spin), file.path() + ":2, key spin");
  EXPECT_TRUE(options.misspelt_variables().empty());
}

TEST(Options, AnEmptyConfigVariableIsNoFile) {
  EXPECT_NO_THROW(from({"CRATON_CONFIG="}));
}

TEST(Options, StrongerSourcesWinInWhateverOrderTheyAreRead) {
  struct Setting {
    OptionSource source;
    const char* text;
  };
  std::vector<Setting> order = {
      {OptionSource::file, "1us"}, {OptionSource::environment, "2us"}, {OptionSource::flag, "3us"}};
  std::vector<std::size_t> turns = {0, 1, 2};
  do {
    Options options;
    OptionSource strongest = OptionSource::default_value;
    for (const std::size_t turn : turns) {
      options.set(Option::spin, order[turn].text, order[turn].source, "somewhere");
      strongest = std::max(strongest, order[turn].source);
      EXPECT_EQ(options.source(Option::spin), strongest);
      EXPECT_EQ(options.duration_ns(Option::spin), 1'000 * static_cast<TimeNs>(strongest));
    }
  } while (std::next_permutation(turns.begin(), turns.end()));
}

TEST(Options, EnvironmentBeatsFile) {
  const ConfigFile file("spin = \"7us\"\nlink_delay = \"1ms\"\n");
  const std::string config = "CRATON_CONFIG=" + file.path();
  for (const bool config_first : {true, false}) {
    const Options options =
        config_first ? from({config.c_str(), "CRATON_SPIN=9us"}) : from({"CRATON_SPIN=9us", config.c_str()});
    EXPECT_EQ(options.duration_ns(Option::spin), 9'000);
    EXPECT_EQ(options.duration_ns(Option::link_delay), 1'000'000);
  }
}

TEST(Options, OfTwoEqualSourcesTheLaterWins) {
  Options options;
  options.set(Option::spin, "1us", OptionSource::flag, "flag --spin");
  options.set(Option::spin, "2us", OptionSource::flag, "flag --spin");
  EXPECT_EQ(options.duration_ns(Option::spin), 2'000);
}

TEST(Options, ABadValueNamesSourceValueProblemTypeAndLimits) {
  EXPECT_EQ(message_of([] { from({"CRATON_RING_BYTES=100000"}); }),
            "cannot use \"100000\" of environment variable CRATON_RING_BYTES: not a power of two (it takes a "
            "number of "
            "bytes such as 4096, 64Ki or 10M, a power of two, from 16Ki to 16Mi)");
  EXPECT_EQ(message_of([] { from({"CRATON_TRANSPORT=carrier-pigeon"}); }),
            "cannot use \"carrier-pigeon\" of environment variable CRATON_TRANSPORT: not one of the choices "
            "(it takes "
            "one of auto|shm|tcp|ucx)");
  EXPECT_EQ(message_of([] { Options().set(Option::spin, "11ms", OptionSource::flag, "flag --spin"); }),
            "cannot use \"11ms\" of flag --spin: above the maximum of 10ms (it takes a time such as 20us, "
            "1.5s or 5min, "
            "from 0s to 10ms)");
  EXPECT_EQ(message_of([] { Options().read_toml("\n\nspin = \"20\"\n", "job.toml"); }),
            "cannot use \"20\" of job.toml:3, key spin: without a unit (it takes a time such as 20us, 1.5s "
            "or 5min, from "
            "0s to 10ms)");
}

TEST(Options, ABadValueIsFoundEvenWhereAStrongerSourceWins) {
  EXPECT_NE(message_of([] {
              Options options;
              options.set(Option::spin, "1us", OptionSource::flag, "flag --spin");
              options.set(Option::spin, "soon", OptionSource::environment,
                          "environment variable CRATON_SPIN");
            }),
            "");
}

TEST(Options, ABadValueChangesNothing) {
  Options options;
  options.set(Option::spin, "3us", OptionSource::environment, "before");
  EXPECT_THROW(options.set(Option::spin, "bad", OptionSource::flag, "flag --spin"), Error);
  EXPECT_EQ(options.duration_ns(Option::spin), 3'000);
  EXPECT_EQ(options.where(Option::spin), "before");
}

TEST(Options, AnUnknownKeyNamesItsLineAndTheNearestName) {
  EXPECT_EQ(
      message_of([] { Options().read_toml("spin = \"1us\"\nlink_dealy = \"1ms\"\n", "job.toml"); }),
      "cannot use the key \"link_dealy\" of job.toml:2: no option has this name; did you mean link_delay?");
  EXPECT_EQ(
      message_of([] { Options().read_toml("link-delay = \"1ms\"\n", "job.toml"); }),
      "cannot use the key \"link-delay\" of job.toml:1: no option has this name; did you mean link_delay?");
  EXPECT_EQ(message_of([] { Options().read_toml("colour = 3\n", "job.toml"); }),
            "cannot use the key \"colour\" of job.toml:1: no option has this name; craton info --options "
            "lists all");
}

TEST(Options, TomlErrorsNameTheLine) {
  const std::string broken =
      message_of([] { Options().read_toml("spin = \"1us\"\n\nring_bytes = = 3\n", "job.toml"); });
  EXPECT_EQ(broken.find("cannot read job.toml:3: "), 0U) << broken;
  EXPECT_EQ(message_of([] { Options().read_toml("\nspin = [1, 2]\n", "job.toml"); }),
            "cannot use the key spin of job.toml:2: its value is no text, whole number or boolean (it takes "
            "a time such as "
            "20us, 1.5s or 5min, from 0s to 10ms)");
  EXPECT_NE(message_of([] { Options().read_toml("[spin]\nx = 1\n", "job.toml"); }), "");
  EXPECT_NE(message_of([] { Options().read_toml("spin = \"1us\"\nspin = \"2us\"\n", "job.toml"); }), "")
      << "twice";
}

TEST(Options, AMissingFileIsNotFound) {
  EXPECT_EQ(message_of([] { from({"CRATON_CONFIG=/no/such/file.toml"}); }, ErrorCode::not_found),
            "cannot read the config file /no/such/file.toml: No such file or directory; correct "
            "CRATON_CONFIG or --config");
}

TEST(Options, AHugeFileIsRefused) {
  const ConfigFile file(std::string(std::size_t{2} << 20, '#'));
  EXPECT_NE(message_of([&] { Options().read_file(file.path()); }).find("1 MiB at most"), std::string::npos);
}

TEST(Options, RanksGetWhatWasSetAndOnlyThat) {
  Options options;
  EXPECT_TRUE(options.rank_environment().empty());
  options.set(Option::spin, "1.5us", OptionSource::flag, "flag --spin");
  options.set(Option::isolate_nodes, "true", OptionSource::environment, "x");
  options.set(Option::tcp_interface, "", OptionSource::flag, "x");
  options.set(Option::output, "prefix", OptionSource::flag, "flag --output");
  options.set(Option::host, "a,b", OptionSource::flag, "flag --host");
  const std::vector<std::string> variables = options.rank_environment();
  EXPECT_EQ(variables, (std::vector<std::string>{"CRATON_ISOLATE_NODES=true", "CRATON_SPIN=1.5us",
                                                 "CRATON_TCP_INTERFACE="}))
      << "launcher options stay with the launcher; what was set to its default still replaces what is "
         "inherited";
}

TEST(Options, RanksSeeTheSameValuesAndNotTheFile) {
  const ConfigFile file(
      "ring_bytes = \"1Mi\"\nlink_bandwidth = 5000\nisolate_nodes = true\noutput = \"ordered\"\n");
  const std::string config = "CRATON_CONFIG=" + file.path();
  const Options launcher = from({config.c_str(), "CRATON_SPIN=3us"});
  std::vector<std::string> variables = launcher.rank_environment();
  EXPECT_EQ(variables.back(), "CRATON_CONFIG=");
  Environment environment;
  for (const std::string& variable : variables) environment.push_back(variable.c_str());
  const Options rank = from(environment);
  for (const OptionSpec& spec : option_table) {
    if (spec.scope == OptionScope::rank) {
      EXPECT_EQ(rank.value_text(spec.id), launcher.value_text(spec.id)) << spec.name;
    } else {
      EXPECT_EQ(rank.source(spec.id), OptionSource::default_value) << spec.name;
    }
  }
}

TEST(Options, MisspeltVariablesAreKeptForTheCommandToTell) {
  const Options options =
      from({"CRATON_SPIM=1us", "CRATON_CONFGI=x", "CRATON_RANK=3", "CRATON_CONFIG=", "CRATON_SIZE=4",
            "CRATON_OK=1", "CRATON_SOURCE=/x", "CRATONX=1", "CRATON_=1"});
  EXPECT_EQ(options.misspelt_variables(),
            (std::vector<std::string>{
                "environment variable CRATON_SPIM is no option of Craton; did you mean CRATON_SPIN?",
                "environment variable CRATON_CONFGI is no option of Craton; did you mean CRATON_CONFIG?"}))
      << "names that resemble no option may be anybody's";
}

TEST(NearestName, IsFoundForSlipsOfTheFingerOnly) {
  const std::vector<std::string> names = {"--spin", "--host", "--timeout", "--transport", "-n"};
  EXPECT_EQ(nearest_name("--spni", names), "--spin");
  EXPECT_EQ(nearest_name("--tiemout", names), "--timeout");
  EXPECT_EQ(nearest_name("-spin", names), "--spin");
  EXPECT_EQ(nearest_name("--transprot", names), "--transport");
  EXPECT_EQ(nearest_name("--colour", names), std::nullopt);
  EXPECT_EQ(nearest_name("-x", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
}

TEST(OptionListing, EveryFormNamesEveryOptionInAllItsForms) {
  Options options;
  options.set(Option::spin, "1us", OptionSource::environment, "environment variable CRATON_SPIN");
  const std::string text = options_as_text(options);
  const std::string markdown = options_as_markdown();
  const std::string man = options_as_man_page("1.2.3");
  for (const OptionSpec& spec : option_table) {
    for (const std::string& name : {std::string(spec.name), variable_name(spec), key_name(spec)}) {
      EXPECT_NE(text.find(name), text.npos) << name;
    }
    EXPECT_NE(markdown.find("`--" + std::string(spec.name) + "` | `" + variable_name(spec) + "` | `" +
                            key_name(spec) + "`"),
              markdown.npos)
        << spec.name;
    EXPECT_NE(man.find("Variable " + variable_name(spec) + ", key " + key_name(spec)), man.npos) << spec.name;
  }
  EXPECT_NE(text.find("1us            environment variable CRATON_SPIN"), text.npos) << text;
  EXPECT_NE(markdown.find("one of auto\\|shm\\|tcp\\|ucx"), markdown.npos) << "a bare | would end the cell";
  EXPECT_NE(man.find(".B \\-\\-link\\-delay TIME"), man.npos);
}

}  // namespace
}  // namespace craton
