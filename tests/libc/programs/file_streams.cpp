// File streams that are open before the region, used by its threads in turn: each fills and empties their
// buffers for the others.
#include <unistd.h>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr int lines = 2000;

std::string line_of(int number) {
  return "line " + std::to_string(number) + std::string(100, static_cast<char>('a' + number % 26));
}

}  // namespace

int main() {
  const std::string name = "/tmp/craton-file-streams-" + std::to_string(getpid());
  std::ofstream out(name);
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < lines; ++i) {
#pragma omp ordered
    out << line_of(i) << '\n';
  }
  out.close();
  std::ifstream in(name);
  int wrong = 0;
#pragma omp parallel for ordered schedule(static, 1) reduction(+ : wrong)
  for (int i = 0; i < lines; ++i) {
    std::string line;
#pragma omp ordered
    std::getline(in, line);
    if (line != line_of(i)) ++wrong;
  }
  const bool is_at_end = in.peek() == std::char_traits<char>::eof();
  in.clear();
  std::vector<std::streamoff> places(lines);
#pragma omp parallel for ordered schedule(static, 1) reduction(+ : wrong)
  for (int i = 0; i < lines; ++i) {
#pragma omp ordered
    {
      std::string line;
      in.seekg(i % 2 == 0 ? 0 : -static_cast<std::streamoff>(line_of(lines - 1).size()) - 1,
               i % 2 == 0 ? std::ios::beg : std::ios::end);
      places[static_cast<std::size_t>(i)] = in.tellg();
      std::getline(in, line);
      if (line != line_of(i % 2 == 0 ? 0 : lines - 1)) ++wrong;
    }
  }
  std::remove(name.c_str());
  std::cout << "file streams: " << wrong << " wrong, at the end: " << is_at_end << ", last place "
            << places.back() << std::endl;
  return wrong == 0 ? 0 : 1;
}
