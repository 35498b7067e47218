// Additions to words by all threads of all ranks: as atomic updates of blocks that become strong by them,
// beside a plain addition to a release block under a mutex, and beside atomic instructions of as many threads
// in one process. Each turn checks that no addition was lost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "space/ranks.hpp"
#include "space/strong.hpp"
#include "vm/thread_scope.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t block_bytes = 4096;
constexpr std::size_t most_threads = 8;
using Word = std::uint64_t;

/// Where the word of a thread is.
struct Layout {
  const char* name;
  std::size_t stride;
};
constexpr Layout layouts[] = {
    {"one word", 0}, {"neighbouring words", sizeof(Word)}, {"words of different blocks", block_bytes}};

struct Size {
  fabric::Rank ranks;
  unsigned threads;
};
constexpr Size sizes[] = {{2, 1}, {4, 2}};

/// One turn. In memory that all ranks share, all zero at first.
struct Progress {
  std::atomic<bool> ends;
  std::atomic<TimeNs> ended_ns;  ///< when the last thread had seen that
  std::array<std::atomic<Word>, most_threads> done;

  void begin() noexcept {
    ends = false;
    ended_ns = 0;
    for (std::atomic<Word>& each : done) each = 0;
  }
  Word total() const noexcept {
    Word sum = 0;
    for (const std::atomic<Word>& each : done) sum += each;
    return sum;
  }
};

/// Adds until the turn ends, and says how often.
template <typename Add>
void add_until_end(Progress& progress, unsigned thread, const Add& add) {
  Word count = 0;
  for (; !progress.ends.load(std::memory_order_relaxed); ++count) add();
  progress.done[thread] = count;
  const TimeNs now = now_ns();
  for (TimeNs last = progress.ended_ns; last < now && !progress.ended_ns.compare_exchange_weak(last, now);) {
  }
}

void check(Word sum, Word wanted, std::string_view what) {
  if (sum == wanted) return;
  throw Error(ErrorCode::protocol, {.asked = fmt::format("cannot measure counters by {}", what),
                                    .happened = fmt::format("{} of {} additions are there", sum, wanted),
                                    .limit = {},
                                    .remedy = {}});
}

class CounterTurn {
 public:
  CounterTurn(const Arguments& arguments, std::string_view transport, Size size, Progress& progress)
      : arguments_(arguments), transport_(transport), size_(size), progress_(progress) {}

