// User-level threads: headers and nothing else of Craton.
#include <cstdio>

#include "fiber/fiber.hpp"

namespace fiber = craton::fiber;

static int fib(int n) {
  if (n < 2) return n;
  int left = 0;
  fiber::Join child = fiber::fork([&left, n] { left = fib(n - 1); });
  const int right = fib(n - 2);
  child.join();
  return left + right;
}

int main() {
  fiber::Runtime runtime({.workers = 2});
  fiber::Mutex mutex;
  int sum = 0;
  runtime.run([&] {
    fiber::parallel_for(0, 100, 8, [&](int i) {
      mutex.lock();
      sum += i;
      mutex.unlock();
    });
  });
  std::printf("fib(15) is %d, the sum is %d\n", runtime.run([] { return fib(15); }), sum);
}
