/// \file
/// Commands of the shell, for tests that look at what programs write and how they end.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace craton::test {

struct Ran {
  int code;  ///< as the shell has it: of a signal 128 more; -1: it could not be run
  std::string output;
};

/// Runs a command to its end. What it writes to standard error comes where the test's comes.
inline Ran run_in_shell(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, "cannot run " + command};
  Ran ran{};
  std::array<char, 4096> buffer;
  while (const std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), pipe))
    ran.output.append(buffer.data(), bytes);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

inline std::string output_of(const std::string& command) {
  return run_in_shell(command).output;
}

}  // namespace craton::test
