/// \file
/// Which atomic instructions are recognised as ends of reductions, and what of a part that is put off.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "posix/atomics/instruction.hpp"
#include "posix/atomics/patch.hpp"
#include "posix/atomics/reduction.hpp"

extern "C" {
[[gnu::visibility("default")]] void meet_others();
[[gnu::visibility("default")]] void pass_others();
}

namespace craton::posix {
namespace {

using EndOfReduction = void(void* variable, long part, double real);
using Operation = Arithmetic::Operation;

struct State {
  bool may = false;
  bool has_room = true;
  int done = 0;  ///< operations that were not put off
  int meetings = 0;
  std::vector<std::uint64_t> parts;
  Reduction reduction;
} state;

bool may_put_off(const Reduction& /*reduction*/) {
  return state.may;
}
bool put_off(void* /*address*/, const Reduction& reduction, std::uint64_t part) {
  if (!state.has_room) return false;
  state.parts.push_back(part);
  state.reduction = reduction;
  return true;
}
void do_it(void* address, std::size_t /*bytes*/, Perform perform, void* with) {
  ++state.done;
  perform(with, address);
}

/// What others share, on a page of its own.
struct alignas(4096) Page {
  std::array<std::uint64_t, 512> words;
} page;

/// The object of forms, as it is and patched.
class Forms {
 public:
  static const Forms& get() {
    static const Forms made;
    return made;
  }
  EndOfReduction* find(const std::string& name) const {
    return reinterpret_cast<EndOfReduction*>(::dlsym(handle_, name.c_str()));
  }
  const PatchReport& report() const { return report_; }
  /// By form: of its first atomic instruction.
  const std::map<std::string, Reduction>& reductions() const { return reductions_; }

