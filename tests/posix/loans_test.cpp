// Loans of streams: threads of all ranks read one, by the characters, lines and blocks that loans serve, and
// in the ways that end them. Each byte says where in the file it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "posix/loans.hpp"
#include "schedules.hpp"
#include "sim_threads.hpp"

namespace craton::posix {

namespace {

using craton::test::Rank;
using craton::test::SimThreads;

constexpr std::size_t file_bytes = 250;
constexpr bool ends_line(std::size_t byte) noexcept {
  return byte % 7 == 6;
}

/// The owner's stream.
class SimStream {
 public:
  explicit SimStream(SimThreads& threads) : threads_(threads) {}

  void lock(std::size_t thread) {
    while (depth_ != 0 && holder_ != thread) threads_.compute();
    holder_ = thread;
    ++depth_;
  }
  bool try_lock(std::size_t thread) {
    if (depth_ != 0 && holder_ != thread) return false;
    lock(thread);
    return true;
  }
  void unlock(std::size_t thread) {
    threads_.require(depth_ != 0 && holder_ == thread, "a thread unlocks what it has not locked");
    --depth_;
  }

  /// With the lock. Fewer at the file's end.
  std::vector<std::byte> read(std::size_t most, bool whole_line) {
    threads_.require(!lent.is_out(), "what is lent is read");
    std::vector<std::byte> bytes;
    while (bytes.size() < most) {
      if (at_ == end_) fill();
      if (at_ == end_) {
        is_at_end_ = true;
        break;
      }
      bytes.push_back(static_cast<std::byte>(at_++));
      threads_.maybe_switch();
      if (whole_line && ends_line(at_ - 1)) break;
    }
    return bytes;
  }
  void unget() {
    threads_.require(!lent.is_out() && at_ != 0, "what is lent is changed");
    --at_;
  }
  std::size_t tell() {
    threads_.require(!lent.is_out(), "what is lent is looked at");
    return at_;
  }
  bool is_at_end() const { return is_at_end_; }

  /// \returns what is lent: all that has been read ahead
  std::vector<std::byte> hide() {
    std::vector<std::byte> bytes;
    hidden_end_ = end_;
    for (std::size_t i = at_; i != end_; ++i) bytes.push_back(static_cast<std::byte>(i));
    end_ = at_;
    return bytes;
  }
  void restore(std::uint64_t used) {
    end_ = hidden_end_;
    at_ += used;
    threads_.require(at_ <= end_, "more was used than was lent");
  }

  Lent lent;

 private:
  void fill() { end_ = std::min(file_bytes, end_ + threads_.random().between(1, 20)); }

  SimThreads& threads_;
  std::size_t at_ = 0, end_ = 0, hidden_end_ = 0;
  std::size_t holder_ = 0;
  unsigned depth_ = 0;
  bool is_at_end_ = false;
};

/// The programs of a seed. Rank 0 has the stream.
class LoansRun {
 public:
  explicit LoansRun(std::uint64_t seed)
      : seed_(seed),
        threads_(seed, ranks_of(seed), stack_bytes),
        stream_(threads_),
        borrowed_(threads_.size()) {}
  craton::Seen seen;

  std::string go() {
    const std::uint64_t each = threads_.random().between(1, 2);
    takes_turns_ = threads_.random().one_in(4) ? 1 : 6;
    for (Rank rank = 0; rank < threads_.size(); ++rank)
      for (std::uint64_t i = 0; i < each; ++i) threads_.spawn(rank, [this] { read_it(); });
    std::string failure = threads_.run();
    if (failure.empty() &&
        !std::all_of(read_.begin(), read_.end(), [](unsigned times) { return times == 1; }))
      failure = "a byte was not read once";
    if (failure.empty()) return failure;
    threads_.abandon();
    return "seed " + std::to_string(seed_) + ", " + failure;
  }

 private:
  enum class Call { get, read, line, unget, tell, lock, try_lock, unlock, at_end };
  struct Answer {
    std::int64_t value = 0;
    std::vector<std::byte> bytes;
  };

  static constexpr std::size_t stack_bytes = std::size_t{64} * 1024;
  static Rank ranks_of(std::uint64_t seed) { return static_cast<Rank>(2 + seed % 3); }

