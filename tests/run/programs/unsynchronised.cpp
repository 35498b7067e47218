/// \file
/// C++'s standard streams that are not to be synchronised with C's, as programs have them that read and write
/// much: written by threads of every rank, and nothing by C's, with whose lines theirs would be mixed.
#include <iomanip>
#include <iostream>

#include "check.h"

int main() {
  std::cout << "synchronised before: " << std::ios_base::sync_with_stdio(false) << '\n';
  std::cout << "and after: " << std::ios_base::sync_with_stdio(false) << '\n';
  std::cin.tie(nullptr);
  std::cout << "from the first thread, " << std::hex << 255 << std::dec << '\n' << std::flush;
#pragma omp parallel for ordered schedule(static, 1)
  for (int i = 0; i < 16; ++i) {
    take_part();
#pragma omp ordered
    {
      std::cout << "line " << std::setw(3) << i << ' ' << i / 4.0 << std::endl;
      std::clog << "";
      std::cerr.flush();
    }
  }
  count_processes("ordered lines");
  std::cout << "good: " << (std::cout.good() && std::cerr.good() && std::clog.good()) << '\n';
  return finish();
}
