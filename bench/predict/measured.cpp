// Ranks that are processes on this machine, with a real space.
#include <atomic>
#include <cmath>

#include "base/error.hpp"
#include "predict/predict.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr fabric::HandlerId turn_handler = fabric::first_free_handler + 16;

class RealRank final : public KernelRank {
 public:
  RealRank(SpaceRank& rank, double* data) : rank_(rank), data_(data) {
    rank_.fabric.set_handler(turn_handler, &RealRank::turn_arrived, this);
  }

  fabric::Rank rank() const noexcept override { return rank_.rank(); }
  fabric::Rank size() const noexcept override { return rank_.size(); }
  TimeNs now_ns() override { return bench::now_ns(); }
  void barrier(std::uint32_t site) override { rank_.barrier(site); }
  void lock(space::MutexId mutex) override { rank_.space.mutexes().lock(mutex); }
  void unlock(space::MutexId mutex) override { rank_.space.mutexes().unlock(mutex); }
  void compute(TimeNs for_ns) override {
    const TimeNs until_ns = now_ns() + for_ns;
    while (now_ns() < until_ns) {
    }
  }
  double load(std::size_t word) override { return static_cast<volatile double*>(data_)[word]; }
  void store(std::size_t word, double value) override { static_cast<volatile double*>(data_)[word] = value; }
  void sweep(std::size_t from, std::size_t to, std::size_t cells, double left, double right) override {
    sweep_memory(data_ + from, data_ + to, cells, left, right);
  }
  void pass_turn(fabric::Rank to) override { check(rank_.fabric.send(to, turn_handler, nullptr, 0)); }
  void await_turn() override {
    check(
        rank_.fabric.wait_until([this] { return turns_.load(std::memory_order_acquire) != 0; }, no_deadline));
    turns_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  static void turn_arrived(void* self, fabric::Rank, const std::byte*, std::size_t) noexcept {
    static_cast<RealRank*>(self)->turns_.fetch_add(1, std::memory_order_release);
  }
  static void check(fabric::Status status) {
    if (status != fabric::Status::ok)
      throw Error(ErrorCode::peer_lost, {"cannot measure a kernel", "another rank is gone", "", ""});
  }

  SpaceRank& rank_;
  double* const data_;
  std::atomic<std::uint64_t> turns_{0};
};

}  // namespace

Sample measure(const Kernel& kernel, std::string_view transport, fabric::Rank size) {
  const Forked<Sample> result;
  run_space(transport, size, {.mutexes = 1}, [&](SpaceRank& rank) {
    auto* const data = reinterpret_cast<double*>(
        rank.space
            .create_segment({.name = "bench",
                             .bytes = kernel.blocks(size) * predict_block_bytes,
                             .block_bytes = predict_block_bytes,
                             .initial_homes = {.kind = coherence::InitialHomes::Kind::blocked},
                             .dials = {}})
            .data());
    RealRank self(rank, data);
    self.barrier(0);
    kernel.run(self, kernel.repeats_measured);
    self.barrier(0);
    if (rank.rank() != 0) return;
    double sum_ns = 0;
    for (const double time_ns : self.times_ns) sum_ns += time_ns;
    *result = summarise(self.times_ns, self.times_ns.size(), std::llround(sum_ns));
  });
  return *result;
}

}  // namespace craton::bench