 private:
  Forms() : handle_(::dlopen(CRATON_FORMS, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    const CodeMap map = *code_map_at(reinterpret_cast<const void*>(find("is_at_the_end")));
    const auto* const barrier = reinterpret_cast<const void*>(&meet_others);
    for (const AddressRange& function : map.functions) {
      Dl_info info{};
      if (::dladdr(reinterpret_cast<const void*>(function.begin), &info) == 0 || info.dli_sname == nullptr)
        continue;
      for (const Instruction& instruction : decode(function).instructions) {
        if (instruction.site != SiteKind::atomic) continue;
        reductions_.try_emplace(info.dli_sname, find_reduction(map, decode_site(instruction), barrier));
      }
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(&page);
    report_ = patch(
        map, {.ranges = {{.begin = begin, .end = begin + sizeof page}},
              .hooks = {.atomic = do_it, .flush = [] {}, .may_put_off = may_put_off, .put_off = put_off},
              .barrier = barrier});
  }

  void* handle_;
  std::map<std::string, Reduction> reductions_;
  PatchReport report_;
};

TEST(Reductions, AreThoseWhoseNameSaysSo) {
  std::size_t recognised = 0;
  for (const auto& [name, reduction] : Forms::get().reductions()) {
    EXPECT_EQ(reduction.way != Reduction::Way::none, name.starts_with("is_")) << name;
    recognised += reduction.way != Reduction::Way::none;
  }
  EXPECT_EQ(recognised, 18U);
  EXPECT_EQ(Forms::get().reductions().size(), 51U);
  EXPECT_EQ(Forms::get().report().reductions, recognised);
}

TEST(Reductions, AreOfTheOperationThatTheCodeDoes) {
  const auto& all = Forms::get().reductions();
  const auto arithmetic = [&](const char* name) { return all.at(name).arithmetic; };
  EXPECT_EQ(arithmetic("is_real_as_gcc_writes_it"), (Arithmetic{Operation::add, true, 8}));
  EXPECT_EQ(arithmetic("is_product_of_reals"), (Arithmetic{Operation::multiply, true, 8}));
  EXPECT_EQ(arithmetic("is_short_real"), (Arithmetic{Operation::add, true, 4}));
  EXPECT_EQ(arithmetic("is_integer_by_lea"), (Arithmetic{Operation::add, false, 4}));
  EXPECT_EQ(arithmetic("is_product_of_integers"), (Arithmetic{Operation::multiply, false, 8}));
  EXPECT_EQ(arithmetic("is_difference_at_once"), (Arithmetic{Operation::add, false, 2}));
  EXPECT_EQ(arithmetic("is_or_at_once"), (Arithmetic{Operation::bit_or, false, 1}));
  EXPECT_EQ(arithmetic("is_and_at_once"), (Arithmetic{Operation::bit_and, false, 4}));
  EXPECT_EQ(arithmetic("is_xor_at_once"), (Arithmetic{Operation::bit_xor, false, 8}));
  EXPECT_EQ(all.at("is_at_the_end").meeting, Reduction::Meeting::end);
  EXPECT_EQ(all.at("is_at_the_end").function,
            reinterpret_cast<std::uintptr_t>(Forms::get().find("is_at_the_end")));
  EXPECT_EQ(all.at("is_integer_at_once").meeting, Reduction::Meeting::barrier);
}

bool can_run(const std::string& name, const Reduction& reduction) {
  return reduction.way != Reduction::Way::none &&
         (name != "is_real_of_three_operands" || __builtin_cpu_supports("avx"));
}

/// A form by itself, and its part made part of the variable later, must come to the same.
class PutOff : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PutOff, ComesToTheSame) {
  const long part = -0x123456789;
  const double real = -0.37;
  for (const auto& [name, reduction] : Forms::get().reductions()) {
    if (!can_run(name, reduction)) continue;
    EndOfReduction* const form = Forms::get().find(name);
    std::uint64_t& variable = page.words[0];
    state = {};
    variable = GetParam();
    form(&variable, part, real);
    const std::uint64_t expected = variable;
    EXPECT_EQ(state.done, 1) << name;

    state = {};
    state.may = true;
    variable = GetParam();
    form(&variable, part, real);
    EXPECT_EQ(state.done, 0) << name;
    EXPECT_EQ(variable, GetParam()) << name;
    EXPECT_EQ(state.meetings, reduction.meeting == Reduction::Meeting::barrier ? 1 : 0) << name;
    ASSERT_EQ(state.parts.size(), 1U) << name;
    const Arithmetic& arithmetic = state.reduction.arithmetic;
    const std::uint64_t sum = arithmetic.combine(GetParam(), state.parts[0]);
    EXPECT_EQ(std::memcmp(&sum, &expected, arithmetic.bytes), 0) << name << " " << sum << " " << expected;
  }
}
INSTANTIATE_TEST_SUITE_P(Reductions, PutOff,
                         testing::Values(0, 7, std::bit_cast<std::uint64_t>(-0.0),
                                         std::bit_cast<std::uint64_t>(1.0),
                                         std::bit_cast<std::uint64_t>(1e17), 0x3f800000));

TEST(Reductions, AreDoneWhereThereIsNoRoom) {
  for (const auto& [name, reduction] : Forms::get().reductions()) {
    if (!can_run(name, reduction)) continue;
    EndOfReduction* const form = Forms::get().find(name);
    std::uint64_t& variable = page.words[0];
    state = {};
    variable = 12;
    form(&variable, 5, 2.5);
    const std::uint64_t expected = variable;
    state = {};
    state.may = true;
    state.has_room = false;
    variable = 12;
    form(&variable, 5, 2.5);
    EXPECT_EQ(variable, expected) << name;
    EXPECT_GE(state.done, 1) << name;
  }
}

TEST(Reductions, InPrivateMemoryAreDoneAtOnce) {
  for (const auto& [name, reduction] : Forms::get().reductions()) {
    if (!can_run(name, reduction)) continue;
    state = {};
    state.may = true;
    std::uint64_t variable = 12;
    Forms::get().find(name)(&variable, 5, 2.5);
    EXPECT_TRUE(state.parts.empty()) << name;
    EXPECT_EQ(state.done, 0) << name;
    EXPECT_NE(variable, 12U) << name;
  }
}

}  // namespace
}  // namespace craton::posix

void meet_others() {
  ++craton::posix::state.meetings;
}
void pass_others() {}
