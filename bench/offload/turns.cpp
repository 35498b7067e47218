#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "offload/offload.hpp"

namespace craton::bench {

namespace {

void check(fabric::Status status) {
  if (status != fabric::Status::ok) [[unlikely]] {
    throw Error(ErrorCode::peer_lost, {"cannot measure offloading", "the target does not answer", "", ""});
  }
}

/// Runs `body(index)` in so many threads, all of which begin together. \returns the time until the last ends
template <typename Body>
TimeNs in_threads(int count, const Body& body) {
  std::atomic<int> waiting{count};
  std::atomic<TimeNs> begun{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        // Whoever comes last wakes the others, so that none of them begins alone.
        if (waiting.fetch_sub(1) == 1) {
          begun.store(now_ns());
          waiting.notify_all();
        } else {
          for (int left = waiting.load(); left != 0; left = waiting.load()) waiting.wait(left);
        }
        body(i);
      });
    }
  }
  return now_ns() - begun.load();
}

/// Each thread reads its own words, over and over.
fabric::RemoteAddress place_of(int thread, std::size_t bytes) {
  return {.rank = offload_target,
          .region = offload_region,
          .offset = static_cast<std::size_t>(thread) * bytes % (offload_region_bytes - bytes)};
}

}  // namespace

LatencySample latency_turn(fabric::Fabric& fabric, int requesters, std::size_t bytes, TimeNs turn_ns) {
  struct Times {
    std::vector<double> latency_ns;
    std::vector<double> injection_ns;
  };
  std::vector<Times> times(static_cast<std::size_t>(requesters));
  const TimeNs elapsed_ns = in_threads(requesters, [&](int thread) {
    Times& own = times[static_cast<std::size_t>(thread)];
    std::vector<std::byte> buffer(bytes);
    const fabric::RemoteAddress from = place_of(thread, bytes);
    const TimeNs warm_ns = now_ns() + turn_ns / 10;
    const TimeNs until_ns = warm_ns + turn_ns;
    TimeNs end_ns = 0;
    do {
      fabric::Completion completion;
      const TimeNs begin_ns = now_ns();
      fabric.get(buffer.data(), from, bytes, completion);
      const TimeNs called_ns = now_ns();
      check(fabric.wait(completion));
      end_ns = now_ns();
      if (begin_ns < warm_ns) continue;
      own.injection_ns.push_back(static_cast<double>(called_ns - begin_ns));
      own.latency_ns.push_back(static_cast<double>(end_ns - begin_ns));
    } while (end_ns < until_ns);
  });
  Times all;
  for (const Times& each : times) {
    all.latency_ns.insert(all.latency_ns.end(), each.latency_ns.begin(), each.latency_ns.end());
    all.injection_ns.insert(all.injection_ns.end(), each.injection_ns.begin(), each.injection_ns.end());
  }
  const std::size_t count = all.latency_ns.size();
  return {.latency = summarise(all.latency_ns, count, elapsed_ns),
          .injection = summarise(all.injection_ns, count, elapsed_ns)};
}

double rate_turn(fabric::Fabric& fabric, int requesters, std::size_t bytes, std::uint32_t window,
                 TimeNs turn_ns) {
  std::atomic<std::uint64_t> total{0};
  const TimeNs elapsed_ns = in_threads(requesters, [&](int thread) {
    std::vector<std::byte> buffer(bytes);
    const fabric::RemoteAddress from = place_of(thread, bytes);
    const TimeNs until_ns = now_ns() + turn_ns;
    std::uint64_t count = 0;
    fabric::Completion completion;
    while (now_ns() < until_ns) {
      // In strides: to wait for each single one would be to wait most of the time.
      const std::uint32_t stride = std::max(window / 4, 1U);
      for (std::uint32_t i = 0; i < stride; ++i) fabric.get(buffer.data(), from, bytes, completion);
      count += stride;
      check(fabric.wait_until([&] { return completion.in_flight() <= window - stride; }));
    }
    check(fabric.wait(completion));
    total.fetch_add(count);
  });
  return static_cast<double>(total.load()) * 1e9 / static_cast<double>(elapsed_ns);
}

double idle_share(TimeNs turn_ns) {
  const auto used_ns = [] {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return TimeNs{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
  };
  const TimeNs before_ns = used_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(turn_ns));
  return static_cast<double>(used_ns() - before_ns) / static_cast<double>(turn_ns);
}

}  // namespace craton::bench
