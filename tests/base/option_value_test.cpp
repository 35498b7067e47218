#include "base/option_value.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace craton {
namespace {

constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();

OptionSpec spec_with(OptionType type, std::int64_t minimum = std::numeric_limits<std::int64_t>::min(),
                     std::int64_t maximum = max, bool power_of_two = false) {
  return {.id = Option::spin,
          .name = "x",
          .type = type,
          .scope = OptionScope::rank,
          .default_text = "",
          .help = "",
          .minimum = minimum,
          .maximum = maximum,
          .power_of_two = power_of_two,
          .choices = "raw|prefix|ordered"};
}

struct Case {
  OptionType type;
  const char* text;
  std::int64_t number;
};

class GoodValue : public testing::TestWithParam<Case> {};

TEST_P(GoodValue, HasItsNumber) {
  const ParsedValue parsed = parse_value(spec_with(GetParam().type), GetParam().text);
  EXPECT_EQ(parsed.problem, "") << GetParam().text;
  EXPECT_EQ(parsed.number, GetParam().number) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    , GoodValue,
    testing::Values(
        Case{OptionType::bytes, "0", 0}, Case{OptionType::bytes, "4096", 4096},
        Case{OptionType::bytes, "1k", 1000}, Case{OptionType::bytes, "1K", 1000},
        Case{OptionType::bytes, "64Ki", 65536}, Case{OptionType::bytes, "64KiB", 65536},
        Case{OptionType::bytes, "7B", 7}, Case{OptionType::bytes, "3M", 3'000'000},
        Case{OptionType::bytes, "3Mi", 3 << 20}, Case{OptionType::bytes, "1.5Ki", 1536},
        Case{OptionType::bytes, "12.5G", 12'500'000'000},
        Case{OptionType::bytes, "2Gi", std::int64_t{2} << 30},
        Case{OptionType::bytes, "1T", 1'000'000'000'000},
        Case{OptionType::bytes, "8388607Ti", std::int64_t{8388607} << 40},
        Case{OptionType::bytes, "10 MiB", 10 << 20}, Case{OptionType::bytes, "9223372036854775807", max},
        Case{OptionType::duration, "0", 0}, Case{OptionType::duration, "0.0", 0},
        Case{OptionType::duration, "20us", 20'000}, Case{OptionType::duration, "1.5s", 1'500'000'000},
        Case{OptionType::duration, "7ns", 7}, Case{OptionType::duration, "0.25ms", 250'000},
        Case{OptionType::duration, "5min", 300'000'000'000},
        Case{OptionType::duration, "2h", 7'200'000'000'000}, Case{OptionType::duration, "0.000001s", 1'000},
        Case{OptionType::integer, "-12", -12}, Case{OptionType::integer, "4096", 4096},
        Case{OptionType::flag, "yes", 1}, Case{OptionType::flag, "1", 1}, Case{OptionType::flag, "on", 1},
        Case{OptionType::flag, "true", 1}, Case{OptionType::flag, "no", 0}, Case{OptionType::flag, "0", 0},
        Case{OptionType::flag, "off", 0}, Case{OptionType::flag, "false", 0},
        Case{OptionType::automatic, "yes", 1}, Case{OptionType::automatic, "off", 0},
        Case{OptionType::automatic, "auto", 2}, Case{OptionType::choice, "raw", 0},
        Case{OptionType::choice, "prefix", 0}, Case{OptionType::choice, "ordered", 0},
        Case{OptionType::text, "", 0}, Case{OptionType::text, "a b,c", 0}));

struct BadCase {
  OptionType type;
  const char* text;
  const char* problem;
};

class BadValue : public testing::TestWithParam<BadCase> {};

TEST_P(BadValue, SaysWhatIsWrong) {
  EXPECT_EQ(parse_value(spec_with(GetParam().type), GetParam().text).problem, GetParam().problem)
      << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    , BadValue,
    testing::Values(BadCase{OptionType::bytes, "", "not a number"},
                    BadCase{OptionType::bytes, "lots", "not a number"},
                    BadCase{OptionType::bytes, "-1", "negative"},
                    BadCase{OptionType::bytes, "1.", "not a number"},
                    BadCase{OptionType::bytes, ".5Ki", "not a number"},
                    BadCase{OptionType::bytes, "0.3", "not a whole number of bytes"},
                    BadCase{OptionType::bytes, "1.0001Ki", "not a whole number of bytes"},
                    BadCase{OptionType::bytes, "4Kb", "unknown unit \"Kb\""},
                    BadCase{OptionType::bytes, "4 4", "unknown unit \"4\""},
                    BadCase{OptionType::bytes, "1e3", "unknown unit \"e3\""},
                    BadCase{OptionType::bytes, "0x10", "unknown unit \"x10\""},
                    BadCase{OptionType::bytes, " 4", "not a number"},
                    BadCase{OptionType::bytes, "1.0000001M", "more than 6 digits after the point"},
                    BadCase{OptionType::bytes, "9223372036854775808", "too large"},
                    BadCase{OptionType::bytes, "8388608Ti", "too large"},
                    BadCase{OptionType::bytes, "99999999999999999999", "too large"},
                    BadCase{OptionType::duration, "20", "without a unit"},
                    BadCase{OptionType::duration, "0.5", "without a unit"},
                    BadCase{OptionType::duration, "20 sec", "unknown unit \"sec\""},
                    BadCase{OptionType::duration, "1.5ns", "not a whole number of nanoseconds"},
                    BadCase{OptionType::duration, "3000000h", "too large"},
                    BadCase{OptionType::duration, "-1s", "negative"},
                    BadCase{OptionType::integer, "4.0", "not a whole number"},
                    BadCase{OptionType::integer, "", "not a whole number"},
                    BadCase{OptionType::integer, "4 ", "not a whole number"},
                    BadCase{OptionType::integer, "9223372036854775808", "too large"},
                    BadCase{OptionType::integer, "-9223372036854775809", "too small"},
                    BadCase{OptionType::flag, "", "neither yes nor no"},
                    BadCase{OptionType::flag, "Yes", "neither yes nor no"},
                    BadCase{OptionType::flag, "2", "neither yes nor no"},
                    BadCase{OptionType::flag, "auto", "neither yes nor no"},
                    BadCase{OptionType::automatic, "", "none of yes, no and auto"},
                    BadCase{OptionType::automatic, "Auto", "none of yes, no and auto"},
                    BadCase{OptionType::choice, "", "not one of the choices"},
                    BadCase{OptionType::choice, "ra", "not one of the choices"},
                    BadCase{OptionType::choice, "raw|prefix", "not one of the choices"},
                    BadCase{OptionType::choice, "raww", "not one of the choices"},
                    BadCase{OptionType::text, "two\nlines", "holds a control character"}));

TEST(OptionValue, LimitsAreInclusive) {
  const OptionSpec spec = spec_with(OptionType::bytes, 4096, 16384);
  EXPECT_EQ(parse_value(spec, "4Ki").problem, "");
  EXPECT_EQ(parse_value(spec, "16Ki").problem, "");
  EXPECT_EQ(parse_value(spec, "4095").problem, "below the minimum of 4Ki");
  EXPECT_EQ(parse_value(spec, "16385").problem, "above the maximum of 16Ki");
  EXPECT_EQ(parse_value(spec_with(OptionType::integer, 0, 10), "-1").problem, "below the minimum of 0");
  EXPECT_EQ(parse_value(spec_with(OptionType::duration, 0, 10'000'000), "10.001ms").problem,
            "above the maximum of 10ms");
}

TEST(OptionValue, PowersOfTwo) {
  const OptionSpec spec = spec_with(OptionType::bytes, 1, max, true);
  EXPECT_EQ(parse_value(spec, "1").problem, "");
  EXPECT_EQ(parse_value(spec, "64Ki").problem, "");
  EXPECT_EQ(parse_value(spec, "64k").problem, "not a power of two");
  EXPECT_EQ(parse_value(spec, "96Ki").problem, "not a power of two");
}

TEST(OptionValue, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(format_value(OptionType::bytes, 0), "0");
  EXPECT_EQ(format_value(OptionType::bytes, 65536), "64Ki");
  EXPECT_EQ(format_value(OptionType::bytes, 16 << 20), "16Mi");
  EXPECT_EQ(format_value(OptionType::bytes, 3'000'000), "3M");
  EXPECT_EQ(format_value(OptionType::bytes, 1025), "1025");
  EXPECT_EQ(format_value(OptionType::duration, 20'000), "20us");
  EXPECT_EQ(format_value(OptionType::duration, 90'000'000'000), "90s");
  EXPECT_EQ(format_value(OptionType::duration, 1), "1ns");
  EXPECT_EQ(format_value(OptionType::integer, -5), "-5");
  EXPECT_EQ(format_value(OptionType::flag, 1), "yes");
  EXPECT_EQ(format_value(OptionType::automatic, 0), "no");
  EXPECT_EQ(format_value(OptionType::automatic, 2), "auto");
}

TEST(OptionValue, WhatIsWrittenIsReadBackAsTheSame) {
  for (const OptionType type : {OptionType::bytes, OptionType::duration, OptionType::integer}) {
    std::uint64_t random = 12345;
    for (int i = 0; i < 2000; ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      const auto number = static_cast<std::int64_t>(random >> (1 + random % 60));
      const std::string text = format_value(type, number);
      const ParsedValue parsed = parse_value(spec_with(type), text);
      ASSERT_EQ(parsed.problem, "") << text;
      ASSERT_EQ(parsed.number, number) << text;
    }
  }
}

}  // namespace
}  // namespace craton
