/// \file
/// statics MAKER: that thread makes a local static object, whose constructor writes elsewhere too; the others
/// come later, find it made, and look at both. They had the old bytes of what it wrote, but not of its guard.
#include <omp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

// On both sides of the guard's page, wherever the compiler puts that among these.
volatile char around[2 * 4096 + 512];

struct Made {
  explicit Made(long* told) : value(1) { *told = 1; }
  long value;
};

long made(long* told) {
  static const Made one(told);
  return one.value;
}

}  // namespace

int main(int count, char** words) {
  const int maker = count > 1 ? std::atoi(words[1]) : 0;
  auto* const told = static_cast<long*>(std::calloc(1, 1U << 18U));
  int right = 0;
#pragma omp parallel firstprivate(told) reduction(+ : right)
  {
    const bool makes = omp_get_thread_num() == maker;
    if (*told != 0) std::abort();
    if (makes) around[0] = around[sizeof around - 1] = 1;
#pragma omp barrier
    // A barrier would order what the guard alone has to.
    if (!makes) usleep(200'000);
    right += made(told) == 1 && *told == 1 ? 1 : 0;
  }
  std::printf("%d right\n", right);
}
