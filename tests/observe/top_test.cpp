/// \file
/// `craton top` beside jobs that run until they are told to end. What it must tell is waited for, not timed.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "job/frame.hpp"
#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;
using job::occurrences;
using nlohmann::json;

std::vector<std::string> watched_program(const std::string& how = {}) {
  std::vector<std::string> words = {
      "-n", "2", "--threads", "1", "--share=auto", "--", CRATON_PROGRAMS "/watched"};
  if (!how.empty()) words.push_back(how);
  return words;
}

/// `craton top`, standard output and error together.
class Top {
 public:
  explicit Top(const std::string& flags)
      : pipe_(::popen(("timeout 20 \"" CRATON_COMMAND "\" top " + flags + " 2>&1").c_str(), "r")) {}
  Top(const Top&) = delete;
  Top& operator=(const Top&) = delete;
  ~Top() {
    if (pipe_ != nullptr) end();
  }

  /// "" at the end.
  std::string line() {
    std::string text;
    for (int letter = std::fgetc(pipe_); letter != EOF; letter = std::fgetc(pipe_)) {
      text.push_back(static_cast<char>(letter));
      if (letter == '\n') break;
    }
    return text;
  }
  std::string rest() {
    std::string text;
    for (std::string more = line(); !more.empty(); more = line()) text += more;
    return text;
  }
  int end() {
    const int status = ::pclose(std::exchange(pipe_, nullptr));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Reads objects until one is as wanted. \returns false at the end
  bool tells(const std::function<bool(const json& ranks)>& wanted) {
    for (std::string text = line(); !text.empty(); text = line()) {
      last_ = text;
      if (text.starts_with("{") && wanted(json::parse(text).at("ranks"))) return true;
    }
    return false;
  }
  const std::string& last() const { return last_; }

 private:
  FILE* pipe_;
  std::string last_;
};

std::string of_job(const LaunchedJob& job) {
  return "--job " + std::to_string(job.pid());
}

double number(const json& rank, const char* name) {
  return rank.contains(name) ? rank.at(name).get<double>() : 0;
}

/// One rank that joins its job by hand.
std::vector<std::string> forgetful_program() {
  std::vector<std::string> words = {"-n", "1", "--share=no", "--", CRATON_RANK_PROGRAMS "/forgetful"};
  for (const job::FrameKind kind :
       {job::FrameKind::join, job::FrameKind::ready, job::FrameKind::look, job::FrameKind::seen})
    words.push_back(std::to_string(static_cast<int>(kind)));
  return words;
}

/// The name of the job's socket; "" if it has none.
std::string socket_of(pid_t launcher) {
  std::ifstream sockets("/proc/net/unix");
  const std::string begin = "@craton-job-" + std::to_string(launcher) + "-";
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t at = line.find(begin);
    if (at != std::string::npos) return line.substr(at + 1);
  }
  return "";
}

}  // namespace

TEST(Top, TellsWhoComputesAndWhoWaits) {
  LaunchedJob job(watched_program());
  ASSERT_TRUE(job.wait_for_output("running")) << job.error();
  Top top(of_job(job) + " --json --interval 200ms");
  EXPECT_TRUE(top.tells([](const json& ranks) {
    return ranks.size() == 2 && number(ranks[0], "compute") > 0.99 && number(ranks[1], "wait") > 0.99;
  })) << top.last();
  job.write_input("\n");
  job.close_input();
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_NE(top.rest().find("craton: the job has ended\n"), std::string::npos);
  EXPECT_EQ(top.end(), 0);
}

TEST(Top, CountsFaultsBytesAndMessages) {
  LaunchedJob job(watched_program("share"));
  ASSERT_TRUE(job.wait_for_output("running")) << job.error();
  {
    Top top(of_job(job) + " --json --interval 200ms");
    EXPECT_TRUE(top.tells([](const json& ranks) {
      return std::all_of(ranks.begin(), ranks.end(), [](const json& rank) {
        return number(rank, "faults_per_s") > 0 && number(rank, "messages_per_s") > 0 &&
               number(rank, "bytes_in_per_s") + number(rank, "bytes_out_per_s") > 0 &&
               number(rank, "threads") == 1;
      });
    })) << top.last();
  }
  // Watched once more, after nobody did.
  Top again(of_job(job) + " --json --interval 200ms");
  EXPECT_TRUE(again.tells([](const json& ranks) { return number(ranks[0], "faults_per_s") > 0; }))
      << again.last();
  job.write_input("\n");
  job.close_input();
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), "\n1\n"), 1) << job.output();
}

TEST(Top, SeesThreadsThatTheProgramStarts) {
  LaunchedJob job({"-n", "2", "--threads", "1", "--share=auto", "--", CRATON_PROGRAMS "/threads"});
  ASSERT_TRUE(job.wait_for_output("running")) << job.error();
  const auto are = [](int threads) {
    return [threads](const json& ranks) { return ranks.size() == 2 && ranks[0].at("threads") == threads; };
  };
  Top top(of_job(job) + " --json --interval 200ms");
  EXPECT_TRUE(top.tells(are(5))) << top.last();
  job.write_input("\n");
  ASSERT_TRUE(job.wait_for_output("joined")) << job.error();
  Top afterwards(of_job(job) + " --json --interval 200ms");
  EXPECT_TRUE(afterwards.tells(are(1))) << afterwards.last();
  job.write_input("\n");
  job.close_input();
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
}

