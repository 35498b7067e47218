// oneTBB: tasks that are forked and joined. It has no threads of control that could wait for a mutex or a
// barrier.
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/version.h>

#include <utility>

#include "fibers/workloads.hpp"

namespace craton::bench {
namespace {

class TbbFork {
 public:
  template <typename Body>
  explicit TbbFork(Body&& body) {
    group_.run(std::forward<Body>(body));
  }
  void join() { group_.wait(); }

 private:
  tbb::task_group group_;
};

Sample fork_join_turn(const Load& load) {
  const tbb::global_control workers(tbb::global_control::max_allowed_parallelism, load.workers);
  tbb::task_arena arena(static_cast<int>(load.workers));
  Sample sample;
  arena.execute([&load, &sample] { sample = time_fib<TbbFork>(load.turn_ns, fib_of_turn(load.turn_ns)); });
  return sample;
}

}  // namespace

std::vector<Way> onetbb_ways() {
  return {{Workload::fork_join, "onetbb", fork_join_turn}};
}

std::string onetbb_version() {
  return TBB_VERSION_STRING;
}

}  // namespace craton::bench
