// The protocol's own classes over the simulated fabric, in a world whose times are of a model.
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"
#include "predict/predict.hpp"
#include "sim_space.hpp"

namespace craton::bench {
namespace {

using coherence::test::SegmentShape;
using coherence::test::SimRank;
using fabric::sim::SimFabric;
using fabric::sim::World;

constexpr fabric::HandlerId turn_handler = fabric::first_free_handler + 16;

class SimulatedRank final : public KernelRank {
 public:
  SimulatedRank(SimFabric& fabric, SimRank& space, const Machine& machine)
      : fabric_(fabric), space_(space), machine_(machine) {
    fabric_.set_handler(turn_handler, &SimulatedRank::turn_arrived, this);
  }

  fabric::Rank rank() const noexcept override { return fabric_.rank(); }
  fabric::Rank size() const noexcept override { return fabric_.size(); }
  TimeNs now_ns() override {
    settle();
    return fabric_.clock().now_ns();
  }
  void barrier(std::uint32_t site) override {
    space_.barrier().wait(site);
    settle();
  }
  void lock(space::MutexId mutex) override { space_.mutexes().lock(mutex); }
  void unlock(space::MutexId mutex) override { space_.mutexes().unlock(mutex); }
  void compute(TimeNs for_ns) override { fabric_.world().compute(for_ns); }
  double load(std::size_t word) override {
    double value = 0;
    space_.load(0, word * sizeof value, &value, sizeof value);
    return value;
  }
  void store(std::size_t word, double value) override {
    space_.store(0, word * sizeof value, &value, sizeof value);
  }
  void sweep(std::size_t from, std::size_t to, std::size_t cells, double left, double right) override {
    constexpr std::size_t words_a_block = predict_block_bytes / sizeof(double);
    // All cells are equal, so each block's first and last word stand for it.
    for (std::size_t first = 0; first < cells; first += words_a_block) {
      const double value = load(from + first) / 2 + (left + right) / 4 + 1;
      store(to + first, value);
      store(to + first + words_a_block - 1, value);
    }
    fabric_.world().compute(std::llround(static_cast<double>(cells) * machine_.cell_ns));
  }
  void pass_turn(fabric::Rank to) override {
    static_cast<void>(fabric_.send(to, turn_handler, nullptr, 0));  // nobody dies here
  }
  void await_turn() override {
    static_cast<void>(fabric_.wait_until([this] { return turns_ != 0; }, no_deadline));
    --turns_;
  }

 private:
  static void turn_arrived(void* self, fabric::Rank, const std::byte*, std::size_t) noexcept {
    ++static_cast<SimulatedRank*>(self)->turns_;
  }

  /// Charges what the protocol has done to whole blocks since, which nothing else can know, and waits for it.
  void settle() {
    const coherence::LeaseRelease& protocol = space_.protocol();
    using coherence::Counters;
    // Passes over a block: a twin is a copy; a release compares with it and copies; a merge reads three.
    const std::uint64_t passes = protocol.count(&Counters::twins) +
                                 2 * protocol.count(&Counters::fast_releases) +
                                 protocol.count(&Counters::unchanged) + 3 * protocol.count(&Counters::merges);
    const double ns = static_cast<double>((passes - passes_) * predict_block_bytes) *
                      machine_.timing.local.copy_ns_per_byte;
    passes_ = passes;
    fabric_.charge(std::llround(ns));
    fabric_.world().compute(0);
  }

  SimFabric& fabric_;
  SimRank& space_;
  const Machine& machine_;
  std::uint64_t turns_ = 0;
  std::uint64_t passes_ = 0;
};

fabric::sim::Options options_of(const Machine& machine, fabric::Rank size) {
  return {.size = size,
          .ranks_per_node = machine.ranks_per_node,
          .stack_bytes = std::size_t{128} * 1024,
          .step_limit = 2'000'000'000,
          .timing = machine.timing};
}

void finish(World& world) {
  if (const World::Outcome outcome = world.run(); !outcome.failure.empty())
    throw Error(ErrorCode::protocol, {"cannot simulate a kernel", outcome.failure, "", ""});
}

}  // namespace

Prediction predict(const Kernel& kernel, const Machine& machine, fabric::Rank size) {
  const SteadyClock clock;
  const TimeNs begun_ns = clock.now_ns();
  Prediction prediction;
  std::vector<double> times_ns;
  World world(options_of(machine, size));
  const std::vector<SegmentShape> shapes{{.block_bytes = predict_block_bytes,
                                          .blocks = kernel.blocks(size),
                                          .initial_homes = {.kind = coherence::InitialHomes::Kind::blocked},
                                          .dials = {}}};
  for (fabric::Rank rank = 0; rank < size; ++rank) {
    world.spawn(rank, [&](SimFabric& fabric) {
      SimRank space(fabric, shapes, {}, 1, 1);
      SimulatedRank self(fabric, space, machine);
      self.barrier(0);
      kernel.run(self, kernel.repeats_simulated);
      self.barrier(0);
      if (fabric.rank() == 0) times_ns = self.times_ns;
      space.close();
    });
  }
  const World::Outcome outcome = world.run();
  if (!outcome.failure.empty())
    throw Error(ErrorCode::protocol,
                {std::string("cannot simulate ") + kernel.name, outcome.failure, "", ""});
  double sum_ns = 0;
  for (const double time_ns : times_ns) sum_ns += time_ns;
  prediction.sample = summarise(times_ns, times_ns.size(), std::llround(sum_ns));
  prediction.events = outcome.steps;
  prediction.wall_ns = clock.now_ns() - begun_ns;
  return prediction;
}

TimeNs predict_get(const Machine& machine, std::size_t bytes) {
  constexpr fabric::RegionId region = 1;
  World world(options_of(machine, 2));
  TimeNs taken_ns = 0;
  for (fabric::Rank rank = 0; rank < 2; ++rank) {
    world.spawn(rank, [&](SimFabric& fabric) {
      const fabric::RegionMemory memory("bench", bytes);
      fabric.register_region(region, memory);
      if (fabric.rank() == 0) {
        std::vector<std::byte> buffer(bytes);
        const TimeNs before_ns = fabric.clock().now_ns();
        fabric::Completion completion;
        fabric.get(buffer.data(), {1, region, 0}, bytes, completion);
        static_cast<void>(fabric.wait(completion));
        taken_ns = fabric.clock().now_ns() - before_ns;
      }
      fabric.unregister_region(region);
    });
  }
  finish(world);
  return taken_ns;
}

}  // namespace craton::bench