  std::size_t thread() { return threads_.current().number + 1; }
  Rank rank() { return threads_.current().rank; }
  bool is_owner() { return rank() == 0; }
  Borrowed& mine() { return borrowed_[rank()]; }

  // ---- Messages

  void message() {
    if (threads_.random().one_in(2)) return threads_.maybe_switch();
    threads_.compute();
  }

  void settle(LoanBack back) {
    stream_.lent.settle(
        rank(), back,
        [this](Rank from, LoanNumber number) {
          ++seen["recalled"];
          message();
          const std::uint64_t unread = borrowed_[from].recall(number);
          if (unread == all_of_it) ++seen["recalled on its way"];
          message();
          return unread;
        },
        [this](std::uint64_t used) { stream_.restore(used); });
  }

  /// At the owner, by its own thread or the one that serves this one.
  Answer serve(Call call, std::size_t most, LoanBack back, LoanNumber& loan, std::vector<std::byte>& lent) {
    const std::size_t self = thread();
    if (call == Call::unlock) {
      stream_.unlock(self);
      return {};
    }
    if (call == Call::at_end) return {.value = stream_.is_at_end() ? 1 : 0, .bytes = {}};
    if (call == Call::try_lock && !stream_.try_lock(self)) return {.value = -1, .bytes = {}};
    stream_.lock(self);
    settle(back);
    Answer answer;
    if (call == Call::get) answer.bytes = stream_.read(1, false);
    if (call == Call::read) answer.bytes = stream_.read(most, false);
    if (call == Call::line) answer.bytes = stream_.read(most, true);
    if (call == Call::unget) stream_.unget();
    if (call == Call::tell) answer.value = static_cast<std::int64_t>(stream_.tell());
    if (call == Call::lock) stream_.lock(self);
    const bool may_lend = !is_owner() && call != Call::unget && call != Call::tell && call != Call::try_lock;
    if (may_lend && stream_.lent.is_worth_it()) {
      lent = stream_.hide();
      if (!lent.empty()) {
        loan = ++loans_;
        stream_.lent.lend(loan, rank(), lent.size());
        ++seen["lent"];
      }
    }
    stream_.unlock(self);
    return answer;
  }

  /// As RemoteStream does, where another rank has the stream.
  Answer ask(Call call, std::size_t most = 0) {
    LoanNumber loan = 0;
    std::vector<std::byte> lent;
    if (is_owner()) return serve(call, most, {}, loan, lent);
    const std::size_t self = thread();
    LoanBack back;
    if (call == Call::unlock)
      mine().unlocking(self);
    else if (call != Call::try_lock && call != Call::at_end)
      back = mine().give_back(self);
    if (back.unread != 0) ++seen["given back"];
    message();
    Answer answer = serve(call, most, back, loan, lent);
    message();
    if ((call == Call::lock || call == Call::try_lock) && answer.value == 0) mine().locked(self);
    if (loan != 0) mine().store(loan, lent);
    return answer;
  }

  // ---- What programs call

  std::vector<std::byte> take(Call call, std::size_t most) {
    std::vector<std::byte> bytes;
    const auto use = [&](std::span<const std::byte> unread) -> std::size_t {
      std::size_t length = std::min(most, unread.size());
      if (call == Call::line) {
        const auto end = std::find_if(unread.begin(), unread.end(), [](std::byte byte) {
          return ends_line(static_cast<std::size_t>(byte));
        });
        if (end == unread.end() && length < most) return 0;
        if (end != unread.end()) length = std::min<std::size_t>(length, end - unread.begin() + 1);
      }
      if (call != Call::line && length < most) return 0;
      bytes.assign(unread.begin(), unread.begin() + static_cast<std::ptrdiff_t>(length));
      return length;
    };
    if (!is_owner() && mine().use(thread(), use)) {
      ++seen["from a loan"];
      return bytes;
    }
    return ask(call, most).bytes;
  }
  /// As scanf() does.
  std::vector<std::byte> scan() {
    std::optional<Borrowed::Copy> copy = is_owner() ? std::nullopt : mine().copy(thread());
    if (!copy.has_value()) return take(Call::get, 1);
    const std::size_t length = threads_.random().between(1, copy->bytes.size());
    threads_.maybe_switch();
    if (!mine().take(thread(), *copy, length)) {
      ++seen["taken by others"];
      return take(Call::get, 1);
    }
    copy->bytes.resize(length);
    return copy->bytes;
  }
  void unget(std::byte byte) {
    if (is_owner() || !mine().unget(thread(), byte)) ask(Call::unget);
  }
  bool is_at_end() {
    if (!is_owner() && mine().is_here(thread())) return false;
    return ask(Call::at_end).value != 0;
  }

