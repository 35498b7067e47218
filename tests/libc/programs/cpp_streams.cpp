// C++ streams and strings, and an exception that nobody catches.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

int main(int count, char** words) {
  const std::string name =
      "/tmp/craton-cpp-" + std::to_string(reinterpret_cast<unsigned long>(&words) % 9973) + "-" +
      std::to_string(std::filesystem::file_time_type::clock::now().time_since_epoch().count());
  long failures = 0;
  {
    std::vector<char> block(500'000);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>('a' + i % 19);
    std::ofstream out(name);
    out << "a line " << 5 << "\n";
    out.write(block.data(), static_cast<std::streamsize>(block.size()));
    out.close();
    std::ifstream in(name);
    std::string line;
    std::getline(in, line);
    if (line != "a line 5") ++failures;
    std::vector<char> got(block.size());
    in.read(got.data(), static_cast<std::streamsize>(got.size()));
    if (got != block || in.fail()) ++failures;
    if (in.get() != std::char_traits<char>::eof()) ++failures;
  }
  if (std::filesystem::file_size(name) != 500'009) ++failures;
  std::filesystem::remove(name);
  if (std::filesystem::exists(name)) ++failures;
  std::cout << "streams: " << failures << " failures" << std::endl;
  if (count > 1 && std::string(words[1]) == "throw") throw std::runtime_error("nobody catches this");
  return failures == 0 ? 0 : 1;
}
