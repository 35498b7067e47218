/// \file
/// A simulated job: ranks whose programs run as fibers of one kernel thread, joined by a fabric whose every
/// delivery, effect and completion is an event of its own. The seed decides the order, the delays, the pauses
/// and the deaths; the same seed and programs give the same run, to the byte.
///
///   World world({.size = 4, .seed = 17});
///   for (Rank rank = 0; rank < 4; ++rank) world.spawn(rank, [](SimFabric& fabric) { ... });
///   const World::Outcome outcome = world.run();
///   if (!outcome.failure.empty()) ...   // says what, with which seed, and what every rank was doing
///
/// What it cannot show: data races of a rank's own threads (switches happen inside calls of the fabric, in
/// preempt() and in maybe_switch() only) and weak memory order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/region_memory.hpp"
#include "fabric/sim/options.hpp"
#include "fabric/sim/random.hpp"
#include "fabric/sim/scheduler.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::sim {

class SimFabric;

/// Used by one kernel thread: that of run(), which the fibers share.
class World {
 public:
  using Program = std::function<void(SimFabric&)>;

  /// \throws Error invalid_argument, out_of_resources
  explicit World(const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Rank size() const noexcept { return options_.size; }
  SimFabric& fabric(Rank rank) noexcept { return *fabrics_[rank]; }

  /// Gives a rank a thread of control, before run() or from inside a program. A program ends by returning;
  /// any exception that it lets out (but RankKilled) fails the run.
  void spawn(Rank rank, Program program);

  struct Outcome {
    std::string failure;      ///< empty if all programs of living ranks have ended; else the whole story
    std::uint64_t steps = 0;  ///< events run
    std::uint64_t fingerprint = 0;  ///< hash of all that happened: equal for equal runs
    TimeNs virtual_ns = 0;
  };
  /// Runs until all programs have ended, or one fails, or nothing can run (deadlock), or options.step_limit.
  /// Then unwinds what is left. Once.
  [[nodiscard]] Outcome run();

  // ---- From inside programs

  /// Lets others run: a program calls it where its own loads and stores may interleave with those of others,
  /// and in every loop that waits for memory to change. Not from a completion callback (fabric calls do it
  /// there). \throws RankKilled
  void preempt();
  /// Lets others run now and then, as calls of the fabric do; from anywhere, handlers included. Throws
  /// nothing.
  void maybe_switch() noexcept;
  /// The calling program computes for so long: its rank's messages are served meanwhile. Settles first what
  /// was charged. \throws RankKilled
  void compute(TimeNs for_ns);
  /// Kills a rank at its next switch: its fibers are unwound by RankKilled, its operations may or may not
  /// have had their effect, its peers learn of it one after the other. No effect on a rank whose programs
  /// have ended.
  void kill(Rank rank);
  /// Kills a rank after a random delay.
  void kill_later(Rank rank, TimeNs scale_ns);
  /// A rank's programs have ended; a handler of it may be under way.
  bool left(Rank rank) const noexcept { return ranks_[rank].left; }
  /// Runs nothing of a rank for about so long; operations on its memory go on.
  void pause(Rank rank, TimeNs for_ns) { scheduler_.pause(rank, for_ns); }
  /// Ends the run with a failure, as soon as the running fiber switches. The first one counts.
  void fail(std::string reason);
  /// Chance for programs, decided by the seed; apart from the simulator's own.
  Random& random() noexcept { return program_random_; }

 private:
  friend class SimFabric;

  struct RankState {
    bool dead = false;
    bool left = false;  ///< its programs have ended: nobody is there to handle messages
    std::uint32_t unfinished = 0;
    std::vector<Fiber*> programs;
    struct Part {
      std::shared_ptr<std::byte> data;  ///< held here as well, so that a dead rank's neighbours can look
      std::size_t bytes;
    };
    std::map<RegionId, Part> memory;
  };

  struct Message {
    std::uint64_t number;
    HandlerId handler;
    std::vector<std::byte> payload;
  };
  /// The way of messages from one rank to another: as much as fits the ring is on the way or waits for its
  /// handler.
  struct Channel {
    std::size_t used_bytes = 0;
    TimeNs last_due_ns = 0;       ///< no later message arrives before this
    std::list<Message> overflow;  ///< sent inside handlers while there was no room; mostly none, of ranks^2
    std::uint64_t sent = 0;       ///< messages, including those in the overflow
    std::uint64_t handled = 0;
    std::uint64_t lost_from =
        std::numeric_limits<std::uint64_t>::max();  ///< the sender died: these never arrive
  };

  /// A register_region or unregister_region that ranks arrive at.
  struct Collective {
    bool registers;
    RegionId region;
    Rank arrived = 0;
  };

  Channel& channel(Rank source, Rank target) noexcept { return channels_[source * size() + target]; }
  bool dead(Rank rank) const noexcept { return ranks_[rank].dead; }
  std::byte* memory(Rank rank, RegionId region) noexcept;
  const Timing* timing() const noexcept { return options_.timing ? &*options_.timing : nullptr; }
  /// Carries bytes from one rank to another by the model of timing(). \param ready_ns when the sender's CPU
  /// is done with them \param arrived when the last byte is there
  void carry(Rank source, Rank target, std::size_t bytes, TimeNs ready_ns, Scheduler::Action arrived);
  const LogGP& model(Rank source, Rank target) const noexcept;
  Port& port(Rank rank, Rank peer) noexcept;
  void arrive_at_collective(SimFabric& fabric, bool registers, RegionId region, const RegionMemory* memory);
  void complete_collective(std::uint64_t number);
  void kill_pending();
  void kill_at_random();
  void kill_now(Rank rank);
  void unwind(Rank rank);
  std::string describe(const std::string& reason);

  const Options options_;
  Random random_;
  Random program_random_;
  const Profile profile_;
  Scheduler scheduler_;
  std::vector<RankState> ranks_;
  std::vector<Channel> channels_;  ///< by source * size + target
  std::vector<Port> ports_;        ///< with timing: of the nodes, then of the ranks among neighbours
  std::deque<Collective> collectives_;
  std::vector<std::unique_ptr<SimFabric>> fabrics_;
  std::vector<Rank> kills_pending_;
  Rank random_kills_ = 0;
  std::uint32_t unfinished_ = 0;  ///< programs
  std::string failure_;
};

}  // namespace craton::fabric::sim
