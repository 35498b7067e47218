#include "base/ring_log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"

namespace craton {
namespace {

/// The lines of a dump, without their times; every one must have had a time.
std::vector<std::string> dumped(const RingLog& log, std::size_t* returned = nullptr) {
  const UniqueFd file(::memfd_create("dump", MFD_CLOEXEC));
  const std::size_t lines_written = log.dump(file.get());
  if (returned != nullptr) *returned = lines_written;
  std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  EXPECT_EQ(::pread(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  std::vector<std::string> lines;
  static const std::regex form(R"(\[\d+\.\d{9}\] (.*))");
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::smatch match;
    EXPECT_TRUE(std::regex_match(line, match, form)) << "no time before: " << line;
    lines.push_back(match[1]);
  }
  EXPECT_EQ(lines.size(), lines_written);
  return lines;
}

TEST(RingLog, IsEmptyAtFirst) {
  const auto log = std::make_unique<RingLog>();
  EXPECT_TRUE(dumped(*log).empty());
}

TEST(RingLog, FormatsTextAndNumbers) {
  const auto log = std::make_unique<RingLog>();
  log->write({"rank ", 3, " lost: ", std::numeric_limits<std::int64_t>::min(), "/",
              std::numeric_limits<std::int64_t>::max(), " ", 0, " ", -1});
  EXPECT_EQ(dumped(*log),
            std::vector<std::string>{"rank 3 lost: -9223372036854775808/9223372036854775807 0 -1"});
}

TEST(RingLog, CutsLongLines) {
  const auto log = std::make_unique<RingLog>();
  const std::string exact(RingLog::line_bytes, 'e');
  log->write({std::string_view(exact)});
  const std::string one_less(RingLog::line_bytes - 1, 'a');
  log->write({std::string_view(one_less), "bc", 12});
  EXPECT_EQ(dumped(*log), (std::vector<std::string>{exact, one_less + "b"}));
}

TEST(RingLog, WrapsAroundAndDumpsTheOldestFirst) {
  const auto log = std::make_unique<RingLog>();
  constexpr std::size_t written = RingLog::lines_held * 3 + 17;
  // A long line first in each place: what is left of it must not show behind a shorter one.
  const std::string long_text(200, 'x');
  for (std::size_t i = 0; i < RingLog::lines_held; ++i) log->write({std::string_view(long_text)});
  for (std::size_t i = 0; i < written; ++i) log->write({"line ", i});
  std::size_t returned = 0;
  const std::vector<std::string> lines = dumped(*log, &returned);
  ASSERT_EQ(lines.size(), RingLog::lines_held);
  EXPECT_EQ(returned, RingLog::lines_held);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i], "line " + std::to_string(written - RingLog::lines_held + i));
  }
  EXPECT_EQ(log->dropped(), 0U);
}

TEST(RingLog, SaysHowManyLinesTheDescriptorTook) {
  const auto log = std::make_unique<RingLog>();
  log->write({"a"});
  EXPECT_EQ(log->dump(-1), 0U);
}

TEST(RingLog, LeavesErrnoAlone) {
  const auto log = std::make_unique<RingLog>();
  log->write({"a"});
  errno = E2BIG;
  log->dump(-1);
  EXPECT_EQ(errno, E2BIG);
}

// --- lines whose parts all derive from two numbers, so that a mixture of two lines is found out
// --------------------

constexpr std::size_t fill_bytes = 150;

/// `fill_bytes` times the same letter, without allocation.
std::string_view fill_of(std::size_t writer, std::size_t number) {
  static const std::vector<std::string> fills = [] {
    std::vector<std::string> all;
    for (char letter = 'a'; letter <= 'z'; ++letter) all.emplace_back(fill_bytes, letter);
    return all;
  }();
  return fills[(writer * 7 + number) % fills.size()];
}

void write_expected(RingLog& log, std::size_t writer, std::size_t number) {
  log.write({writer, ":", number, "|", fill_of(writer, number), "|", writer, ":", number});
}

/// Checks one line, without its time. \returns its writer
std::size_t check_whole(std::string_view line) {
  std::size_t writer = 0;
  std::size_t number = 0;
  const std::string text(line);
  const int found = std::sscanf(text.c_str(), "%zu:%zu|", &writer, &number);
  const std::string key = std::to_string(writer) + ":" + std::to_string(number);
  if (found != 2 || text != key + "|" + std::string(fill_of(writer, number)) + "|" + key) {
    ADD_FAILURE() << "torn line: " << text;
  }
  return writer;
}

/// Dumps into one file again and again; faster than dumped(), for tests that wait for a rare moment.
class Dumper {
 public:
  /// Checks every line of a dump. \returns how many there were
  std::size_t check_all(const RingLog& log) {
    EXPECT_EQ(::lseek(file_.get(), 0, SEEK_SET), 0);
    const std::size_t lines = log.dump(file_.get());
    text_.resize(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_CUR)));
    EXPECT_EQ(::pread(file_.get(), text_.data(), text_.size(), 0), static_cast<ssize_t>(text_.size()));
    std::string_view rest = text_;
    std::size_t checked = 0;
    for (; !rest.empty(); ++checked) {
      const std::size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      writers_.insert(check_whole(line.substr(line.find("] ") + 2)));
      rest.remove_prefix(end + 1);
    }
    EXPECT_EQ(checked, lines);
    return lines;
  }
  const std::set<std::size_t>& writers_seen() const { return writers_; }

 private:
  UniqueFd file_{::memfd_create("dumps", MFD_CLOEXEC)};
  std::string text_;
  std::set<std::size_t> writers_;
};

