/// \file
/// Runs the craton command for a test and sees what it leaves behind.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"

namespace craton::job {

/// The path of a program of tests/programs.
std::string program(const std::string& name);

/// Arguments for LaunchedJob: a program whose memory is to be shared, with flags of craton run.
std::vector<std::string> to_share(const std::vector<std::string>& flags,
                                  const std::vector<std::string>& program);

/// All of a file; "" if it cannot be read.
std::string content_of(const std::string& path);

/// One run of `craton run`. Every process of the job carries a mark of its own in its environment, by which
/// what is left of it is found, wherever it hides. Its temporary files go to a folder of its own.
class LaunchedJob {
 public:
  /// No test waits longer for anything.
  static constexpr std::chrono::seconds limit{100};

  /// \param arguments of the command, after "craton run"
  /// \param read_output false: nobody reads its standard output until read_rest()
  /// \param ignored_signal is ignored when the command starts, as under nohup; 0: none
  explicit LaunchedJob(const std::vector<std::string>& arguments, bool read_output = true,
                       int ignored_signal = 0);
  ~LaunchedJob();
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  /// Writes to its standard input, all of it, while reading its output.
  void write_input(const std::string& bytes);
  void close_input() { input_.reset(); }
  void send_signal(int number) const;
  /// Reads until a condition holds. \returns false at the limit
  bool read_until(const std::function<bool()>& condition);
  /// Reads until text has appeared this many times in the standard output (error). \returns false at the
  /// limit
  bool wait_for_output(const std::string& text, int times = 1);
  bool wait_for_error(const std::string& text);
  /// Reads the rest and waits for the end. \returns the exit code, 128 + its signal, or -1 at the limit
  int finish();
  /// From the start to the end, in seconds.
  double seconds() const { return seconds_; }
  /// The most memory that the launcher was seen to have, in bytes. Looked at whenever there is output.
  long launcher_memory_bytes() const { return memory_bytes_; }

  const std::string& output() const { return texts_[0]; }
  const std::string& error() const { return texts_[1]; }
  pid_t pid() const { return pid_; }

  /// The processes of the job that are alive, but the launcher.
  std::vector<pid_t> processes() const;
  /// Waits until no process is left. \returns false at the limit
  bool wait_until_gone() const;
  /// What is left of the job, in words: processes, temporary files, shared memory. "" if nothing is.
  std::string leftovers() const;

 private:
  bool read_some(int timeout_ms);

  std::string mark_;
  std::string temporary_;
  std::vector<std::string> shared_memory_before_;
  pid_t pid_ = -1;
  UniqueFd input_;
  std::array<UniqueFd, 2> outputs_;
  std::array<std::string, 2> texts_;
  bool read_output_;
  std::string to_write_;
  std::chrono::steady_clock::time_point start_;
  double seconds_ = 0;
  long memory_bytes_ = 0;
};

/// Ends a job and checks what every job must hold to: a generous time limit and nothing left. Prints the
/// time. \returns the exit code
int finish_clean(LaunchedJob& job);

/// How often a text occurs in another.
int occurrences(const std::string& text, const std::string& wanted);

}  // namespace craton::job
