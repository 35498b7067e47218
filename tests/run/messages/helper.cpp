/// \file
/// A library that seems to be the system's, without OpenMP, and calls one of the program's before main: see
/// constructors.cpp. Its own data are each rank's.
#include <vector>

void add_name(const char* name);

namespace {

struct Helper {
  Helper() { add_name("helper"); }
  std::vector<int> answers = std::vector<int>(1, 42);
};
Helper helper;

}  // namespace

int answer() {
  return helper.answers[0];
}
