// The model's parameters of this machine, each from what shows it most directly:
//
//   o       the time inside send() of a message that nothing is queued before
//   L       half of the round trip of a message that a waiting program answers, less 2 o
//   g       the time a message in a row of them, until the target has handled all
//   G       the time of a get of 1 MiB that its owner has just written, less that of one of 8 bytes
//   access  the time of a get of 64 such bytes, less 64 G: of shm, whose gets send nothing
//   wake    what a round trip takes longer if the answer comes after 100 us of computing, less those
//
// Medians, since others use the machine as well.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"
#include "frame/two_ranks.hpp"
#include "predict/predict.hpp"
#include "space/ranks.hpp"
#include "vm/vm.hpp"

namespace craton::bench {
namespace {

constexpr fabric::RegionId region = 1;
constexpr std::size_t large_bytes = std::size_t{1} << 20U;
constexpr std::size_t page_bytes = 4096;
constexpr int row = 256;                  ///< messages
constexpr std::size_t short_turn = 4096;  ///< times that a turn keeps at most

constexpr TimeNs late_ns = 100'000;  ///< when who waits has long been asleep

enum class Ask : std::uint64_t { nothing, answer, answer_late, rewrite, quit };

double median(std::vector<double>& times_ns) {
  return summarise(times_ns, 1, 0).p50_ns;
}

double clock_ns() {
  std::vector<double> times_ns;
  for (int i = 0; i < 1000; ++i) {
    const TimeNs before_ns = now_ns();
    times_ns.push_back(static_cast<double>(now_ns() - before_ns));
  }
  return median(times_ns);
}

void check(fabric::Status status) {
  if (status != fabric::Status::ok)
    throw Error(ErrorCode::peer_lost, {"cannot fit the model", "the other rank is gone", "", ""});
}

/// Both ranks' end: rank 1 does what it is asked, on the thread that waits for it.
class Talk {
 public:
  explicit Talk(fabric::Fabric& fabric) : fabric_(fabric) {
    fabric_.set_handler(handler, &Talk::arrived, this);
  }

  void send(Ask what) { check(fabric_.send(1 - fabric_.rank(), handler, &what, sizeof what)); }
  Ask receive() {
    check(fabric_.wait_until([this] { return heard_.load(std::memory_order_acquire) != taken_; }));
    ++taken_;
    return last_.load(std::memory_order_relaxed);
  }
  void serve(std::byte* memory) {
    for (int i = 0;; ++i) {
      const Ask asked = receive();
      if (asked == Ask::quit) return;
      if (asked == Ask::rewrite) std::memset(memory, i, large_bytes);
      if (asked == Ask::answer_late) {
        const TimeNs until_ns = now_ns() + late_ns;
        while (now_ns() < until_ns) {
        }
      }
      send(Ask::answer);
    }
  }

 private:
  static constexpr fabric::HandlerId handler = fabric::first_free_handler;
  static void arrived(void* self, fabric::Rank, const std::byte* payload, std::size_t) noexcept {
    auto& talk = *static_cast<Talk*>(self);
    Ask asked{};
    std::memcpy(&asked, payload, sizeof asked);
    if (asked == Ask::nothing) return;
    talk.last_.store(asked, std::memory_order_relaxed);
    talk.heard_.fetch_add(1, std::memory_order_release);
  }

