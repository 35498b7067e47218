// A fault that brings a block from another rank, and one that makes a readable block writable, beside a bare
// SIGSEGV handler that does the least for it: shm: copies the page out of memory that the other process has
// written; tcp: gets it through a bare socket; both: mprotect. The other rank sleeps or computes.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frame/bare_socket.hpp"
#include "space/bare_fault.hpp"
#include "space/ranks.hpp"
#include "space/touches.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t block_bytes = BareFaults::page_bytes;
constexpr std::size_t blocks = 256;
/// The bytes of a page and the header that a reply of ours has.
constexpr std::size_t reply_bytes = block_bytes + 64;

enum Orders : Order { iterate = quit_order + 1, write_bare };
enum class Target : std::uint64_t { waits, computes };

/// Both are written by the target. The initiator reads one, and reads and writes the other.
struct Segments {
  std::byte* read;
  std::byte* written;
};

struct Times {
  std::vector<double> read_ns;
  std::vector<double> write_ns;
};

void fill(std::byte* memory) {
  static unsigned value = 0;
  std::memset(memory, static_cast<int>(++value % 255 + 1), blocks * block_bytes);
}

void read_all(volatile std::byte* view, std::vector<double>& times_ns) {
  time_reads(view, blocks, block_bytes, times_ns);
}
void write_all(volatile std::byte* view, std::vector<double>& times_ns) {
  time_writes(view, blocks, block_bytes, std::byte{7}, times_ns);
}

class Initiator {
 public:
  Initiator(const Arguments& arguments, std::string_view transport, Steering& steering,
            const std::byte* bare_source, UniqueFd socket)
      : arguments_(arguments), transport_(transport), steering_(steering), bare_source_(bare_source) {
    if (socket) socket_ = std::make_unique<BareSocket>(std::move(socket));
  }

  void run(const SpaceRank& rank, const Segments& segments) {
    for (int round = 0; round < arguments_.rounds; ++round) {
      for (const Target target : {Target::waits, Target::computes}) {
        const char* const suffix = target == Target::waits ? ", target waits" : ", target computes";
        const Times ours = turn([&](Times& times) { iterate_ours(rank, segments, target, times); });
        const Times bare = bare_turn(target);
        for (const auto& [variant, times] : {std::pair("craton", &ours), std::pair("bare", &bare)}) {
          report(times->read_ns, "read fault" + std::string(suffix), variant, round);
          if (target == Target::waits) report(times->write_ns, "write upgrade", variant, round);
        }
      }
    }
    steering_.order(quit_order);
  }

 private:
  template <typename Iterate>
  Times turn(const Iterate& iterate) {
    Times times;
    iterate(times);
    times = {};
    const TimeNs until = now_ns() + arguments_.turn_ns;
    do iterate(times);
    while (now_ns() < until);
    return times;
  }
  void report(std::vector<double> times_ns, const std::string& what, const char* variant, int round) const {
    double sum_ns = 0;
    for (const double time_ns : times_ns) sum_ns += time_ns;
    const std::size_t count = times_ns.size();
    report_time({space_kernel, transport_ + ": " + what, variant, round},
                summarise(times_ns, count, static_cast<TimeNs>(sum_ns)));
  }
  void iterate_ours(const SpaceRank& rank, const Segments& segments, Target target, Times& times) {
    steering_.order(iterate, static_cast<std::uint64_t>(target));
    rank.barrier(1);
    read_all(segments.read, times.read_ns);
    steering_.let_go();
    rank.barrier(2);
    std::vector<double> not_counted;
    read_all(segments.written, not_counted);
    write_all(segments.written, times.write_ns);
    rank.barrier(3);
    steering_.wait_until_done();
  }
  Times bare_turn(Target target) {
    BareFaults faults(blocks, &Initiator::bring, this);
    return turn([&](Times& times) { iterate_bare(faults, target, times); });
  }
  void iterate_bare(BareFaults& faults, Target target, Times& times) {
    faults.protect(PROT_NONE);
    steering_.order(write_bare, static_cast<std::uint64_t>(target));
    // Its done() says that the bytes are there; then it computes or sleeps.
    steering_.wait_until_done();
    read_all(faults.view(), times.read_ns);
    faults.protect(PROT_READ);
    write_all(faults.view(), times.write_ns);
    steering_.let_go();
  }
  static void bring(void* context, std::size_t index, std::byte* to) {
    auto& self = *static_cast<Initiator*>(context);
    if (self.socket_ == nullptr) {
      std::memcpy(to, self.bare_source_ + index * block_bytes, block_bytes);
    } else {
      std::byte reply[reply_bytes];
      self.socket_->get(reply, reply_bytes);
      std::memcpy(to, reply, block_bytes);
    }
  }

  const Arguments arguments_;
  const std::string transport_;
  Steering& steering_;
  const std::byte* const bare_source_;
  std::unique_ptr<BareSocket> socket_;
};

void serve(const SpaceRank& rank, const Segments& segments, Steering& steering, std::byte* bare_source) {
  for (Order order = steering.next(); order != quit_order; order = steering.next()) {
    const auto target = static_cast<Target>(steering.argument());
    if (order == iterate) {
      fill(segments.read);
      fill(segments.written);
      rank.barrier(1);
      // Else it sleeps in the barrier.
      if (target == Target::computes) steering.compute();
      rank.barrier(2);
      rank.barrier(3);
      steering.done();
    } else {
      fill(bare_source);
      steering.done();
      if (target == Target::computes) {
        steering.compute();
      } else {
        steering.sleep();
      }
    }
  }
}

}  // namespace

void measure_faults(const Arguments& arguments, std::string_view transport) {
  const Forked<Steering> steering;
  const ForkedMemory bare_source(blocks * block_bytes);
  std::unique_ptr<TcpPair> sockets;
  if (transport == "tcp") sockets = std::make_unique<TcpPair>();
  // Prefetching would leave no faults to measure, and open blocks no upgrades.
  const coherence::Dials dials{.prefetch = false};
  run_space(transport, 2, {}, [&](SpaceRank& rank) {
    UniqueFd socket = sockets != nullptr ? sockets->keep(rank.rank()) : UniqueFd();
    const auto create = [&](const char* name) {
      return rank.space
          .create_segment({.name = name,
                           .bytes = blocks * block_bytes,
                           .block_bytes = block_bytes,
                           .initial_homes = {},
                           .dials = dials})
          .data();
    };
    const Segments segments{.read = create("read"), .written = create("written")};
    if (rank.rank() == 0) {
      Initiator(arguments, transport, *steering, bare_source.data(), std::move(socket)).run(rank, segments);
    } else {
      std::unique_ptr<BareServer> server;
      if (socket)
        server = std::make_unique<BareServer>(std::move(socket), bare_source.data(), bare_source.bytes());
      serve(rank, segments, *steering, bare_source.data());
    }
  });
}

}  // namespace craton::bench
