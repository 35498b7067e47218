// Barriers, mutexes and iterations as programs do them. Each warms up first, until the protocol has learnt
// what it learns.
#include <algorithm>

#include "base/error.hpp"
#include "predict/predict.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t words_a_block = predict_block_bytes / sizeof(double);
constexpr int warm = 4;
constexpr std::uint64_t blocks_a_part = 4;  ///< of the stencil: 16 KiB
constexpr std::size_t cells = blocks_a_part * words_a_block;
constexpr std::uint64_t taken_at_least = 256;  ///< a contended mutex, by all ranks together
constexpr TimeNs held_ns = 15'000;             ///< of it: long enough for others to queue

void must(bool holds, const char* what) {
  if (!holds)
    throw Error(ErrorCode::protocol, {what, "other values were read than had been written", "", ""});
}

template <typename Iteration>
void repeat(KernelRank& rank, int repeats, const Iteration& iteration) {
  for (int i = 0; i < warm + repeats; ++i) {
    const TimeNs before_ns = rank.now_ns();
    iteration(i);
    if (rank.rank() == 0 && i >= warm) rank.note(rank.now_ns() - before_ns);
  }
}

void barrier(KernelRank& rank, int repeats) {
  repeat(rank, repeats, [&](int) { rank.barrier(1); });
}

/// All want the mutex all the time: the time from one holder to the next, while nobody holds it.
void contended_mutex(KernelRank& rank, int repeats) {
  const std::uint64_t each = std::max<std::uint64_t>(1, taken_at_least / rank.size());
  for (int i = 0; i < repeats; ++i) {
    rank.barrier(1);
    const TimeNs before_ns = rank.now_ns();
    for (std::uint64_t taken = 0; taken < each; ++taken) {
      rank.lock(0);
      rank.compute(held_ns);
      rank.unlock(0);
    }
    rank.barrier(2);
    const std::uint64_t all = each * rank.size();
    if (rank.rank() == 0) rank.note(rank.now_ns() - before_ns - static_cast<TimeNs>(all) * held_ns, all);
  }
}

/// One rank after the other takes and gives back a mutex that nobody else wants then: what that takes a rank
/// once all others have had it in between.
void free_mutex(KernelRank& rank, int repeats) {
  const fabric::Rank next = (rank.rank() + 1) % rank.size();
  for (int round = 0; round <= repeats; ++round) {
    const bool first = rank.rank() == 0 && round == 0;
    const bool last = round == repeats;
    if (last && rank.rank() != 0) break;
    if (!first) rank.await_turn();
    const TimeNs before_ns = rank.now_ns();
    rank.lock(0);
    rank.unlock(0);
    if (rank.rank() == 0 && !first) rank.note(rank.now_ns() - before_ns);
    if (!last) rank.pass_turn(next);
  }
  rank.barrier(1);
}

/// Each rank has a part of a rod, and reads the neighbours' ends (examples/heat.c). After step s every cell
/// is s.
void stencil(KernelRank& rank, int repeats) {
  const std::size_t all = cells * rank.size();
  const std::size_t first = cells * rank.rank();
  std::size_t now = 0;
  std::size_t next = all;
  repeat(rank, repeats, [&](int step) {
    const std::size_t part = now + first;
    const double left = rank.load(rank.rank() == 0 ? part : part - 1);
    const double right = rank.load(rank.rank() + 1 == rank.size() ? part + cells - 1 : part + cells);
    must(left == step && right == step, "cannot measure the stencil");
    rank.sweep(part, next + first, cells, left, right);
    std::swap(now, next);
    rank.barrier(1 + static_cast<std::uint32_t>(step) % 2);
  });
}

/// One writes a word and all read it.
void one_writes(KernelRank& rank, int repeats) {
  repeat(rank, repeats, [&](int step) {
    if (rank.rank() == 0) rank.store(0, step);
    rank.barrier(1);
    must(rank.load(0) == step, "cannot measure one writer");
    rank.barrier(2);
  });
}

/// The sum over all ranks as conjugate gradient makes it: each writes a block, and all read all of those.
void sum_of_all(KernelRank& rank, int repeats) {
  repeat(rank, repeats, [&](int step) {
    rank.store(rank.rank() * words_a_block, step);
    rank.barrier(1);
    double sum = 0;
    for (fabric::Rank each = 0; each < rank.size(); ++each) sum += rank.load(each * words_a_block);
    must(sum == static_cast<double>(step) * rank.size(), "cannot measure the sum");
    rank.barrier(2);
  });
}

std::uint64_t one_block(fabric::Rank) {
  return 1;
}
std::uint64_t block_a_rank(fabric::Rank size) {
  return size;
}
std::uint64_t two_rods(fabric::Rank size) {
  return 2 * blocks_a_part * size;
}

constexpr Kernel all_kernels[] = {
    {"barrier", &barrier, &one_block, 4, 2000, 1024},
    {"contended mutex", &contended_mutex, &one_block, 1, 10, 1024},
    {"free mutex", &free_mutex, &one_block, 1, 500, 1024},
    {"stencil", &stencil, &two_rods, 8, 1000, 1024},
    {"one writes, all read", &one_writes, &one_block, 4, 1000, 1024},
    {"sum of all", &sum_of_all, &block_a_rank, 4, 1000, 256},
};

}  // namespace

std::span<const Kernel> kernels() {
  return all_kernels;
}

void sweep_memory(const double* from, double* to, std::size_t count, double left, double right) noexcept {
  to[0] = from[0] / 2 + (left + from[1]) / 4 + 1;
  for (std::size_t i = 1; i + 1 < count; ++i) to[i] = from[i] / 2 + (from[i - 1] + from[i + 1]) / 4 + 1;
  to[count - 1] = from[count - 1] / 2 + (from[count - 2] + right) / 4 + 1;
}

}  // namespace craton::bench