TEST(Top, PrintsATableOfPlainLines) {
  LaunchedJob job(watched_program());
  ASSERT_TRUE(job.wait_for_output("running")) << job.error();
  Top top(of_job(job) + " --once --interval 100ms");
  const std::string text = top.rest();
  EXPECT_EQ(top.end(), 0) << text;
  EXPECT_EQ(occurrences(text, "\n"), 4) << text;
  EXPECT_EQ(occurrences(text, "/watched, 2 ranks\n"), 1) << text;
  EXPECT_EQ(occurrences(text, "faults/s"), 1) << text;
  EXPECT_EQ(occurrences(text, "\n    0 "), 1) << text;
  EXPECT_EQ(occurrences(text, "\n    1 "), 1) << text;
  EXPECT_EQ(occurrences(text, "\033"), 0) << text;
  job.close_input();
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
}

TEST(Top, SaysInOneLineWhatItCannotShow) {
  for (const char* const flags : {"--job 1", "--job no-such-program", "--job 99999999999"}) {
    Top top(flags);
    const std::string text = top.rest();
    EXPECT_EQ(top.end(), 1) << text;
    EXPECT_EQ(occurrences(text, "\n"), 1) << text;
    EXPECT_TRUE(text.starts_with("craton: ")) << text;
  }
  LaunchedJob one(watched_program());
  LaunchedJob other(watched_program());
  ASSERT_TRUE(one.wait_for_output("running")) << one.error();
  ASSERT_TRUE(other.wait_for_output("running")) << other.error();
  for (const char* const flags : {"", "--job watched"}) {
    Top top(flags);
    const std::string text = top.rest();
    EXPECT_EQ(top.end(), 2) << text;
    EXPECT_EQ(occurrences(text, "\n"), 1) << text;
    for (const LaunchedJob* const job : {&one, &other})
      EXPECT_NE(text.find(std::to_string(job->pid()) + " (watched)"), std::string::npos) << text;
  }
  for (LaunchedJob* const job : {&one, &other}) {
    job->close_input();
    EXPECT_EQ(job::finish_clean(*job), 0) << job->error();
  }
}

TEST(Top, EndsWithAJobThatIsKilledAndLeavesNothing) {
  LaunchedJob job(watched_program());
  ASSERT_TRUE(job.wait_for_output("running")) << job.error();
  EXPECT_NE(socket_of(job.pid()), "");
  Top top(of_job(job) + " --json --interval 200ms");
  ASSERT_TRUE(top.tells([](const json& ranks) { return ranks.size() == 2; })) << top.last();
  job.send_signal(SIGKILL);
  EXPECT_NE(top.rest().find("craton: the job has ended\n"), std::string::npos);
  EXPECT_EQ(top.end(), 0);
  EXPECT_EQ(job.finish(), 128 + SIGKILL);
  EXPECT_TRUE(job.wait_until_gone());
  EXPECT_EQ(job.leftovers(), "");
  EXPECT_EQ(socket_of(job.pid()), "");
}

TEST(Top, AsksARankAgainThatDidNotAnswer) {
  LaunchedJob job(forgetful_program());
  ASSERT_TRUE(job.wait_for_output("ready")) << job.error();
  Top top(of_job(job) + " --json --interval 200ms");
  EXPECT_TRUE(top.tells([](const json& ranks) { return ranks[0].contains("faults_per_s"); })) << top.last();
  job.send_signal(SIGTERM);
  EXPECT_EQ(job::finish_clean(job), 128 + SIGTERM) << job.error();
}

// It leaves a question unread, so that its connection is reset.
TEST(Top, ASignalThatARankDiesOfIsNamed) {
  std::vector<std::string> words = forgetful_program();
  words.emplace_back("dies");
  LaunchedJob job(words);
  ASSERT_TRUE(job.wait_for_output("ready")) << job.error();
  Top top(of_job(job) + " --json --interval 200ms");
  EXPECT_EQ(job::finish_clean(job), 128 + SIGKILL) << job.error();
  EXPECT_EQ(occurrences(job.error(), "died: killed (SIGKILL)"), 1) << job.error();
}

TEST(Top, IsNotKeptByAnotherWhoTookTheName) {
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string pid = std::to_string(::getpid());
  const std::string name = "craton-job-" + pid + "-0";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto* const to = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), to, bytes), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<UniqueFd> waiting;
  int refusal = 0;
  while (refusal == 0) {
    waiting.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    refusal = ::connect(waiting.back().get(), to, bytes) == 0 ? 0 : errno;
  }
  ASSERT_EQ(refusal, EAGAIN);
  for (const auto& [name_or_pid, told] : {std::pair(std::string("no-such-program"), "no job to watch"),
                                          std::pair(pid, "its launcher does not answer")}) {
    Top top("--once --job " + name_or_pid);
    const std::string text = top.rest();
    EXPECT_EQ(top.end(), 1) << text;
    EXPECT_EQ(occurrences(text, told), 1) << text;
  }
}

TEST(Top, AnswersNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  LaunchedJob job(watched_program());
  ASSERT_TRUE(job.wait_for_output("running")) << job.error();
  const std::string name = socket_of(job.pid());
  ASSERT_NE(name, "");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(name.size(), sizeof address.sun_path);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto is_answered = [&] {
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    std::string watch;
    job::append_frame(watch, job::FrameKind::watch, {});
    // Where the other side has closed already, there is no answer either.
    static_cast<void>(::send(socket.get(), watch.data(), watch.size(), MSG_NOSIGNAL));
    char answer = 0;
    return ::recv(socket.get(), &answer, 1, 0) == 1;
  };
  EXPECT_TRUE(is_answered());
  constexpr uid_t nobody = 65534;
  ASSERT_EQ(::seteuid(nobody), 0);
  const bool other_is_answered = is_answered();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_FALSE(other_is_answered);
  job.close_input();
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
}

}  // namespace craton