  // ---- Programs

  /// What a call has read lies behind what calls had that were over when it began.
  std::size_t judge(std::span<const std::byte> bytes, std::size_t least) {
    if (bytes.empty()) return least;
    const auto first = static_cast<std::size_t>(bytes.front());
    threads_.require(first >= least, "an earlier byte is read later");
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      threads_.require(static_cast<std::size_t>(bytes[i]) == first + i, "a call's bytes do not lie together");
      ++read_[first + i];
    }
    over_ = std::max(over_, first + bytes.size());
    return first + bytes.size();
  }

  /// \returns whether the file has ended
  bool read_once(std::optional<std::size_t>& place) {
    const std::size_t least = over_;
    const std::uint64_t way = threads_.random().below(4);
    const std::size_t most = threads_.random().between(1, 12);
    const std::vector<std::byte> bytes = way == 0   ? take(Call::get, 1)
                                         : way == 1 ? take(Call::read, most)
                                         : way == 2 ? take(Call::line, most)
                                                    : scan();
    if (place.has_value() && !bytes.empty())
      threads_.require(static_cast<std::size_t>(bytes.front()) == *place, "others read what is locked");
    const std::size_t end = judge(bytes, least);
    if (place.has_value() && !bytes.empty()) place = end;
    if (way == 2 && bytes.size() < most)
      threads_.require(
          bytes.empty() || ends_line(static_cast<std::size_t>(bytes.back())) || end == file_bytes,
          "a line ends too early");
    return bytes.empty();
  }

  bool read_locked() {
    if (threads_.random().one_in(3)) {
      if (ask(Call::try_lock).value != 0) return false;
    } else {
      ask(Call::lock);
    }
    std::optional<std::size_t> place = static_cast<std::size_t>(ask(Call::tell).value);
    bool is_over = false;
    for (std::uint64_t i = threads_.random().between(0, 6); i != 0 && !is_over; --i) {
      is_over = read_once(place);
      threads_.maybe_switch();
      if (is_over || threads_.random().one_in(2)) continue;
      const std::vector<std::byte> next = take(Call::get, 1);
      if (next.empty()) break;
      threads_.require(static_cast<std::size_t>(next.front()) == *place, "others read what is locked");
      unget(next.front());
      ++seen["put back"];
    }
    if (threads_.random().one_in(2))
      threads_.require(static_cast<std::size_t>(ask(Call::tell).value) == *place, "the position is another");
    ask(Call::unlock);
    return is_over;
  }

  void read_it() {
    bool is_over = false;
    while (!is_over) {
      if (threads_.random().one_in(3)) {
        is_over = read_locked();
      } else {
        std::optional<std::size_t> anywhere;
        for (std::uint64_t i = threads_.random().between(1, takes_turns_); i != 0 && !is_over; --i) {
          is_over = read_once(anywhere);
          threads_.maybe_switch();
        }
      }
      if (is_over) threads_.require(is_at_end(), "the end is not seen");
      if (threads_.random().one_in(4)) threads_.compute();
    }
  }

  const std::uint64_t seed_;
  SimThreads threads_;
  SimStream stream_;
  std::vector<Borrowed> borrowed_;
  LoanNumber loans_ = 0;
  std::uint64_t takes_turns_ = 1;  ///< calls, at most, of a thread without a pause
  std::size_t over_ = 0;           ///< of what calls have read that are over
  std::array<unsigned, file_bytes> read_{};
};

class Loans : public testing::TestWithParam<std::uint64_t> {};

TEST_P(Loans, AreReadOnceAndInOrder) {
  const Schedules all = run_schedules<LoansRun>(GetParam(), schedules_wanted(20'000, 1000));
  expect_names_seen(all, std::vector<const char*>{"lent", "from a loan", "recalled", "recalled on its way",
                                                  "given back", "taken by others", "put back"});
}

INSTANTIATE_TEST_SUITE_P(Part, Loans, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::posix
