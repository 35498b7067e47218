#include "omp_ranks.hpp"

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "omp/platform.hpp"
#include "omp/process.hpp"
#include "space/heap.hpp"
#include "vm/thread_scope.hpp"

namespace craton::omp::test {

using space::test::RankSpace;

namespace {

const space::test::Machine shared_memory{"shm", "shm", 1, "auto"};
const space::test::Machine network{"tcp", "tcp", 64, "auto"};

}  // namespace

const std::vector<Shape> shapes{
    {1, 1, &shared_memory}, {1, 2, &shared_memory}, {1, 4, &shared_memory}, {2, 1, &shared_memory},
    {2, 2, &shared_memory}, {4, 1, &shared_memory}, {4, 2, &shared_memory}, {2, 1, &network},
    {2, 2, &network},       {4, 1, &network},
};

std::string name_of(const Shape& shape) {
  return std::to_string(shape.ranks) + "x" + std::to_string(shape.threads) + "_" + shape.machine->name;
}

namespace {

constexpr std::size_t heap_bytes = std::size_t{64} << 20U;
constexpr fabric::HandlerId heap_handler = 100;
constexpr fabric::HandlerId omp_handler = 101;
constexpr fabric::RegionId omp_region = 3000;

fabric::Rank this_rank = 0;
const Shape* this_shape = nullptr;

class TestPlatform final : public Platform {
 public:
  TestPlatform(RankSpace& rank, space::Heap& heap) : rank_(rank), heap_(heap) {}

  fabric::Fabric& fabric() override { return rank_.fabric; }
  space::Space& space() override { return rank_.space; }
  space::Heap& heap() override { return heap_; }
  void start_thread(void (*body)(void*), void* argument) override {
    std::thread([body, argument] {
      const vm::ThreadScope scope;
      body(argument);
    }).detach();
  }
  void flush_output() noexcept override {}
  void fail(const std::string& message) noexcept override {
    rank_.parent.fail(message);
    ::_exit(1);
  }
  fabric::RegionId first_region() override { return omp_region; }
  fabric::HandlerId first_handler() override { return omp_handler; }

 private:
  RankSpace& rank_;
  space::Heap& heap_;
};

}  // namespace

void Job::check(bool holds, const std::string& otherwise) const {
  if (!holds) throw std::runtime_error(otherwise);
}

fabric::Rank here() noexcept {
  return this_rank;
}

const Shape& shape() noexcept {
  return *this_shape;
}

std::string run_program(const Shape& of, Settings settings, void** shared, std::size_t bytes,
                        const std::function<void(const Job&)>& body, int limit_s) {
  this_shape = &of;
  settings.threads_a_rank = of.threads;
  const auto run = [&](RankSpace& rank) {
    this_rank = rank.rank();
    space::Segment& heap_segment =
        rank.space.create_segment({.name = "heap", .bytes = heap_bytes, .initial_homes = {}, .dials = {}});
    if (shared != nullptr) {
      *shared =
          rank.space.create_segment({.name = "shared", .bytes = bytes, .initial_homes = {}, .dials = {}})
              .data();
    }
    space::Heap heap(rank.fabric, rank.space, heap_segment, heap_handler);
    TestPlatform platform(rank, heap);
    rank.space.barrier().wait();
    start(platform, settings);
    rank.space.barrier().wait();
    const Job job{.rank = rank.rank()};
    if (rank.rank() != 0) {
      work();
    } else {
      attach_master();
      body(job);
      stop();
    }
    // The runtime's threads stay, and with them all that they may look at.
    rank.parent.done();
    std::fflush(nullptr);
    ::_exit(0);
  };
  return space::test::run_space(*of.machine, of.ranks, {.mutexes = mutexes_needed + 4096, .threads = 1}, run,
                                limit_s);
}

}  // namespace craton::omp::test