  /// By threads of all ranks: `add(word, thread)`, and `newest(word)` to look whether all are there.
  template <typename Add, typename Newest>
  void in_space(const SpaceRank& rank, const Layout& layout, const space::SegmentOptions& options,
                const char* variant, int round, const Add& add, const Newest& newest) const {
    std::byte* const data = rank.space.create_segment(options).data();
    Word wanted = 0;
    // First a short one, by which blocks come to be where they are used, and become strong.
    for (const TimeNs turn_ns : {arguments_.turn_ns / 5, arguments_.turn_ns}) {
      if (rank.rank() == 0) progress_.begin();
      rank.barrier();
      const TimeNs begun_ns = now_ns();
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < size_.threads; ++i) {
        const unsigned thread = rank.rank() * size_.threads + i;
        threads.emplace_back([&, thread] {
          const vm::ThreadScope scope;
          auto* const word = reinterpret_cast<Word*>(data + thread * layout.stride);
          add_until_end(progress_, thread, [&] { add(word, thread); });
        });
      }
      if (rank.rank() == 0) end_after(turn_ns);
      for (std::thread& thread : threads) thread.join();
      rank.barrier();
      wanted += progress_.total();
      if (rank.rank() == 0 && turn_ns == arguments_.turn_ns) report(layout, variant, round, begun_ns);
      Word sum = 0;
      const std::size_t words = layout.stride == 0 ? 1 : rank.size() * size_.threads;
      for (std::size_t i = 0; i < words; ++i)
        sum += newest(reinterpret_cast<const Word*>(data + i * layout.stride));
      check(sum, wanted, variant);
      rank.barrier();  // all have looked
    }
  }

  /// By as many threads of this process, wherever the kernel puts them.
  void in_process(const Layout& layout, int round) const {
    struct alignas(block_bytes) Page {
      std::array<Word, block_bytes / sizeof(Word)> words;
    };
    std::vector<Page> pages(most_threads);
    auto* const data = reinterpret_cast<std::byte*>(pages.data());
    progress_.begin();
    const TimeNs begun_ns = now_ns();
    std::vector<std::thread> threads;
    const unsigned count = size_.ranks * size_.threads;
    for (unsigned thread = 0; thread < count; ++thread) {
      threads.emplace_back([&, thread] {
        const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(data + thread * layout.stride));
        add_until_end(progress_, thread, [&] { word.fetch_add(1); });
      });
    }
    end_after(arguments_.turn_ns);
    for (std::thread& thread : threads) thread.join();
    report(layout, "atomics of one process", round, begun_ns);
    Word sum = 0;
    for (const Page& page : pages) {
      for (const Word word : page.words) sum += word;
    }
    check(sum, progress_.total(), "atomics of one process");
  }

 private:
  void end_after(TimeNs turn_ns) const {
    std::this_thread::sleep_for(std::chrono::nanoseconds(turn_ns));
    progress_.ends = true;
  }
  void report(const Layout& layout, const char* variant, int round, TimeNs begun_ns) const {
    const std::string what = fmt::format("{}: strong: additions of {} ranks of {} to {}", transport_,
                                         size_.ranks, size_.threads, layout.name);
    report_rate({space_kernel, what, variant, round}, "additions/s",
                static_cast<double>(progress_.total()) * 1e9 /
                    static_cast<double>(progress_.ended_ns.load() - begun_ns));
    // Whether each thread gets its turns: a word that stays with one rank is added to fast.
    const std::size_t threads = size_.ranks * size_.threads;
    Word least = progress_.total();
    for (std::size_t i = 0; i < threads; ++i) least = std::min(least, progress_.done[i].load());
    report_rate({space_kernel, what + ", the least of a thread", variant, round}, "of its share",
                static_cast<double>(least * threads) / static_cast<double>(progress_.total()));
  }

  const Arguments arguments_;
  const std::string_view transport_;
  const Size size_;
  Progress& progress_;
};

void turn_in_space(const SpaceRank& rank, const CounterTurn& turn, const Layout& layout, bool updates,
                   int round) {
  space::Space& space = rank.space;
  const auto strength = updates ? coherence::Strength::automatic : coherence::Strength::release;
  const space::SegmentOptions options{.name = "bench",
                                      .bytes = most_threads * block_bytes,
                                      .block_bytes = block_bytes,
                                      .initial_homes = {},
                                      .dials = {.strength = strength}};
  if (updates) {
    const auto add = [&](Word* word, unsigned /*thread*/) {
      space.update(word, sizeof *word, [](std::byte* value) {
        Word number = 0;
        std::memcpy(&number, value, sizeof number);
        ++number;
        std::memcpy(value, &number, sizeof number);
      });
    };
    turn.in_space(rank, layout, options, "update", round, add, [&](const Word* word) {
      Word newest = 0;
      space.load(word, sizeof newest, &newest);
      return newest;
    });
  } else {
    // A mutex for each word.
    const auto add = [&](Word* word, unsigned thread) {
      const space::MutexId mutex = layout.stride == 0 ? 0 : thread;
      space.mutexes().lock(mutex);
      *word += 1;
      space.mutexes().unlock(mutex);
    };
    turn.in_space(rank, layout, options, "mutex", round, add, [](const Word* word) { return *word; });
  }
}

}  // namespace

void measure_counters(const Arguments& arguments, std::string_view transport) {
  const Forked<Progress> progress;
  for (const Size& size : sizes) {
    const CounterTurn turn(arguments, transport, size, *progress);
    for (int round = 0; round < arguments.rounds; ++round) {
      for (const Layout& layout : layouts) {
        // Spaces of their own: a release by the one would look at the other's blocks.
        for (const bool updates : {true, false}) {
          run_space(transport, size.ranks, {},
                    [&](SpaceRank& rank) { turn_in_space(rank, turn, layout, updates, round); });
        }
        turn.in_process(layout, round);
      }
    }
  }
}

}  // namespace craton::bench
