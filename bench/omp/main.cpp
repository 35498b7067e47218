// OpenMP's constructs over two ranks of one thread each, beside libgomp's two threads in one process, and,
// for those that are a meeting, beside two futex barriers between two processes: two words that are looked at
// for a while before anybody sleeps, and glibc's, which sleeps at once. Each variant has processes of its own
// in each round.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/shared_ring.hpp"
#include "frame/two_ranks.hpp"
#include "omp/kernels.hpp"
#include "omp/process.hpp"
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t heap_bytes = std::size_t{64} << 20U;

class BenchPlatform final : public omp::Platform {
 public:
  BenchPlatform(fabric::Fabric& fabric, space::Space& space, space::Heap& heap)
      : fabric_(fabric), space_(space), heap_(heap) {}
  fabric::Fabric& fabric() override { return fabric_; }
  space::Space& space() override { return space_; }
  space::Heap& heap() override { return heap_; }
  void start_thread(void (* /*body*/)(void*), void* /*argument*/) override {
    throw Error(ErrorCode::not_supported, {.asked = "cannot start a thread",
                                           .happened = "this benchmark has one a rank",
                                           .limit = {},
                                           .remedy = {}});
  }
  void flush_output() noexcept override {}
  void fail(const std::string& message) noexcept override {
    static_cast<void>(std::fprintf(stderr, "omp: %s\n", message.c_str()));
    std::_Exit(1);
  }
  bool others_may_run() noexcept override { return false; }
  fabric::RegionId first_region() override { return region; }
  fabric::HandlerId first_handler() override { return heap_handler + 1; }

  static constexpr fabric::RegionId region = 3000;
  static constexpr fabric::HandlerId heap_handler = 100;

 private:
  fabric::Fabric& fabric_;
  space::Space& space_;
  space::Heap& heap_;
};

void measure_ours(const Arguments& arguments, std::string_view transport, int round) {
  const space::SpaceOptions options{.mutexes = omp::mutexes_needed + 1024};
  run_space(transport, 2, options, [&](SpaceRank& rank) {
    space::Segment& heap_segment =
        rank.space.create_segment({.name = "heap", .bytes = heap_bytes, .initial_homes = {}, .dials = {}});
    omp_shared = reinterpret_cast<OmpShared*>(
        rank.space
            .create_segment({.name = "shared", .bytes = sizeof(OmpShared), .initial_homes = {}, .dials = {}})
            .data());
    // The runtime holds them until the process ends.
    auto* const heap = new space::Heap(rank.fabric, rank.space, heap_segment, BenchPlatform::heap_handler);
    rank.barrier();
    omp::Settings settings;
    omp::start(*new BenchPlatform(rank.fabric, rank.space, *heap), settings);
    rank.barrier();
    if (rank.rank() != 0) return omp::work();
    omp::attach_master();
    measure_constructs(arguments.turn_ns, [&](std::string_view what, const Sample& sample) {
      const std::string variant = transport == "shm" ? "craton" : "craton tcp";
      report_time({"omp", what, variant, round}, sample);
    });
    omp::stop();
  });
}

/// Each publishes how often it has come, and waits for the other.
struct BareBarrier {
  alignas(64) SharedCounter come[2];

  void wait(fabric::Rank rank) noexcept {
    const std::uint32_t generation = come[rank].load() + 1;
    come[rank].publish(generation);
    if (come[1 - rank].load() == generation - 1)
      static_cast<void>(come[1 - rank].wait_beyond(generation - 1));
  }
};

class PosixBarrier {
 public:
  PosixBarrier() {
    pthread_barrierattr_t shared;
    ::pthread_barrierattr_init(&shared);
    ::pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    const int failed = ::pthread_barrier_init(&barrier_, &shared, 2);
    ::pthread_barrierattr_destroy(&shared);
    if (failed != 0) throw Error::from_errno("cannot make a barrier of two processes", failed);
  }
  PosixBarrier(const PosixBarrier&) = delete;
  PosixBarrier& operator=(const PosixBarrier&) = delete;
  ~PosixBarrier() { ::pthread_barrier_destroy(&barrier_); }

  void wait(fabric::Rank /*rank*/) noexcept { ::pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

template <typename ProcessBarrier>
void measure_processes(const Arguments& arguments, std::string_view variant, int round) {
  constexpr std::uint64_t batch = 1000;
  struct Shared {
    ProcessBarrier barrier;
    std::atomic<bool> ended;
  };
  const Forked<Shared> shared;
  run_ranks(over_shm(), 2, [&](fabric::WiredFabric& fabric) {
    const fabric::Rank rank = fabric.rank();
    // Rank 0 says so before the first meeting of the last batch, after which rank 1 looks.
    const auto meet = [&] {
      shared->barrier.wait(rank);
      const bool is_last = shared->ended.load();
      for (std::uint64_t i = 1; i < batch; ++i) shared->barrier.wait(rank);
      return is_last;
    };
    if (rank == 1) {
      while (!meet()) {
      }
      return;
    }
    static_cast<void>(meet());
    const Sample sample = time_runs(arguments.turn_ns, batch, [&] { static_cast<void>(meet()); });
    shared->ended.store(true);
    static_cast<void>(meet());
    // A region is a start that all wait for, and an end that one waits for: no less than a barrier.
    for (const char* const what : {"empty region", "barrier", "single"})
      report_time({"omp", what, std::string(variant), round}, sample);
  });
}

void measure_libgomp(const Arguments& arguments, int round) {
  static_cast<void>(std::fflush(nullptr));
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string() + "_libgomp";
  const std::string turn = "--turn-ms=" + std::to_string(arguments.turn_ns / 1'000'000);
  const std::string first = "--first-round=" + std::to_string(round);
  const pid_t pid = ::fork();
  if (pid < 0) throw Error::from_errno("cannot start " + program, errno, "ulimit -u");
  if (pid == 0) {
    ::execl(program.c_str(), program.c_str(), turn.c_str(), first.c_str(), nullptr);
    std::_Exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) report_problem("libgomp", "its process did not end well");
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    for (int round = arguments.first_round; round < arguments.first_round + arguments.rounds; ++round) {
      measure_ours(arguments, "shm", round);
      measure_libgomp(arguments, round);
      measure_processes<BareBarrier>(arguments, "bare", round);
      measure_processes<PosixBarrier>(arguments, "pthread", round);
      measure_ours(arguments, "tcp", round);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "omp: %s\n", error.what());
    return 1;
  }
}
