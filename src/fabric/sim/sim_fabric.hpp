/// \file
/// A rank's view of a simulated world: the fabric's contract, at its least convenient. What the contract
/// leaves open (order, moment, granularity of effects) the seed decides anew each time.
///
/// A rank has an agent, a fiber that runs its handlers and callbacks one at a time, at any moment, whether
/// its programs wait or compute. Only a rank's own memory is `direct`, and a neighbour's if the options say
/// so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/sim/scheduler.hpp"
#include "fabric/sim/world.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::sim {

/// Beyond the contract of Fabric: the calls that block (waits, flush, the collective ones, send while it
/// waits for room) throw RankKilled when the rank has been killed. While a fiber is being unwound so, all
/// calls do nothing and end with peer_lost at once.
class SimFabric final : public Fabric {
 public:
  SimFabric(World& world, Rank rank);
  ~SimFabric() override;

  World& world() noexcept { return world_; }
  /// What this rank's own work takes, where times are of a model; else null.
  const LocalTimes* local_times() const noexcept {
    return world_.timing() != nullptr ? &world_.timing()->local : nullptr;
  }
  /// This rank's CPU is busy for so long from now on, where times are of a model. Does not wait for it: what
  /// the rank does next in the fabric, and World::compute, come after it. So it may be called anywhere.
  void charge(TimeNs ns) noexcept {
    if (world_.timing() != nullptr) static_cast<void>(claim_cpu(ns));
  }

  Node node_of(Rank rank) const noexcept override { return rank / world_.options_.ranks_per_node; }
  std::uint32_t processors_a_rank() const noexcept override { return 1; }
  Capabilities capabilities(Rank peer) const noexcept override;
  bool alive(Rank peer) const noexcept override { return alive_[peer]; }
  const Clock& clock() const noexcept override { return world_.scheduler_.clock(); }
  void register_region(RegionId id, const RegionMemory& memory) override;
  void unregister_region(RegionId id) override;
  Status flush(Rank target) override;
  void set_handler(HandlerId id, Handler handler, void* context) override;
  Status send(Rank target, HandlerId handler, const void* payload, std::size_t bytes) override;
  Status wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns, unsigned patience = 1) override;
  void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen, TimeNs deadline_ns) override;
  void wake_sleepers(const std::atomic<std::uint32_t>& word) noexcept override;
  void notify() noexcept override;
  void set_peer_lost_handler(PeerLostHandler handler, void* context) override;
  void declare_lost(Rank peer) noexcept override;

 protected:
  void start_get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) override;
  void start_put(RemoteAddress destination, const void* source, std::size_t bytes,
                 Completion& completion) override;
  void start_atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                    Completion& completion) override;

 private:
  friend class World;
  enum class Kind : std::uint8_t { get, put, atomic };
  struct Operation;
  using OperationRef = std::shared_ptr<Operation>;

  // The life of an operation.
  void issue(OperationRef operation);
  void split(const OperationRef& operation);
  void take_effect(const OperationRef& operation, std::size_t first, std::size_t bytes);
  std::vector<std::byte> take_atomic_effect(const OperationRef& operation);
  void send_answer(const OperationRef& operation, std::size_t first, std::vector<std::byte> payload);
  void answer(const OperationRef& operation, std::size_t first, const std::vector<std::byte>& payload);
  void complete_later(const OperationRef& operation, Status status);
  bool reaches_target(const Operation& operation) const noexcept;

  // The same with the times of a model.
  void start_timed(const OperationRef& operation, TimeNs paid_ns);
  TimeNs claim_cpu(TimeNs ns) noexcept;
  TimeNs receive_ns(Rank source) const noexcept;
  void stay_awake() noexcept;
  TimeNs pay(TimeNs ns);

  // The life of a message.
  void transmit(Rank target, const World::Message& message, TimeNs ready_ns);
  void arrived(Rank source, const World::Message& message);
  void handle(Rank source, const World::Message& message);
  void run_handler(Rank source, const World::Message& message);
  void return_room(Rank target, std::size_t bytes);

  // The agent.
  void agent_main();
  /// \param cost_ns of this rank's CPU before the work is done
  void enqueue(std::function<void()> work, TimeNs cost_ns = 0);
  void wake_agents();
  bool on_agent() const noexcept;

  // Waiting, and the end.
  Status wait_for(const char* doing, FunctionRef<bool()> condition, TimeNs deadline_ns);
  void wake_waiters();
  void maybe_preempt();
  void check_caller(const char* call);
  bool dead() const noexcept { return world_.dead(rank()); }
  void throw_if_killed() const;
  void wait_for_collective(const char* asked, RegionId id);
  void see_collective(const World::Collective& collective);
  void abandon_operations();
  void learn_lost(Rank peer);
  std::string describe() const;

  struct HandlerEntry {
    Handler run = nullptr;
    void* context = nullptr;
    std::vector<std::pair<Rank, World::Message>> early;  ///< came before the handler was set
  };

  World& world_;
  std::vector<bool> alive_;
  std::array<HandlerEntry, max_handlers> handlers_{};
  PeerLostHandler lost_handler_ = nullptr;
  void* lost_context_ = nullptr;
  std::uint64_t next_operation_ = 0;
  std::map<std::uint64_t, OperationRef> in_flight_;  ///< by number, so in order of issue
  std::uint64_t collectives_entered_ = 0;
  std::uint64_t collectives_seen_ = 0;
  bool in_condition_ = false;

  static constexpr std::size_t agents_at_most = 2;  ///< two only under Mutation::overlap_handlers
  std::array<Fiber*, agents_at_most> agents_{};
  struct Work {
    std::function<void()> run;
    TimeNs cost_ns;
  };
  std::deque<Work> work_;  ///< for the agent
  // With timing.
  TimeNs cpu_free_ns_ = 0;     ///< when the CPU is done with the overheads so far
  TimeNs asleep_from_ns_ = 0;  ///< unless something is to do before
};

}  // namespace craton::fabric::sim
