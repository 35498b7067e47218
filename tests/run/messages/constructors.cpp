/// \file
/// A program with libraries that do much before main: allocate, print, call each other.
#include <omp.h>

#include <cstdio>

void keep(int index);
int count_kept();
void add_name(const char* name);
int count_names();
int answer();
int greeted();

namespace {

const int ready = std::puts("the program is ready");

}  // namespace

int main() {
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
#pragma omp for
    for (int i = 0; i < 5000; ++i) keep(i);
    wrong += answer() == 42 && greeted() >= 0 && ready >= 0 ? 0 : 1;
  }
  add_name("main");
  int names = 0;
#pragma omp parallel reduction(+ : names)
  names += count_names();
  std::printf("kept %d, wrong %d, names %d\n", count_kept(), wrong, names / omp_get_max_threads());
}
