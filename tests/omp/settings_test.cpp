/// \file
/// OMP_* variables: what libgomp 12 makes of them.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "omp/settings.hpp"

namespace craton::omp::test {

namespace {

std::map<std::string, std::string> variables;
std::vector<std::string> warnings;

const char* variable(const char* name) {
  const auto found = variables.find(name);
  return found != variables.end() ? found->second.c_str() : nullptr;
}

Settings parse(const std::map<std::string, std::string>& given) {
  variables = given;
  warnings.clear();
  return Settings::parse(2, Topology({0, 1, 2, 3}, "/nowhere"), variable,
                         [](const std::string& line) { warnings.push_back(line); });
}

constexpr auto dynamic_schedule = static_cast<std::uint32_t>(Schedule::dynamic);

}  // namespace

TEST(Settings, Defaults) {
  const Settings settings = parse({});
  EXPECT_TRUE(settings.threads.empty());
  EXPECT_EQ(settings.icvs.schedule, dynamic_schedule);
  EXPECT_EQ(settings.icvs.chunk, 1);
  EXPECT_EQ(settings.icvs.max_active_levels, 1U);
  EXPECT_EQ(settings.icvs.thread_limit, no_thread_limit);
  EXPECT_TRUE(warnings.empty());
}

TEST(Settings, Lists) {
  const Settings settings = parse({{"OMP_NUM_THREADS", " 4 , 3"}});
  EXPECT_EQ(settings.threads, (std::vector<std::uint32_t>{4, 3}));
  EXPECT_EQ(settings.icvs.max_active_levels, active_levels_at_most);
  EXPECT_EQ(parse({{"OMP_NUM_THREADS", "+4,+3"}}).threads, (std::vector<std::uint32_t>{4, 3}));
  EXPECT_EQ(parse({{"OMP_PROC_BIND", "spread,close"}}).icvs.max_active_levels, active_levels_at_most);
  EXPECT_EQ(parse({{"OMP_NUM_THREADS", "4,3"}, {"OMP_NESTED", "false"}}).icvs.max_active_levels, 1U);
}

TEST(Settings, Binding) {
  const Settings none = parse({});
  EXPECT_EQ(none.icvs.bind, Binding::none);
  EXPECT_TRUE(none.places.empty());
  // Places that are given bind; a binding without places takes every processor for one.
  const Settings places = parse({{"OMP_PLACES", "{0:2},{2:2}"}});
  EXPECT_EQ(places.icvs.bind, Binding::any);
  EXPECT_EQ(text_of(places.places), "{0:2},{2:2}");
  const Settings close = parse({{"OMP_PROC_BIND", "close"}});
  EXPECT_EQ(close.icvs.bind, Binding::close);
  EXPECT_EQ(close.places.size(), 4U);
  EXPECT_TRUE(parse({{"OMP_PROC_BIND", "false"}, {"OMP_PLACES", "cores"}}).places.empty());
  EXPECT_EQ(text_of(parse({{"GOMP_CPU_AFFINITY", "3 0-1"}}).places), "{3},{0},{1}");
  EXPECT_EQ(text_of(parse({{"GOMP_CPU_AFFINITY", "3"}, {"OMP_PLACES", "{1}"}}).places), "{1}");
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(parse({{"OMP_PROC_BIND", "spread,close"}}).bindings,
            (std::vector<Binding>{Binding::spread, Binding::close}));
  EXPECT_EQ(parse({{"OMP_PROC_BIND", "true,close"}}).icvs.bind, Binding::none);
  EXPECT_EQ(warnings,
            std::vector<std::string>{"libgomp: Invalid value for environment variable OMP_PROC_BIND"});
  EXPECT_TRUE(parse({{"OMP_PLACES", "{7}"}}).places.empty());
  EXPECT_EQ(warnings, std::vector<std::string>{"libgomp: None of the places contain usable logical CPUs"});
  parse({{"OMP_PLACES", "{3}:2"}});
  EXPECT_EQ(warnings.size(), 1U);
}

TEST(Settings, Schedules) {
  struct Case {
    const char* text;
    std::uint32_t schedule;
    std::int32_t chunk;
  };
  const std::vector<Case> cases{
      {"static", 0x80000001U, 0},
      {"guided,4", 3, 4},
      {"monotonic:dynamic,3", 0x80000002U, 3},
      {"static,0", 0x80000001U, 0},
      {"auto,3", 4, 3},
      {"nonmonotonic:dynamic", 2, 1},
      {"Static , 7", 0x80000001U, 7},
      {"static,+4", 0x80000001U, 4},
  };
  for (const Case& one : cases) {
    const Settings settings = parse({{"OMP_SCHEDULE", one.text}});
    EXPECT_EQ(settings.icvs.schedule, one.schedule) << one.text;
    EXPECT_EQ(settings.icvs.chunk, one.chunk) << one.text;
    EXPECT_TRUE(warnings.empty()) << one.text;
  }
  EXPECT_EQ(parse({{"OMP_SCHEDULE", "often"}}).icvs.schedule, dynamic_schedule);
  EXPECT_EQ(warnings,
            std::vector<std::string>{"libgomp: Unknown value for environment variable OMP_SCHEDULE"});
}

TEST(Settings, BadValuesWarnOnce) {
  const std::map<std::string, std::string> bad{
      {"OMP_NUM_THREADS", "0"},  {"OMP_DYNAMIC", "1"},      {"OMP_MAX_ACTIVE_LEVELS", "-1"},
      {"OMP_THREAD_LIMIT", "0"}, {"OMP_WAIT_POLICY", "x"},  {"OMP_STACKSIZE", "12Q"},
      {"OMP_PROC_BIND", "up"},   {"OMP_DISPLAY_ENV", "x"},  {"OMP_MAX_TASK_PRIORITY", "-1"},
      {"OMP_NESTED", "yes"},     {"OMP_CANCELLATION", "1"}, {"OMP_NUM_TEAMS", "+-1"},
  };
  for (const auto& [name, value] : bad) {
    parse({{name, value}});
    EXPECT_EQ(warnings, std::vector<std::string>{"libgomp: Invalid value for environment variable " + name});
  }
}

TEST(Settings, StackSizes) {
  EXPECT_EQ(parse({{"OMP_STACKSIZE", "3M"}}).stack_bytes, std::size_t{3} << 20U);
  EXPECT_EQ(parse({{"OMP_STACKSIZE", "512"}}).stack_bytes, std::size_t{512} << 10U);
  EXPECT_EQ(parse({{"OMP_STACKSIZE", "100B"}}).stack_bytes, 100U);
  EXPECT_EQ(parse({{"GOMP_STACKSIZE", "1g"}}).stack_bytes, std::size_t{1} << 30U);
  EXPECT_EQ(parse({{"OMP_STACKSIZE", "2M"}, {"GOMP_STACKSIZE", "1G"}}).stack_bytes, std::size_t{2} << 20U);
}

TEST(Settings, AreDisplayedAsLibgompDoes) {
  const Settings settings = parse({{"OMP_NUM_THREADS", "3,2"}, {"OMP_SCHEDULE", "static,7"}});
  const std::string text = settings.text(2, false);
  EXPECT_NE(text.find("\nOPENMP DISPLAY ENVIRONMENT BEGIN\n  _OPENMP = '201511'\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("  OMP_NUM_THREADS = '3,2'\n  OMP_SCHEDULE = 'STATIC,7'\n"), std::string::npos) << text;
  EXPECT_NE(settings.text(2, true).find("  GOMP_SPINCOUNT = '300000'\n"), std::string::npos);
  EXPECT_NE(text.find("  OMP_THREAD_LIMIT = '4294967295'\n  OMP_MAX_ACTIVE_LEVELS = '255'\n"),
            std::string::npos)
      << text;
}

}  // namespace craton::omp::test
