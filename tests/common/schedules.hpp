/// \file
/// Running random programs on many seeds, in parts that may run at the same time.
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only, in part 0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace craton {

inline constexpr std::uint64_t schedule_parts = 8;
/// Few schedules, as under a sanitizer, need not come to everything.
inline constexpr std::uint64_t schedules_that_come_to_all = 2000;

/// In half of the schedules of each part operations need the target's CPU, as over tcp.
inline bool agents_serve(std::uint64_t seed) {
  return seed / schedule_parts % 2 == 0;
}

/// What schedules came to, and how often.
using Seen = std::map<std::string, std::uint64_t>;

inline std::optional<std::uint64_t> from_environment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

/// \param most unless the environment says otherwise; under sanitizers `few`
inline std::uint64_t schedules_wanted(std::uint64_t most, [[maybe_unused]] std::uint64_t few) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CRATON_SLOW_ASSERTIONS)
  most = few;
#endif
  return from_environment("CRATON_SIM_SEEDS").value_or(most);
}

struct Schedules {
  std::uint64_t count = 0;
  Seen seen;
};

/// Makes a Run for each seed of a part; its go() tells what failed, its `seen` what it came to. Ends with the
/// first failure, which fails the test, and records what was seen.
template <typename Run>
Schedules run_schedules(std::uint64_t part, std::uint64_t wanted) {
  const std::optional<std::uint64_t> only = from_environment("CRATON_SIM_SEED");
  Schedules all;
  for (std::uint64_t seed = only.value_or(part + 1); seed <= only.value_or(wanted); seed += schedule_parts) {
    Run run(seed);
    const std::string failure = run.go();
    ++all.count;
    for (const auto& [name, count] : run.seen) all.seen[name] += count;
    EXPECT_EQ(failure, "");
    if (!failure.empty()) break;
  }
  for (const auto& [name, count] : all.seen) testing::Test::RecordProperty(name, std::to_string(count));
  testing::Test::RecordProperty("schedules", std::to_string(all.count));
  return all;
}

/// \param names of what schedules come to
template <typename Names>
void expect_names_seen(const Schedules& all, const Names& names) {
  if (all.count < schedules_that_come_to_all) return;
  for (const auto& name : names) {
    const auto found = all.seen.find(name);
    EXPECT_TRUE(found != all.seen.end() && found->second > 0) << "no schedule came to " << name;
  }
}

/// \param counted pairs of such a name and anything
template <typename Counted>
void expect_all_seen(const Schedules& all, const Counted& counted) {
  std::vector<std::string> names;
  for (const auto& [name, what] : counted) names.emplace_back(name);
  expect_names_seen(all, names);
}

}  // namespace craton
