/// \file
/// `craton info --entry-points`: all names that libgomp 12 and libomp 14 export, with those that programs
/// find here. And what scripts/conformance reads of a test of libgomp's.
#include <gtest/gtest.h>

#include <unistd.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "shell.hpp"

namespace craton {
namespace {

constexpr const char* libomp_node = "VERSION";

/// "NODE NAME" of all that a library exports in nodes of libgomp's or libomp's. A name may be in one of each.
std::set<std::string> exported_names(const std::string& library) {
  std::istringstream lines(
      test::output_of("nm -D --defined-only --with-symbol-versions '" + library + "' 2>/dev/null"));
  std::set<std::string> names;
  for (std::string address, kind, name; lines >> address >> kind >> name;) {
    const std::size_t at = name.find('@');
    if (at == std::string::npos || kind == "A") continue;
    const std::size_t node = name.find_first_not_of('@', at);
    if (name[at + 1] == '@' || name.substr(node) == libomp_node)
      names.insert(name.substr(node) + " " + name.substr(0, at));
  }
  return names;
}

struct Listed {
  std::set<std::string> all;
  std::set<std::string> there;

  /// Those of one of the runtimes.
  std::set<std::string> of(bool libomp) const {
    std::set<std::string> names;
    for (const std::string& name : all) {
      if (name.starts_with(libomp_node) == libomp) names.insert(name);
    }
    return names;
  }
};

Listed listed_names() {
  std::istringstream lines(test::output_of(std::string(CRATON_COMMAND) + " info --entry-points"));
  Listed listed;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string node;
    std::string name;
    std::string answer;
    words >> node >> name >> answer;
    if (answer != "yes" && answer != "no") continue;  // the sum
    listed.all.insert(node + " " + name);
    if (answer == "yes") listed.there.insert(node + " " + name);
    std::string note;
    words >> note;
    EXPECT_TRUE(answer == "yes" || !note.empty()) << line << ": it says not why";
  }
  return listed;
}

TEST(EntryPoints, AreAllOfLibgomps) {
  std::string libgomp = test::output_of("gcc -print-file-name=libgomp.so.1");
  if (!libgomp.empty()) libgomp.pop_back();
  const std::set<std::string> theirs = exported_names(libgomp);
  if (theirs.count("GOMP_5.1 GOMP_error") == 0 || theirs.count("GOMP_5.1.1 GOMP_taskwait_depend_nowait") != 0)
    GTEST_SKIP() << "no libgomp.so.1 of GCC 12 with the compiler";
  EXPECT_EQ(listed_names().of(false), theirs);
}

TEST(EntryPoints, AreAllOfLibomps) {
  std::string libomp = test::output_of("clang-14 -print-file-name=libomp.so.5 2>/dev/null");
  if (!libomp.empty()) libomp.pop_back();
  std::set<std::string> theirs = exported_names(libomp);
  if (theirs.count("VERSION __kmpc_fork_call") == 0)
    GTEST_SKIP() << "no libomp.so.5 of LLVM 14 with clang-14";
  std::erase_if(theirs, [](const std::string& name) { return !name.starts_with(libomp_node); });
  // What later clangs call.
  theirs.insert({"VERSION __kmpc_fork_call_if", "VERSION __kmpc_omp_taskwait_deps_51"});
  EXPECT_EQ(listed_names().of(true), theirs);
}

TEST(EntryPoints, ThatAreThereAreInTheLibrary) {
  const std::string library =
      (std::filesystem::path(CRATON_COMMAND).parent_path().parent_path() / "lib/libcraton-run.so").string();
  if (::access(library.c_str(), R_OK) != 0) GTEST_SKIP() << "no " << library << " in this build";
  const std::set<std::string> ours = exported_names(library);
  const Listed listed = listed_names();
  EXPECT_GT(listed.there.size(), 1000U);
  for (const std::string& name : listed.there) EXPECT_EQ(ours.count(name), 1U) << name;
  for (const std::string& name : listed.all)
    EXPECT_EQ(ours.count(name), listed.there.count(name)) << name << " is there";
}

// ---- scripts/conformance

nlohmann::json described(const std::string& source) {
  std::string name = (std::filesystem::temp_directory_path() / "craton-dg-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) throw std::runtime_error("no temporary file");
  ::close(file);
  std::ofstream(name) << source;
  const std::string text = test::output_of("python3 " CRATON_CONFORMANCE " --describe '" + name + "'");
  std::filesystem::remove(name);
  return nlohmann::json::parse(text);
}

using Words = std::vector<std::string>;

TEST(Conformance, ReadsOptions) {
  EXPECT_EQ(described("int main () {}\n")["options"], Words({"-O2"}));
  const auto said = described(
      "/* { dg-do run } */\n"
      "/* { dg-options \"-O1 -DX='a b'\" } */\n"
      "/* { dg-additional-options \"-msse2\" { target sse2_runtime } } */\n"
      "/* { dg-additional-options \"-mieee\" { target alpha*-*-* } } */\n"
      "/* { dg-additional-options \"-mcx16\" { target { { i?86-*-* x86_64-*-* } && lp64 } } } */\n"
      "/* { dg-additional-options \"-DLESS\" { target { ! run_expensive_tests } } } */\n");
  EXPECT_EQ(said["options"], Words({"-O1", "-DX=a b", "-msse2", "-mcx16", "-DLESS"}));
  EXPECT_EQ(said["action"], "run");
  EXPECT_EQ(said["skipped"], "");
}

TEST(Conformance, ReadsWhatIsNotForThisMachine) {
  EXPECT_NE(described("! { dg-do run { target { offload_target_nvptx } } }\n")["skipped"], "");
  EXPECT_EQ(described("! { dg-do run { target *-*-linux* *-*-gnu* } }\n")["skipped"], "");
  EXPECT_EQ(described("! { dg-do run { target { vect_simd_clones && lto } } }\n")["skipped"], "");
  EXPECT_NE(described("// { dg-require-effective-target offload_device }\n")["skipped"], "");
  EXPECT_EQ(described("// { dg-require-effective-target size32plus }\n")["skipped"], "");
  EXPECT_NE(described("/* { dg-skip-if \"no\" { *-*-* } } */\n")["skipped"], "");
  EXPECT_EQ(described("! { dg-skip-if \"\" { ! run_expensive_tests } { \"*\" } { \"-O2\" } }\n")["skipped"],
            "");
  EXPECT_EQ(described("/* { dg-do compile } */\n")["action"], "compile");
}

TEST(Conformance, ReadsWhatARunIsToDo) {
  const auto said = described(
      "/* { dg-set-target-env-var OMP_PLACES \"{6,7}:4:-2,!{2,3}\" } */\n"
      "/* { dg-additional-sources \"a.c b.c\" } */\n"
      "/* { dg-shouldfail \"error directive\" } */\n"
      "/* { dg-output \"libgomp: one(\\n|\\r)\" } */\n"
      "/* { dg-output \"two \\[0-9\\]\" } */\n");
  EXPECT_EQ(said["environment"]["OMP_PLACES"], "{6,7}:4:-2,!{2,3}");
  EXPECT_EQ(said["sources"], Words({"a.c", "b.c"}));
  EXPECT_EQ(said["should_fail"], true);
  EXPECT_EQ(said["output"], "libgomp: one(\n|\r)two [0-9]");
}

}  // namespace
}  // namespace craton
