#include "space_ranks.hpp"

#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "vm/thread_scope.hpp"

namespace craton::space::test {

using fabric::conformance::JobResult;
using fabric::conformance::ParentLink;

const std::vector<Machine> machines {
  {"shm_userfaultfd", "shm", 1, "userfaultfd"}, {"tcp_mprotect", "tcp", 64, "mprotect"},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // the same code, and time is short there
      {"shm_mprotect", "shm", 1, "mprotect"}, {"tcp_userfaultfd", "tcp", 64, "userfaultfd"},
      {"mixed_userfaultfd", "tcp", 2, "userfaultfd"},
#endif
};

void RankSpace::run_threads(unsigned threads, const std::function<void(unsigned)>& body) const {
  std::vector<std::exception_ptr> thrown(threads);
  std::vector<std::thread> running;
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&body, &thrown, thread] {
      const vm::ThreadScope scope;
      try {
        body(thread);
      } catch (...) {
        thrown[thread] = std::current_exception();
      }
    });
  }
  for (std::thread& one : running) one.join();
  for (const std::exception_ptr& one : thrown) {
    if (one != nullptr) std::rethrow_exception(one);
  }
}

void RankSpace::check(bool holds, const std::string& otherwise) const {
  if (!holds) throw std::runtime_error(otherwise);
}

namespace {

void run_rank(ParentLink& parent, const Machine& machine, SpaceOptions options,
              const std::function<void(RankSpace&)>& body, bool somebody_dies) {
  fabric::WiredOptions wired;
  wired.network = machine.network;
  wired.node_name = "node " + std::to_string(parent.rank() % machine.nodes);
  const SteadyClock clock;
  fabric::WiredFabric fabric(parent, wired, clock);
  options.mechanism = machine.mechanism;
  options.first_handler = fabric::first_free_handler;
  options.first_region = 1;
  std::optional<Space> space;
  try {
    space.emplace(fabric, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_supported) throw;
    return parent.skip(error.what());
  }
  RankSpace rank{.space = *space, .fabric = fabric, .parent = parent};
  try {
    body(rank);
    space->close();
  } catch (const Error& error) {
    if (!somebody_dies || error.code() != ErrorCode::peer_lost) throw;
  }
  parent.done();
  static_cast<void>(fabric.farewell(clock.now_ns() + 120'000'000'000));
  space.reset();
}

}  // namespace

std::string said(const char* what, std::uint64_t found, std::uint64_t expected) {
  return std::string(what) + ": " + std::to_string(found) + " instead of " + std::to_string(expected);
}

std::string run_space(const Machine& machine, fabric::Rank size, SpaceOptions options,
                      const std::function<void(RankSpace&)>& body, int limit_s,
                      std::optional<fabric::Rank> victim) {
  const JobResult result = fabric::conformance::run_processes(size, victim, limit_s, [&](ParentLink& parent) {
    try {
      run_rank(parent, machine, options, body, victim.has_value());
    } catch (const std::exception& error) {
      parent.fail(error.what());
    }
  });
  if (!result.skipped.empty()) return "skipped: " + result.skipped;
  std::string all;
  for (const std::string& failure : result.failures) all += failure + "\n";
  return all;
}

}  // namespace craton::space::test