TEST(RingLog, ConcurrentWritersNeverTearALineWhileItIsDumped) {
  const auto log = std::make_unique<RingLog>();
  constexpr std::size_t writers = 3;
  constexpr std::size_t dumps = 400;
  for (std::size_t i = 0; i < RingLog::lines_held; ++i) write_expected(*log, 0, i);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::size_t writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::size_t i = 0; !stop.load(std::memory_order_relaxed); ++i) write_expected(*log, writer, i);
    });
  }
  // A dump starts with the oldest lines, which are those that the writers overwrite next. On a busy machine
  // one of them may come late.
  Dumper dumper;
  std::size_t lines_seen = 0;
  const auto is_enough = [&](std::size_t done) {
    return done >= dumps && (dumper.writers_seen().size() == writers || done >= 1000 * dumps);
  };
  for (std::size_t i = 0; !is_enough(i) && !HasFailure(); ++i) lines_seen += dumper.check_all(*log);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(lines_seen, dumps) << "hardly a line survived until it was read";
  // At rest, each of the last numbers is there, unless it was one of those dropped.
  EXPECT_GE(dumper.check_all(*log) + log->dropped(), RingLog::lines_held);
  EXPECT_EQ(dumper.writers_seen().size(), writers);
}

/// Calls a handler after 100 us of real time, once or again and again, for as long as it lives.
class Interruptions {
 public:
  enum class Repeat { once, always };
  Interruptions(void (*handler)(int), Repeat repeat) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    EXPECT_EQ(::sigaction(SIGALRM, &action, &before_), 0);
    const timeval pause{.tv_sec = 0, .tv_usec = 100};
    const itimerval timer{.it_interval = repeat == Repeat::always ? pause : timeval{}, .it_value = pause};
    EXPECT_EQ(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  ~Interruptions() {
    const itimerval off{};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

RingLog* log_of_handler = nullptr;
int fd_of_handler = -1;
std::atomic<std::size_t> handler_runs{0};

void write_and_dump(int) {
  write_expected(*log_of_handler, 9, handler_runs.fetch_add(1));
  if (handler_runs.load() % 16 == 0) log_of_handler->dump(fd_of_handler);
}

TEST(RingLog, MayBeWrittenAndDumpedInASignalHandlerThatInterruptsAWriter) {
  const auto log = std::make_unique<RingLog>();
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  log_of_handler = log.get();
  fd_of_handler = null.get();
  handler_runs = 0;
  constexpr std::size_t runs_wanted = 500;
  {
    write_expected(*log, 1, 0);  // makes the fills before a handler needs them
    const Interruptions interruptions(write_and_dump, Interruptions::Repeat::always);
    for (std::size_t i = 0; handler_runs.load() < runs_wanted; ++i) write_expected(*log, 1, i);
  }
  write_expected(*log, 9, 0);
  Dumper dumper;
  dumper.check_all(*log);
  EXPECT_EQ(dumper.writers_seen(), (std::set<std::size_t>{1, 9}));
}

void overrun_ring(int) {
  const std::size_t run = handler_runs.fetch_add(1);
  for (std::size_t i = 0; i < 2 * RingLog::lines_held; ++i) write_expected(*log_of_handler, 5, run + i);
}

TEST(RingLog, AWriterInterruptedForAWholeRoundDropsALineAndCountsIt) {
  const auto log = std::make_unique<RingLog>();
  log_of_handler = log.get();
  handler_runs = 0;
  for (std::size_t i = 0; i < RingLog::lines_held; ++i) write_expected(*log, 6, i);
  Dumper dumper;
  constexpr std::size_t runs_wanted = 300;
  while (handler_runs.load() < runs_wanted && !HasFailure()) {
    const std::uint64_t dropped_before = log->dropped();
    const std::size_t runs_before = handler_runs.load();
    {
      // Once: the handler takes longer than the pause, and nothing else would ever run.
      const Interruptions interruption(overrun_ring, Interruptions::Repeat::once);
      for (std::size_t i = 0; handler_runs.load() == runs_before; ++i) write_expected(*log, 6, i);
    }
    const std::size_t lines = dumper.check_all(*log);
    EXPECT_GE(lines + log->dropped() - dropped_before, RingLog::lines_held)
        << "a line was lost and not counted";
  }
}

TEST(RingLog, TheProcessHasOne) {
  EXPECT_EQ(&process_log(), &process_log());
  process_log().write({"found again ", 4711});
  const std::vector<std::string> lines = dumped(process_log());
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines.back(), "found again 4711");
}

}  // namespace
}  // namespace craton
