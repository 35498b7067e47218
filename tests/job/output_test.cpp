// From ranks' bytes to lines.
#include "job/output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <map>
#include <random>
#include <string>

namespace craton::job {
namespace {

std::string assemble(const std::string& prefix, const std::vector<std::string>& parts) {
  LineAssembler assembler(prefix);
  std::string lines;
  for (const std::string& part : parts) assembler.add(part, lines);
  assembler.finish(lines);
  return lines;
}

TEST(Lines, WaitForTheirEnd) {
  LineAssembler assembler("");
  std::string lines;
  assembler.add("ab", lines);
  EXPECT_EQ(lines, "");
  assembler.add("c\nd", lines);
  EXPECT_EQ(lines, "abc\n");
  assembler.finish(lines);
  EXPECT_EQ(lines, "abc\nd");
  assembler.finish(lines);
  EXPECT_EQ(lines, "abc\nd");
}

TEST(Lines, HaveThePrefixAtEachStart) {
  EXPECT_EQ(assemble("[2] ", {"a\nb", "b\n\n", "c"}), "[2] a\n[2] bb\n[2] \n[2] c\n");
  EXPECT_EQ(assemble("[2] ", {}), "");
}

TEST(Lines, TooLongOnesKeepTheirBytesWithoutPrefix) {
  const std::string line(3 * LineAssembler::max_line_bytes + 17, 'x');
  EXPECT_EQ(assemble("", {line, "\nend"}), line + "\nend");
}

TEST(Lines, TooLongOnesAreCutWithPrefix) {
  const std::string full(LineAssembler::max_line_bytes, 'x');
  EXPECT_EQ(assemble("> ", {full + "yy\nz\n"}), "> " + full + "\n> yy\n> z\n");
}

TEST(Lines, AreTheSameHoweverTheBytesAreCut) {
  std::mt19937_64 random(3);
  std::string text;
  for (int i = 0; i < 500; ++i) text += std::string(random() % 40, 'a') + '\n';
  text += "tail";
  for (const std::string prefix : {"", "[1] "}) {
    const std::string expected = assemble(prefix, {text});
    for (int run = 0; run < 50; ++run) {
      std::vector<std::string> parts;
      for (std::size_t begin = 0; begin < text.size();) {
        parts.push_back(text.substr(begin, random() % 100));
        begin += parts.back().size();
      }
      ASSERT_EQ(assemble(prefix, parts), expected);
    }
  }
}

TEST(SpoolQueue, KeepsOrderThroughMemoryAndFile) {
  std::mt19937_64 random(5);
  Spool spool;
  std::string expected;
  std::string got;
  for (int step = 0; step < 2000; ++step) {
    // First it grows well over what memory holds, then it drains.
    if (random() % 3 != (step < 1000 ? 0U : 1U)) {
      std::string bytes(random() % 4000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      expected += step < 1000 ? bytes : bytes.substr(0, 10);
      spool.append(step < 1000 ? bytes : bytes.substr(0, 10));
    }
    if (random() % 2 == 0 && !spool.empty()) got += spool.take(random() % 6000 + 1);
  }
  while (!spool.empty()) got += spool.take(5000);
  EXPECT_GT(expected.size(), 10 * Spool::max_memory_bytes);
  EXPECT_EQ(got.size(), expected.size());
  EXPECT_TRUE(got == expected);
}

/// An Output that writes into pipes, read by the test.
class Outputs {
 public:
  explicit Outputs(OutputMode mode, Rank size) {
    clock_.set_ns(1'000'000'000);
    for (auto& ends : pipes_) {
      EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    output_ = std::make_unique<Output>(loop_, mode, size, pipes_[0][1], pipes_[1][1],
                                       [this](Rank rank, std::size_t bytes) { credit_[rank] += bytes; });
  }
  ~Outputs() {
    output_.reset();
    for (auto& ends : pipes_) {
      ::close(ends[0]);
      ::close(ends[1]);
    }
  }
  Output& operator*() { return *output_; }
  Output* operator->() { return output_.get(); }
  std::size_t credit(Rank rank) { return credit_[rank]; }

  /// What has been written so far.
  std::string read(Stream stream) {
    std::string text;
    std::array<char, 4096> buffer;
    ssize_t count = 0;
    const int fd = pipes_[static_cast<std::size_t>(stream)][0];
    while ((count = ::read(fd, buffer.data(), buffer.size())) > 0)
      text.append(buffer.data(), static_cast<std::size_t>(count));
    return text;
  }
  /// What has been written when some time has passed.
  std::string read_after_ms(TimeNs ms, Stream stream = Stream::out) {
    clock_.advance_ns(ms * 1'000'000);
    turn();
    return read(stream);
  }
  /// Reads until everything is written.
  std::string drain(Stream stream) {
    std::string text;
    while (!output_->drained()) {
      turn();
      text += read(stream);
    }
    return text + read(stream);
  }

 private:
  void turn() {
    bool turned = false;
    loop_.start_timer(0, [&turned] { turned = true; });
    loop_.run_until(turned);
  }

  ManualClock clock_;
  EventLoop loop_{clock_};
  std::array<std::array<int, 2>, stream_count> pipes_{};
  std::map<Rank, std::size_t> credit_;
  std::unique_ptr<Output> output_;
};

TEST(Output, RawWritesLinesAsTheyComeToTheirStream) {
  Outputs outputs(OutputMode::raw, 2);
  outputs->add(0, Stream::out, "half");
  outputs->add(1, Stream::out, "one\n");
  outputs->add(1, Stream::error, "oops\n");
  outputs->add(0, Stream::out, " done\n");
  EXPECT_EQ(outputs.read(Stream::out), "one\nhalf done\n");
  EXPECT_EQ(outputs.read(Stream::error), "oops\n");
  EXPECT_EQ(outputs.credit(0), 10U);
  EXPECT_EQ(outputs.credit(1), 9U);
}

TEST(Output, PartialLastLinesAreWritten) {
  Outputs outputs(OutputMode::prefix, 2);
  outputs->add(1, Stream::out, "no end");
  EXPECT_EQ(outputs.read(Stream::out), "");
  outputs->close_all();
  EXPECT_EQ(outputs.read(Stream::out), "[1] no end\n");
  EXPECT_TRUE(outputs->drained());
}

TEST(Output, UnfinishedLinesAreShownWhenNothingFollows) {
  for (const OutputMode mode : {OutputMode::raw, OutputMode::prefix, OutputMode::ordered}) {
    const std::string first = mode == OutputMode::raw ? "" : "[0] ";
    const std::string other = mode == OutputMode::raw ? "" : "[1] ";
    Outputs outputs(mode, 2);
    outputs->add(0, Stream::out, "Na");
    EXPECT_EQ(outputs.read_after_ms(30), "");
    outputs->add(0, Stream::out, "me: ");
    EXPECT_EQ(outputs.read_after_ms(30), "") << "not quiet for long enough";
    EXPECT_EQ(outputs.read_after_ms(50), first + "Name: ");
    EXPECT_EQ(outputs.read_after_ms(5000), "");
    outputs->add(0, Stream::out, "A.\n10 %");
    EXPECT_EQ(outputs.read(Stream::out), "A.\n");
    EXPECT_EQ(outputs.read_after_ms(60), first + "10 %");
    outputs->add(0, Stream::out, "\r20 %");
    EXPECT_EQ(outputs.read_after_ms(60), "\r20 %") << "it goes on with its line";
    EXPECT_EQ(outputs.credit(0), 18U);
    outputs->close(0, Stream::out);
    outputs->close(0, Stream::error);
    outputs->add(1, Stream::out, "last\n");
    EXPECT_EQ(outputs.read(Stream::out), "\n" + other + "last\n");
  }
}

TEST(Output, ShownLinesThatAreCutInTwoBeginAnew) {
  for (const OutputMode mode : {OutputMode::raw, OutputMode::prefix}) {
    const std::string first = mode == OutputMode::raw ? "" : "[0] ";
    const std::string other = mode == OutputMode::raw ? "" : "[1] ";
    Outputs outputs(mode, 2);
    outputs->add(0, Stream::out, "half");
    EXPECT_EQ(outputs.read_after_ms(60), first + "half");
    outputs->add(1, Stream::out, "one\n");
    outputs->add(0, Stream::out, " done\n");
    EXPECT_EQ(outputs.read(Stream::out), "\n" + other + "one\n" + first + " done\n");
  }
}

TEST(Output, UnfinishedLinesWaitLongerForTheirEndAmongOthers) {
  Outputs outputs(OutputMode::raw, 3);
  outputs->add(1, Stream::out, "one\n");
  outputs->add(0, Stream::out, "half");
  outputs->add(2, Stream::out, "two");
  EXPECT_EQ(outputs.read_after_ms(900), "one\n");
  outputs->add(0, Stream::out, " done\n");
  EXPECT_EQ(outputs.read(Stream::out), "half done\n");
  EXPECT_EQ(outputs.read_after_ms(200), "two");
}

TEST(Output, FullBuffersWaitLongerForTheRestOfTheirLastLine) {
  Outputs outputs(OutputMode::raw, 1);
  const std::string full(4096, 'x');
  outputs->add(0, Stream::out, full);
  EXPECT_EQ(outputs.read_after_ms(900), "");
  EXPECT_EQ(outputs.read_after_ms(200), full);
}

TEST(Output, OrderedShowsWhatWaitedForItsTurn) {
  Outputs outputs(OutputMode::ordered, 2);
  outputs->add(1, Stream::out, "later");
  EXPECT_EQ(outputs.read_after_ms(5000), "");
  outputs->close(0, Stream::out);
  outputs->close(0, Stream::error);
  EXPECT_EQ(outputs.read_after_ms(60), "[1] later");
}

TEST(Output, RawEndsAnUnfinishedLineBeforeAnotherRanksText) {
  Outputs outputs(OutputMode::raw, 2);
  outputs->add(0, Stream::out, "no end");
  outputs->close(0, Stream::out);
  outputs->add(1, Stream::out, "other\nlast");
  outputs->close(1, Stream::out);
  EXPECT_EQ(outputs.read(Stream::out), "no end\nother\nlast");
}

TEST(Output, OrderedWritesOneRankAfterTheOther) {
  Outputs outputs(OutputMode::ordered, 3);
  outputs->add(2, Stream::out, "c1\n");
  outputs->add(0, Stream::out, "a1\n");
  outputs->add(1, Stream::out, "b1\nb2");
  EXPECT_EQ(outputs.read(Stream::out), "[0] a1\n");
  outputs->close(2, Stream::out);
  outputs->close(2, Stream::error);
  outputs->close(0, Stream::out);
  EXPECT_EQ(outputs.read(Stream::out), "") << "rank 0 may still write to its standard error";
  outputs->close(0, Stream::error);
  EXPECT_EQ(outputs.read(Stream::out), "[1] b1\n");
  EXPECT_FALSE(outputs->drained());
  outputs->add(1, Stream::out, " end\nlive\n");
  EXPECT_EQ(outputs.read(Stream::out), "[1] b2 end\n[1] live\n");
  outputs->close(1, Stream::error);
  outputs->close(1, Stream::out);
  EXPECT_EQ(outputs.read(Stream::out), "[2] c1\n");
  EXPECT_TRUE(outputs->drained());
  EXPECT_EQ(outputs.credit(2), 3U);
}

TEST(Output, OrderedSpoolsMoreThanAPipeAndMemoryHold) {
  Outputs outputs(OutputMode::ordered, 2);
  std::string expected;
  for (int i = 0; i < 40'000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    outputs->add(1, Stream::out, line);
    expected += "[1] " + line;
  }
  ASSERT_GT(expected.size(), 8 * Spool::max_memory_bytes);
  EXPECT_EQ(outputs.read(Stream::out), "");
  outputs->close_all();
  EXPECT_TRUE(outputs.drain(Stream::out) == expected);
}

TEST(Output, GivesNoCreditForWhatNobodyReads) {
  Outputs outputs(OutputMode::raw, 1);
  const std::string line(4095, 'x');
  for (int i = 0; i < 64; ++i) outputs->add(0, Stream::out, line + "\n");
  EXPECT_FALSE(outputs->drained());
  EXPECT_LE(outputs.credit(0), 64U * 1024U) << "a pipe holds 64 KiB";
  EXPECT_EQ(outputs.drain(Stream::out).size(), 64U * 4096U);
  EXPECT_EQ(outputs.credit(0), 64U * 4096U);
}

}  // namespace
}  // namespace craton::job
