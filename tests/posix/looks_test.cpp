/// \file
/// Which loops are found to wait for others, and what becomes of their loads.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "code_buffer.hpp"
#include "posix/atomics/looks.hpp"
#include "posix/atomics/patch.hpp"

extern "C" {
[[gnu::visibility("default")]] void form_other();
}
void form_other() {}

namespace craton::posix {
namespace {

std::vector<std::uintptr_t> functions_that_pause() {
  std::vector<std::uintptr_t> found;
  for (const char* const name : {"sched_yield", "usleep", "nanosleep"})
    found.push_back(reinterpret_cast<std::uintptr_t>(::dlsym(RTLD_DEFAULT, name)));
  return found;
}

/// An object of forms.
class LoopForms {
 public:
  explicit LoopForms(const std::string& level)
      : handle_(::dlopen((CRATON_LOOKS_FOLDER "/liblooks" + level + ".so").c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(::dlerror());
    map_ = code_map_at(find<const void>("wait_acquire")).value();
  }

  const CodeMap& map() const { return map_; }
  template <typename Symbol>
  Symbol* find(const char* name) const {
    return reinterpret_cast<Symbol*>(::dlsym(handle_, name));
  }
  void set(int value) const { find<void(int)>("set_forms")(value); }

 private:
  void* handle_;
  CodeMap map_;
};

struct Looked {
  const LoopForms* forms = nullptr;
  std::size_t calls = 0;
  std::size_t patient = 0;
  std::size_t in_vain = 0;  ///< before somebody ends the wait
} looked;

void on_form_look(const Look& look, Perform perform, void* state) {
  looked.patient += look.is_patient;
  EXPECT_GT(look.bytes, 0U);
  if (looked.calls++ == looked.in_vain) looked.forms->set(3);
  if (perform != nullptr) perform(state, look.address);
}
void no_atomic_of_form(void* address, std::size_t /*bytes*/, Perform perform, void* state) {
  perform(state, address);
}

/// Patched once, whatever the number of tests.
const LoopForms& patched(const std::string& level) {
  static std::map<std::string, LoopForms> all;
  const auto [found, is_new] = all.try_emplace(level, level);
  const LoopForms& forms = found->second;
  if (!is_new) return forms;
  const PatchReport report =
      patch(forms.map(), {.ranges = {{forms.map().image.begin, forms.map().image.end}},
                          .hooks = {.atomic = no_atomic_of_form, .flush = [] {}, .look = on_form_look},
                          .pauses = functions_that_pause()});
  EXPECT_GE(report.looks, 18U) << text_of(report);
  EXPECT_LE(report.traps.size(), 1U) << text_of(report);
  return forms;
}

class Looks : public testing::TestWithParam<const char*> {};

TEST_P(Looks, AreOfTheLoopsWhoseNameSaysSo) {
  const LoopForms forms(GetParam());
  const std::vector<std::uintptr_t> pauses = functions_that_pause();
  LookFinder finder(forms.map(), pauses);
  std::map<std::string, std::size_t> looks;
  for (const AddressRange& function : forms.map().functions) {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(function.begin), &info) == 0 || info.dli_sname == nullptr)
      continue;
    // The compiler may have split it.
    std::vector<Instruction> all = decode(function).instructions;
    finder.mark(finder.find(function), all);
    looks[info.dli_sname] += static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [](const Instruction& each) { return each.site == SiteKind::look; }));
  }
  // Without optimisation what is no instruction's operand but a function's is not seen.
  const bool is_optimised = std::string_view(GetParam()) != "O0";
  const std::set<std::string> plain = {"wait_volatile",       "wait_real",       "wait_openmp",
                                       "wait_builtin",        "wait_builtin_at", "wait_until_counted",
                                       "wait_entered_behind", "wait_at_length"};
  std::size_t waits = 0;
  std::size_t works = 0;
  for (const auto& [name, count] : looks) {
    if (name.starts_with("wait_")) {
      ++waits;
      EXPECT_GE(count, is_optimised || plain.count(name) != 0 ? 1U : 0U) << name;
    } else if (name.starts_with("work_")) {
      ++works;
      EXPECT_EQ(count, 0U) << name;
    }
  }
  EXPECT_EQ(waits, 23U);
  EXPECT_EQ(works, 14U);
  EXPECT_GE(looks.at("wait_for_either"), is_optimised ? 2U : 0U);
  EXPECT_EQ(looks.at("wait_entered_behind"), 2U);
}

