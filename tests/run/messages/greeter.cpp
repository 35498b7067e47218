/// \file
/// A library of the program's that prints before main: see constructors.cpp.
#include <cstdio>

namespace {

const int greeting = std::puts("the library is ready");

}  // namespace

int greeted() {
  return greeting;
}
