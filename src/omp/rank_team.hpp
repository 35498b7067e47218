/// \file
/// A team of a running program's, over the runtime of its rank.
#pragma once

#include "omp/gate.hpp"
#include "omp/team.hpp"
#include "omp/team_host.hpp"

namespace craton::omp {

class Runtime;

class RankTeamHost final : public TeamHost {
 public:
  explicit RankTeamHost(Runtime& runtime) noexcept : runtime_(runtime) {}

  fabric::Rank rank() const noexcept override;
  fabric::Rank ranks() const noexcept override;
  std::uint32_t threads_a_rank() const noexcept override;
  TimeNs now_ns() const noexcept override;
  void send(fabric::Rank to, const Message& message) override;
  void serve() override;
  void publish() override;
  void learn(fabric::Rank rank) override;
  void flush_output() override;
  void give_block(void* block, std::size_t bytes) override;
  bool is_cancelled() const noexcept override;
  void wait_in_fabric(FunctionRef<bool()> condition) override;
  void notify_fabric() noexcept override;
  void wait_at_gate(FunctionRef<bool()> condition) override;
  void open_gate() noexcept override { gate_.open(); }

  Thread& self() override;
  void sit(Thread& thread, const Team& team, std::uint32_t local) noexcept override;
  bool may_cancel() const noexcept override;
  bool makes_tasks(std::uint32_t site, bool makes_now) noexcept override;
  std::uint64_t compare_exchange(std::size_t offset, std::uint64_t expected, std::uint64_t desired) override;
  std::uint64_t fetch_add(std::size_t offset, std::uint64_t value) override;
  void meet(fabric::Rank ranks, std::uint32_t site, space::BarrierNote& note,
            const space::Meanwhile& meanwhile) override;
  bool gather(fabric::Rank ranks, std::uint32_t site, const space::Meanwhile* meanwhile, bool marks) override;
  fabric::Rank tell(fabric::Rank ranks, const space::BarrierNote& note) override;
  space::BarrierNote hear(const space::Meanwhile* meanwhile, events::Kind kind) override;
  bool has_put_off() const noexcept override;
  void apply_put_off() override;
  void put_off_is_applied() noexcept override;
  void show_partial(void* partial) noexcept override;
  void* partial_of(fabric::Rank rank) override;
  void* allocate(std::size_t bytes) override;
  void free(void* pointer) override;

 private:
  space::Barrier& barrier() const noexcept;

  Runtime& runtime_;
  Gate gate_;
};

struct RankTeam {
  explicit RankTeam(Runtime& runtime) : host(runtime), team(host) {}

  RankTeamHost host;
  Team team;
};

}  // namespace craton::omp
