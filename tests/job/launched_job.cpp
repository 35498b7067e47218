#include "launched_job.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace craton::job {

namespace {

using Steady = std::chrono::steady_clock;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::vector<std::string> to_share(const std::vector<std::string>& flags,
                                  const std::vector<std::string>& program) {
  std::vector<std::string> words{"--share=auto"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.emplace_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

std::string content_of(const std::string& path) {
  std::ostringstream content;
  std::ifstream file(path, std::ios::binary);
  if (file) content << file.rdbuf();
  return content.str();
}

std::string program(const std::string& name) {
  return std::string(CRATON_PROGRAMS) + "/" + name;
}

int occurrences(const std::string& text, const std::string& wanted) {
  int count = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos;
       at = text.find(wanted, at + wanted.size()))
    ++count;
  return count;
}

LaunchedJob::LaunchedJob(const std::vector<std::string>& arguments, bool read_output, int ignored_signal)
    : read_output_(read_output) {
  static std::atomic<int> number{0};
  std::signal(SIGPIPE, SIG_IGN);
  mark_ = "JOB_UNDER_TEST=" + std::to_string(::getpid()) + "-" + std::to_string(number++);
  std::string folder = (std::filesystem::temp_directory_path() / "craton-test-XXXXXX").string();
  EXPECT_NE(::mkdtemp(folder.data()), nullptr);
  temporary_ = folder;
  shared_memory_before_ = names_in("/dev/shm");

  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& ends : pipes) EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  std::vector<std::string> words{CRATON_COMMAND, "run"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  start_ = Steady::now();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(pipes[0][0], STDIN_FILENO);
    ::dup2(pipes[1][1], STDOUT_FILENO);
    ::dup2(pipes[2][1], STDERR_FILENO);
    ::putenv(mark_.data());
    ::setenv("TMPDIR", temporary_.c_str(), 1);
    ::setenv("CRATON_SHARE", "no", 1);  // but where a flag says otherwise
    // Programs that crash on purpose must do so under a sanitizer too.
    const std::string keep = "handle_segv=0:handle_abort=0:";
    for (const char* variable : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"}) {
      const char* before = std::getenv(variable);
      ::setenv(variable, (keep + (before != nullptr ? before : "")).c_str(), 1);
    }
    // What the shell that runs the tests in the background ignores is nothing that they are about.
    for (const int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGHUP})
      ::signal(signal, signal == ignored_signal ? SIG_IGN : SIG_DFL);
    ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  for (const int fd : {pipes[0][0], pipes[1][1], pipes[2][1]}) ::close(fd);
  input_.reset(pipes[0][1]);
  outputs_[0].reset(pipes[1][0]);
  outputs_[1].reset(pipes[2][0]);
  for (const int fd : {input_.get(), outputs_[0].get(), outputs_[1].get()}) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK | ::fcntl(fd, F_GETFL));
  }
}

LaunchedJob::~LaunchedJob() {
  // A failed test must not leave its job to the next one.
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
  std::error_code ignored;
  std::filesystem::remove_all(temporary_, ignored);
}

/// Moves bytes both ways once. \returns false when nothing can come any more
bool LaunchedJob::read_some(int timeout_ms) {
  std::vector<pollfd> ready;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i] && (i == 1 || read_output_)) ready.push_back({outputs_[i].get(), POLLIN, 0});
  }
  if (ready.empty()) return false;
  const std::string status = content_of("/proc/" + std::to_string(pid_) + "/status");
  const std::size_t peak = status.find("VmHWM:");
  if (peak != std::string::npos)
    memory_bytes_ = std::max(memory_bytes_, std::atol(status.c_str() + peak + 6) * 1024);
  if (input_ && !to_write_.empty()) ready.push_back({input_.get(), POLLOUT, 0});
  ::poll(ready.data(), ready.size(), timeout_ms);
  std::array<char, 65536> buffer;
  for (const pollfd& one : ready) {
    if (one.revents == 0) continue;
    if (one.fd == input_.get()) {
      const ssize_t count = ::write(one.fd, to_write_.data(), to_write_.size());
      if (count > 0) to_write_.erase(0, static_cast<std::size_t>(count));
      if (count < 0 && errno != EAGAIN) to_write_.clear();
      continue;
    }
    const std::size_t which = one.fd == outputs_[0].get() ? 0 : 1;
    const ssize_t count = ::read(one.fd, buffer.data(), buffer.size());
    if (count > 0) texts_[which].append(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0) outputs_[which].reset();
  }
  return true;
}

bool LaunchedJob::read_until(const std::function<bool()>& condition) {
  const auto deadline = Steady::now() + limit;
  while (!condition()) {
    if (Steady::now() > deadline || !read_some(20)) return condition();
  }
  return true;
}

bool LaunchedJob::wait_for_output(const std::string& text, int times) {
  return read_until([&] { return occurrences(output(), text) >= times; });
}
bool LaunchedJob::wait_for_error(const std::string& text) {
  return read_until([&] { return error().find(text) != std::string::npos; });
}

void LaunchedJob::write_input(const std::string& bytes) {
  to_write_ += bytes;
  read_until([this] { return to_write_.empty(); });
}

void LaunchedJob::send_signal(int number) const {
  ::kill(pid_, number);
}

int LaunchedJob::finish() {
  if (pid_ < 0) return -1;
  read_output_ = true;
  const auto deadline = Steady::now() + limit;
  while (Steady::now() < deadline && read_some(100)) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (Steady::now() > deadline) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  seconds_ = std::chrono::duration<double>(Steady::now() - start_).count();
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<pid_t> LaunchedJob::processes() const {
  std::vector<pid_t> found;
  for (const std::string& name : names_in("/proc")) {
    const pid_t pid = static_cast<pid_t>(std::atoi(name.c_str()));
    if (pid <= 0 || pid == pid_ || pid == ::getpid()) continue;
    const std::string environment = content_of("/proc/" + name + "/environ");  // empty for zombies
    if ((std::string(1, '\0') + environment).find(std::string(1, '\0') + mark_ + std::string(1, '\0')) !=
        std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

bool LaunchedJob::wait_until_gone() const {
  const auto deadline = Steady::now() + limit;
  while (!processes().empty()) {
    if (Steady::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string LaunchedJob::leftovers() const {
  std::string left;
  for (const pid_t pid : processes()) {
    std::string command = content_of("/proc/" + std::to_string(pid) + "/cmdline");
    std::replace(command.begin(), command.end(), '\0', ' ');
    left += "process " + std::to_string(pid) + " " + command + "\n";
  }
  for (const std::string& name : names_in(temporary_)) left += "temporary file " + name + "\n";
  for (const std::string& name : names_in("/dev/shm")) {
    const bool old = std::binary_search(shared_memory_before_.begin(), shared_memory_before_.end(), name);
    if (!old && name.find("craton") != std::string::npos) left += "/dev/shm/" + name + "\n";
  }
  return left;
}

int finish_clean(LaunchedJob& job) {
  const int code = job.finish();
  std::printf("         exit code %d after %.3f s\n", code, job.seconds());
  EXPECT_NE(code, -1) << "the job did not end\nstandard error:\n" << job.error();
  EXPECT_EQ(job.leftovers(), "");
  return code;
}

}  // namespace craton::job