  fabric::Fabric& fabric_;
  std::atomic<Ask> last_{Ask::nothing};
  std::atomic<std::uint64_t> heard_{0};
  std::uint64_t taken_ = 0;
};

/// Runs `timed`, which returns a time, for about `turn_ns`. Its median, after a first run that does not
/// count.
template <typename Timed>
double median_for(TimeNs turn_ns, const Timed& timed) {
  std::vector<double> times_ns;
  timed();
  const TimeNs until_ns = now_ns() + turn_ns;
  do times_ns.push_back(timed());
  while (now_ns() < until_ns && times_ns.size() < short_turn);
  return median(times_ns);
}

double elapsed_since(TimeNs before_ns) {
  return static_cast<double>(now_ns() - before_ns);
}

/// Runs `initiator` on rank 0 while rank 1 serves it.
template <typename Initiator>
void with_pair(std::string_view transport, const Initiator& initiator) {
  run_ranks(transport == "tcp" ? over_tcp() : over_shm(), 2, [&](fabric::WiredFabric& fabric) {
    const fabric::RegionMemory memory("bench", large_bytes);
    Talk talk(fabric);
    fabric.register_region(region, memory);
    if (fabric.rank() == 0) {
      initiator(fabric, talk);
      talk.send(Ask::quit);
    } else {
      talk.serve(memory.data());
    }
    fabric.unregister_region(region);
  });
}

void get(fabric::Fabric& fabric, std::vector<std::byte>& buffer, std::size_t offset, std::size_t bytes) {
  fabric::Completion completion;
  fabric.get(buffer.data() + offset, {1, region, offset}, bytes, completion);
  check(fabric.wait(completion));
}

}  // namespace

fabric::sim::LogGP fit_link(std::string_view transport, TimeNs turn_ns) {
  struct Seen {
    double send_ns, round_trip_ns, late_trip_ns, message_ns, small_get_ns, large_get_ns, line_get_ns;
  };
  const Forked<Seen> seen;
  with_pair(transport, [&](fabric::Fabric& fabric, Talk& talk) {
    const double reading_ns = clock_ns();
    std::vector<double> inside_ns;
    seen->round_trip_ns = median_for(turn_ns, [&] {
      const TimeNs before_ns = now_ns();
      talk.send(Ask::answer);
      inside_ns.push_back(elapsed_since(before_ns) - reading_ns);
      talk.receive();
      return elapsed_since(before_ns);
    });
    seen->send_ns = median(inside_ns);
    seen->late_trip_ns = median_for(turn_ns, [&] {
      const TimeNs before_ns = now_ns();
      talk.send(Ask::answer_late);
      talk.receive();
      return elapsed_since(before_ns) - static_cast<double>(late_ns);
    });
    seen->message_ns = median_for(turn_ns, [&] {
      const TimeNs before_ns = now_ns();
      for (int i = 0; i < row; ++i) talk.send(Ask::nothing);
      talk.send(Ask::answer);
      talk.receive();
      return (elapsed_since(before_ns) - seen->round_trip_ns) / row;
    });
    std::vector<std::byte> buffer(large_bytes);
    const auto timed_get = [&](std::size_t offset, std::size_t bytes) {
      const TimeNs before_ns = now_ns();
      get(fabric, buffer, offset, bytes);
      return elapsed_since(before_ns) - reading_ns;
    };
    const auto rewrite = [&] {
      talk.send(Ask::rewrite);
      talk.receive();
    };
    seen->small_get_ns = median_for(turn_ns, [&] { return timed_get(0, 8); });
    seen->large_get_ns = median_for(turn_ns, [&] {
      rewrite();
      return timed_get(0, large_bytes);
    });
    std::vector<double> lines_ns;
    const TimeNs until_ns = now_ns() + turn_ns;
    do {
      rewrite();
      for (std::size_t page = 0; page < large_bytes / page_bytes; ++page)
        lines_ns.push_back(timed_get(page * page_bytes, fabric::line_bytes));
    } while (now_ns() < until_ns);
    seen->line_get_ns = median(lines_ns);
  });
  fabric::sim::LogGP fitted;
  const double overhead_ns = std::clamp(seen->send_ns, 0.0, seen->round_trip_ns / 4);
  fitted.overhead_ns = std::llround(overhead_ns);
  fitted.latency_ns = std::llround(seen->round_trip_ns / 2 - 2 * overhead_ns);
  fitted.wake_ns = std::llround(std::max(0.0, seen->late_trip_ns - seen->round_trip_ns));
  fitted.gap_ns = std::llround(std::max(0.0, seen->message_ns));
  fitted.gap_ns_per_byte =
      std::max(0.0, seen->large_get_ns - seen->small_get_ns) / static_cast<double>(large_bytes);
  if (transport == "tcp") {
    fitted.one_sided = fabric::sim::OneSided::target_cpu;
  } else {
    fitted.one_sided = fabric::sim::OneSided::initiator_cpu;
    fitted.access_ns =
        std::max<TimeNs>(0, std::llround(seen->line_get_ns) - fitted.transfer_ns(fabric::line_bytes));
  }
  return fitted;
}

Sample measure_get(std::string_view transport, std::size_t bytes, TimeNs turn_ns) {
  const Forked<Sample> result;
  with_pair(transport, [&](fabric::Fabric& fabric, Talk& talk) {
    std::vector<std::byte> buffer(large_bytes);
    std::vector<double> times_ns;
    double sum_ns = 0;
    const double reading_ns = clock_ns();
    const TimeNs until_ns = now_ns() + turn_ns;
    do {
      // Nothing of what it gets may be here already.
      talk.send(Ask::rewrite);
      talk.receive();
      const std::size_t apart = std::max(bytes, page_bytes);
      for (std::size_t offset = 0; offset + bytes <= large_bytes; offset += apart) {
        const TimeNs before_ns = now_ns();
        get(fabric, buffer, offset, bytes);
        times_ns.push_back(std::max(0.0, elapsed_since(before_ns) - reading_ns));
        sum_ns += times_ns.back();
      }
    } while (now_ns() < until_ns);
    *result = summarise(times_ns, times_ns.size(), std::llround(sum_ns));
  });
  return *result;
}

LocalFit fit_local(TimeNs turn_ns) {
  LocalFit fit;
  fit.times.polling_ns = fabric::WiredOptions().spin_ns;
  {
    const auto protection = make_craton(vm::choose_mechanism("auto", vm::probe()));
    volatile std::byte* const view = protection->view();
    const vm::Run all{.first = 0, .count = vm_blocks};
    protection->set_access({&all, 1}, vm::Access::write);
    for (std::uint64_t block = 0; block < vm_blocks; ++block) view[block * page_bytes] = std::byte{1};
    double protect_ns = 0;
    fit.times.fault_ns = std::llround(median_for(turn_ns, [&] {
      const TimeNs before_ns = now_ns();
      for (std::uint64_t block = 0; block < vm_blocks; ++block) {
        const vm::Run one{.first = block, .count = 1};
        protection->set_access({&one, 1}, vm::Access::none);
      }
      const TimeNs closed_ns = now_ns();
      protect_ns = static_cast<double>(closed_ns - before_ns) / vm_blocks;
      for (std::uint64_t block = 0; block < vm_blocks; ++block) static_cast<void>(view[block * page_bytes]);
      return elapsed_since(closed_ns) / vm_blocks;
    }));
    fit.times.protect_ns = std::llround(protect_ns);
  }
  constexpr std::size_t pages = 16;  // that lie in the first caches, as blocks do that were just written
  const std::vector<std::byte> from(pages * page_bytes, std::byte{1});
  std::vector<std::byte> to(pages * page_bytes);
  const Sample copied = time_batches(turn_ns, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t at = i % pages * page_bytes;
      std::memcpy(to.data() + at, from.data() + at, page_bytes);
      touch_memory(to.data());
    }
  });
  fit.times.copy_ns_per_byte = copied.p50_ns / page_bytes;
  constexpr std::size_t cells = 2048;
  std::vector<double> rods(2 * cells, 1.0);
  const Sample swept = time_batches(turn_ns, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      sweep_memory(rods.data(), rods.data() + cells, cells, 1, 1);
      touch_memory(rods.data());
    }
  });
  fit.cell_ns = swept.p50_ns / cells;
  return fit;
}

}  // namespace craton::bench
