#include "omp/rank_team.hpp"

#include <utility>

#include "coherence/block_lock.hpp"
#include "omp/float_control.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp {

extern "C" void omp_display_affinity(const char* format);

fabric::Rank RankTeamHost::rank() const noexcept {
  return runtime_.rank();
}
fabric::Rank RankTeamHost::ranks() const noexcept {
  return runtime_.ranks();
}
std::uint32_t RankTeamHost::threads_a_rank() const noexcept {
  return runtime_.settings().threads_a_rank;
}
TimeNs RankTeamHost::now_ns() const noexcept {
  return runtime_.platform().fabric().clock().now_ns();
}
void RankTeamHost::send(fabric::Rank to, const Message& message) {
  runtime_.send(to, message);
}
void RankTeamHost::serve() {
  runtime_.platform().fabric().serve();
}
void RankTeamHost::publish() {
  runtime_.guard([&] { runtime_.platform().space().publish(); });
}
void RankTeamHost::learn(fabric::Rank rank) {
  runtime_.guard([&] { runtime_.platform().space().learn(rank); });
}
void RankTeamHost::flush_output() {
  runtime_.platform().flush_output();
}
void RankTeamHost::give_block(void* block, std::size_t bytes) {
  runtime_.give_block(block, bytes);
}
bool RankTeamHost::is_cancelled() const noexcept {
  return is_region_cancelled() || is_group_cancelled();
}
void RankTeamHost::wait_in_fabric(FunctionRef<bool()> condition) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  static_cast<void>(fabric.wait_until([&] { return condition() || fabric.lost_ranks() != 0; }));
  runtime_.end_if_lost();
}
void RankTeamHost::notify_fabric() noexcept {
  runtime_.platform().fabric().notify();
}
void RankTeamHost::wait_at_gate(FunctionRef<bool()> condition) {
  gate_.wait(runtime_.spin(), condition);
}

Thread& RankTeamHost::self() {
  return omp::self();
}

void RankTeamHost::sit(Thread& thread, const Team& team, std::uint32_t local) noexcept {
  thread.state.seat = runtime_.seat_of(team.outer());
  if (team.bind() != Binding::none) {
    thread.state.seat = seat_of_thread(thread.state.seat, team.bind(), local, team.local());
    runtime_.bind(thread);
  }
  take_float_control(team.region().float_control);
  // OMP_DISPLAY_AFFINITY: where a thread has another place than before.
  if (runtime_.settings().display_affinity && std::exchange(thread.shown_in, team.size()) != team.size())
    omp_display_affinity(nullptr);
}

bool RankTeamHost::may_cancel() const noexcept {
  return runtime_.settings().cancellation;
}
bool RankTeamHost::makes_tasks(std::uint32_t site, bool makes_now) noexcept {
  return runtime_.makes_tasks(site, makes_now);
}

std::uint64_t RankTeamHost::compare_exchange(std::size_t offset, std::uint64_t expected,
                                             std::uint64_t desired) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  std::uint64_t before = 0;
  fabric::Completion completion;
  fabric.compare_exchange(runtime_.word_at(offset), expected, desired, &before, completion);
  runtime_.guard([&] { coherence::wait_for(fabric, completion); });
  return before;
}
std::uint64_t RankTeamHost::fetch_add(std::size_t offset, std::uint64_t value) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  std::uint64_t before = 0;
  fabric::Completion completion;
  fabric.fetch_add(runtime_.word_at(offset), value, &before, completion);
  runtime_.guard([&] { coherence::wait_for(fabric, completion); });
  return before;
}

space::Barrier& RankTeamHost::barrier() const noexcept {
  return runtime_.platform().space().barrier();
}
void RankTeamHost::meet(fabric::Rank ranks, std::uint32_t site, space::BarrierNote& note,
                        const space::Meanwhile& meanwhile) {
  runtime_.guard([&] { barrier().meet(ranks, site, &note, &meanwhile); });
}
bool RankTeamHost::gather(fabric::Rank ranks, std::uint32_t site, const space::Meanwhile* meanwhile,
                          bool marks) {
  return runtime_.guard([&] { return barrier().gather(ranks, site, meanwhile, marks); });
}
fabric::Rank RankTeamHost::tell(fabric::Rank ranks, const space::BarrierNote& note) {
  return runtime_.guard([&] { return barrier().tell(ranks, note); });
}
space::BarrierNote RankTeamHost::hear(const space::Meanwhile* meanwhile, events::Kind kind) {
  return runtime_.guard([&] { return barrier().hear(site_word, meanwhile, kind); });
}

bool RankTeamHost::has_put_off() const noexcept {
  return runtime_.updates().any();
}
void RankTeamHost::apply_put_off() {
  runtime_.guard([&] { runtime_.updates().apply(); });
}
void RankTeamHost::put_off_is_applied() noexcept {
  runtime_.updates().applied();
}

void RankTeamHost::show_partial(void* partial) noexcept {
  runtime_.show_partial(partial);
}
void* RankTeamHost::partial_of(fabric::Rank rank) {
  return runtime_.guard([&] { return runtime_.partial_of(rank); });
}
void* RankTeamHost::allocate(std::size_t bytes) {
  return runtime_.guard([&] { return runtime_.platform().heap().allocate(bytes); });
}
void RankTeamHost::free(void* pointer) {
  runtime_.guard([&] { runtime_.platform().heap().free(pointer); });
}

}  // namespace craton::omp
