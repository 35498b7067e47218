/// \file
/// The names that programs ask for: all that libgomp exports for OpenMP, in the same version nodes.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "shell.hpp"

namespace craton::omp::test {

namespace {

/// Names with their nodes ("GOMP_barrier@@GOMP_1.0"), of the nodes that are OpenMP's.
std::set<std::string> names_of(const std::string& library) {
  std::istringstream lines(
      craton::test::output_of("nm -D --defined-only --with-symbol-versions '" + library + "'"));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    const std::string name = space == std::string::npos ? line : line.substr(space + 1);
    const std::size_t node = name.find("@@");
    if (node == std::string::npos || node == 0) continue;
    const bool is_openmp = name.compare(node + 2, 5, "GOMP_") == 0 || name.compare(node + 2, 4, "OMP_") == 0;
    const bool is_plugin = name.compare(node + 2, 11, "GOMP_PLUGIN") == 0;
    if (is_openmp && !is_plugin && name.substr(0, node) != name.substr(node + 2)) names.insert(name);
  }
  return names;
}

}  // namespace

TEST(Names, AreLibgomps) {
  std::string libgomp =
      craton::test::output_of(std::string(CRATON_OMP_COMPILER) + " -print-file-name=libgomp.so.1");
  if (!libgomp.empty()) libgomp.pop_back();
  const std::set<std::string> theirs = names_of(libgomp);
  if (theirs.empty()) GTEST_SKIP() << "no libgomp.so.1 with the compiler";
  const std::set<std::string> ours = names_of(CRATON_OMP_NAMES);
  for (const std::string& name : theirs) EXPECT_TRUE(ours.count(name) != 0) << name << " is missing";
  for (const std::string& name : ours)
    EXPECT_TRUE(theirs.count(name) != 0) << name << " is none of libgomp's";
}

}  // namespace craton::omp::test
