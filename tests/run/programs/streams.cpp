/// \file
/// C++ streams and exceptions in regions: cout and streams that the first thread has made, used by threads of
/// every rank; exceptions thrown and caught in a region, and taken out of it; thread-local objects.
#include <algorithm>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

namespace {

int threads_of_region() {
  int threads = 0;
#pragma omp parallel
#pragma omp master
  threads = omp_get_num_threads();
  return threads;
}

void shared_streams() {
  std::ostringstream text;
  text << std::hex << std::setprecision(3);
#pragma omp parallel
  {
    take_part();
#pragma omp critical
    text << 255 << ' ' << 2.0 / 3 << ' ' << true << ' ' << "word" << '\n';
  }
  check_text("a string stream of the first thread", text.str().substr(0, 17).c_str());
  check_int("characters in it", static_cast<long long>(text.str().size()));
#pragma omp parallel
  {
    take_part();
#pragma omp critical
    std::cout << "a line of some thread, " << 1.5 << ' ' << 42 << std::endl;
  }
  check_int("lines on cout", threads_of_region());
  std::istringstream numbers("1 2.5 3 4.5 5 6.5 7 8.5 9 10.5 11 12.5 13 14.5 15 16.5");
  double sum = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp critical
    {
      int whole = 0;
      double part = 0;
      if (numbers >> whole >> part) sum += whole + part;
    }
  }
  check_real("numbers from a stream", sum);
}

/// A file that is open before the region, under a lock, and files of threads.
void files() {
  const std::string name = "/tmp/craton-streams-" + std::to_string(getpid());
#pragma omp parallel
  {
    take_part();
    const std::string own = name + "-" + std::to_string(omp_get_thread_num());
    {
      std::ofstream out(own);
      for (int i = 0; i < 1000; ++i) out << i << '\n';
    }
    std::ifstream in(own);
    long long sum = 0;
    for (int number = 0; in >> number;) sum += number;
    std::remove(own.c_str());
    if (sum != 499500) throw std::runtime_error("lines were lost");
  }
  check_int("files of threads", threads_of_region());
}

void exceptions() {
  int caught = 0;
#pragma omp parallel reduction(+ : caught)
  {
    take_part();
    for (int i = 0; i < 30; ++i) {
      try {
        if (i % 3 == 0) throw i;
        if (i % 3 == 1) throw std::runtime_error(std::to_string(i));
        static_cast<void>(std::vector<int>().at(static_cast<std::size_t>(i)));
      } catch (const int value) {
        caught += value == i;
      } catch (const std::out_of_range&) {
        ++caught;
      } catch (const std::exception& error) {
        caught += error.what() == std::to_string(i);
      }
    }
  }
  check_int("exceptions caught", caught);

  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(threads_of_region()));
#pragma omp parallel
  {
    take_part();
    try {
      throw std::invalid_argument("of thread " + std::to_string(omp_get_thread_num()));
    } catch (...) {
      thrown[static_cast<std::size_t>(omp_get_thread_num())] = std::current_exception();
    }
  }
  int right = 0;
  for (std::size_t i = 0; i < thrown.size(); ++i) {
    try {
      std::rethrow_exception(thrown[i]);
    } catch (const std::invalid_argument& error) {
      right += error.what() == "of thread " + std::to_string(i);
    }
  }
  check_int("exceptions taken out of a region", right);
}

struct Counted {
  int number = omp_get_thread_num() + 100;
  std::string name = "thread " + std::to_string(omp_get_thread_num());
};
thread_local Counted of_thread;

void thread_locals() {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    right += of_thread.number == omp_get_thread_num() + 100 &&
             of_thread.name == "thread " + std::to_string(omp_get_thread_num());
  }
  check_int("thread-local objects", right);
}

void containers() {
  std::vector<std::vector<unsigned>> all(32);
  std::map<std::string, int> counts;
#pragma omp parallel
  {
    take_part();
#pragma omp for schedule(dynamic)
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::mt19937 random(static_cast<unsigned>(i));
      for (int k = 0; k < 5000; ++k) all[i].push_back(random() % 1000);
      std::sort(all[i].begin(), all[i].end());
#pragma omp critical
      ++counts["all"];
    }
  }
  long long sum = 0;
  bool sorted = true;
  for (const auto& each : all) {
    sorted = sorted && std::is_sorted(each.begin(), each.end());
    for (const unsigned number : each) sum += number;
  }
  check_int("vectors that grew in a region", sorted ? sum : -1);
  check_int("a map under a lock", counts["all"]);
}

}  // namespace

int main() {
  shared_streams();
  files();
  exceptions();
  thread_locals();
  containers();
  return finish();
}
