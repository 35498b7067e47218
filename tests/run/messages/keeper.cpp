/// \file
/// A library of the program's that allocates before main: see constructors.cpp.
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int kept = 5000;

const auto* const texts =
    new std::vector<std::string>(3, "a text that is too long to lie in the string itself");
auto* const numbers = new std::vector<int>(kept);
int* const large = static_cast<int*>(std::calloc(1024, 1024));
int* const mapped = static_cast<int*>(
    mmap(nullptr, kept * sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
auto* const names = new std::map<std::string, int>{{"keeper", 1}};

}  // namespace

void keep(int index) {
  (*numbers)[static_cast<std::size_t>(index)] = index + 1;
  large[index] = index + 1;
  mapped[index] = index + 1;
}

/// \returns how often all that was kept is there
int count_kept() {
  int all = 0;
  for (int i = 0; i < kept; ++i)
    all += (*numbers)[static_cast<std::size_t>(i)] + large[i] + mapped[i] == 3 * (i + 1) ? 1 : 0;
  return all + static_cast<int>(texts->size());
}

void add_name(const char* name) {
  ++(*names)[name];
}
int count_names() {
  int all = 0;
  for (const auto& [name, count] : *names) all += count;
  return all;
}