bool counts_its_looks(std::string_view name) {
  return name == "wait_not_for_ever" || name == "wait_entered_behind";
}

/// Runs all that wait. One whose looks are not found would wait for ever: it ends after some seconds, without
/// having called the hook.
template <typename Around>
void run_all(const LoopForms& forms, const Around& around_one) {
  const auto around = [&](const char* name, const auto& run) {
    std::promise<void> over;
    const auto rescue = std::async(std::launch::async, [&, is_over = over.get_future()] {
      while (is_over.wait_for(std::chrono::seconds(5)) != std::future_status::ready) forms.set(3);
    });
    around_one(name, run);
    over.set_value();
  };
  for (const char* const name : {"wait_acquire", "wait_entered_behind", "wait_at_length", "wait_with_pause",
                                 "wait_with_yield", "wait_asleep", "wait_asleep_longer", "wait_volatile",
                                 "wait_real", "wait_openmp", "wait_builtin", "wait_backing_off"})
    around(name, [&] { forms.find<void()>(name)(); });
  auto* const states = forms.find<std::atomic<int>>("form_states");
  auto* const node = forms.find<void>("form_node");
  int result = 0;
  around("wait_builtin_at",
         [&] { forms.find<void(int*, int)>("wait_builtin_at")(forms.find<int>("form_plain"), 3); });
  around("wait_until_counted", [&] { forms.find<void(int)>("wait_until_counted")(3); });
  around("wait_in_array", [&] { forms.find<void(int)>("wait_in_array")(2); });
  around("wait_for_state", [&] { forms.find<int(void*)>("wait_for_state")(node); });
  around("wait_for_pointer", [&] { EXPECT_NE(forms.find<void*(void*)>("wait_for_pointer")(node), nullptr); });
  around("wait_for_sense", [&] { forms.find<void(bool)>("wait_for_sense")(true); });
  around("wait_not_for_ever", [&] { EXPECT_TRUE(forms.find<bool(int)>("wait_not_for_ever")(100)); });
  around("wait_for_either",
         [&] { EXPECT_NE(forms.find<int(void*, void*)>("wait_for_either")(states, states + 1), 0); });
  around("wait_then_store", [&] { forms.find<void(int*)>("wait_then_store")(&result); });
  EXPECT_EQ(result, 3);
  around("wait_for_all", [&] { forms.find<void(void*, int)>("wait_for_all")(states, 2); });
}

class OptimisedLooks : public testing::TestWithParam<const char*> {};

TEST_P(OptimisedLooks, CallTheHookUntilTheWaitIsOver) {
  const LoopForms& forms = patched(GetParam());
  run_all(forms, [&](const char* name, const auto& run) {
    forms.set(0);
    looked = {.forms = &forms, .calls = 0, .patient = 0, .in_vain = 5};
    run();
    EXPECT_GT(looked.calls, 5U) << name;
    // Of one that has two branches back, each its own loop, not all compilers' code is found to be patient.
    if (std::string_view(name) == "wait_backing_off") return;
    EXPECT_EQ(looked.patient, counts_its_looks(name) ? 0U : looked.calls) << name;
  });
}

/// Also the one look that compilers put before the loop.
TEST_P(OptimisedLooks, CallTheHookWhereThereIsNothingToWaitFor) {
  const LoopForms& forms = patched(GetParam());
  run_all(forms, [&](const char* name, const auto& run) {
    forms.set(3);
    looked = {.forms = &forms};
    run();
    EXPECT_GE(looked.calls, 1U) << name;
  });
}

INSTANTIATE_TEST_SUITE_P(CompiledBy, OptimisedLooks, testing::Values("O1", "O2", "O3", "Os"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           return std::string(tested.param);
                         });
INSTANTIATE_TEST_SUITE_P(CompiledBy, Looks, testing::Values("O0", "O1", "O2", "O3", "Os"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           return std::string(tested.param);
                         });

}  // namespace
}  // namespace craton::posix
