#include "omp/team.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/events.hpp"

namespace craton::omp {

Team::Team(TeamHost& host)
    : host_(host),
      loops_(host),
      tasks_(host),
      turns_(host, tasks_),
      doacross_(host, tasks_),
      cancellation_(host, tasks_) {}

void Team::begin(const Beginning& beginning) {
  host_.wait_at_gate([this] { return inside_.load(std::memory_order_acquire) == 0; });
  shape_ = beginning.shape;
  outer_ = beginning.outer;
  bind_ = beginning.bind;
  parent_ = beginning.parent;
  region_ = beginning.region;
  reach_ = beginning.reach;
  shares_ = beginning.shares;
  first_ = first_of(shape_.own, shape_.size, shape_.ranks);
  if (implicit_count_ < shape_.local) {
    implicit_ = std::make_unique<Task[]>(shape_.local);
    parts_ = std::make_unique<void*[]>(shape_.local);
    implicit_count_ = shape_.local;
  }
  for (std::uint32_t i = 0; i < shape_.local; ++i) {
    implicit_[i].icvs = beginning.icvs;
    implicit_[i].parent = parent_;
    implicit_[i].group = nullptr;  // a cancelled region may have left one
    implicit_[i].reductions = region_.reduces ? *static_cast<void**>(region_.data) : nullptr;
    implicit_[i].is_final = false;  // whatever the task is that starts the region
  }
  loops_.begin(shape_);
  tasks_.begin(shape_.ranks, shape_.size, beginning.number);
  turns_.begin(shape_, shares_ + 1, beginning.number);
  doacross_.begin(shape_, shares_ + 1);
  cancellation_.begin(shape_, beginning.number);
  parts_given_.store(0, std::memory_order_relaxed);  // a cancelled region may have left some
  singles_.store(0, std::memory_order_relaxed);
  if (shape_.ranks > 1) host_.put_off_is_applied();  // by the end of the last region
  inside_.store(shape_.local - 1, std::memory_order_relaxed);
}

void Team::enter(Thread& thread, std::uint32_t local) noexcept {
  thread.task = &implicit_[local];
  thread.state = {.team = this,
                  .number = first_ + local,
                  .level = outer_.level + 1,
                  .active_level = outer_.active_level + (shape_.size > 1 ? 1 : 0),
                  .shares = shares_,
                  .position = {},
                  .league = outer_.league};
  host_.sit(thread, *this, local);
  if (region_.loop.kind == WorkKind::none) return;
  thread.state.position.loop = region_.loop;
  thread.state.position.number = ++thread.state.shares;
}

void Team::run_part(Thread& thread, std::uint32_t local) {
  enter(thread, local);
  events::enter_region(region_.function);
  region_.function(region_.data);
  end(region_.site);
  events::leave_region();
  thread.state = {};
  thread.task = &thread.initial;
  // Nothing of the team is used after this; but it is never destroyed.
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) host_.open_gate();
}

bool Team::next_chunk(TeamState& state) {
  LoopPosition& position = state.position;
  // Done with the last one: the turn goes on.
  if (position.loop.ordered && position.last != position.first && shape_.size > 1)
    turns_.pass(position, state.number);
  position.last = position.first;
  return loops_.next(position, state.number);
}

void Team::end_share(const LoopPosition& position) {
  if (position.loop.ordered && shape_.size > 1) turns_.end(position.number);
  if (position.loop.doacross) doacross_.end(position.number);
}

void Team::meet(std::uint32_t site) {
  come(false, site);
}

bool Team::meet_or_end(std::uint32_t site) {
  if (!cancellation_.is_region_cancelled()) meet(site);
  return cancellation_.is_region_cancelled();
}

/// To a meeting that those at the end of a cancelled region take part in.
void Team::come(bool is_at_end, std::uint32_t site) {
  if (cancellation_.is_allowed()) cancellation_.come(is_at_end, host_.self().state.shares);
  meet_all(Meeting::barrier, site);
}

void* Team::meet_with(void* pointer, std::uint32_t site) {
  void*& given = given_[meetings_.load(std::memory_order_acquire) % given_.size()];
  if (pointer != nullptr) given = pointer;
  meet(site);
  return given;
}

bool Team::reduce(void* part, Combine combine, std::uint32_t site) {
  const std::uint32_t local = host_.self().state.number - first_;
  parts_[local] = part;
  if (parts_given_.fetch_add(1, std::memory_order_acq_rel) + 1 == shape_.local) {
    parts_given_.store(0, std::memory_order_relaxed);
    for (std::uint32_t other = 1; other < shape_.local; ++other) combine(parts_[0], parts_[other]);
    if (shape_.ranks > 1) host_.show_partial(parts_[0]);
  }
  meet(site);
  if (first_ + local != 0 || cancellation_.is_region_cancelled()) return false;
  for (fabric::Rank rank = 1; rank < shape_.ranks; ++rank) combine(part, host_.partial_of(rank));
  return true;
}

void* Team::shared_memory(std::size_t bytes, bool is_first) {
  constexpr std::uint32_t site = 0x6d656d6fU;  // none of the program's
  if (!is_first) return meet_with(nullptr, site);
  void* const made = host_.allocate(bytes);
  std::memset(made, 0, bytes);
  meet_with(made, site);
  // All are past the work share that had the one before.
  if (memory_ != nullptr) host_.free(memory_);
  return memory_ = made;
}

void Team::end(std::uint32_t site) {
  const Thread& thread = host_.self();
  if (cancellation_.is_allowed() && shape_.size > 1) {
    do {
      come(true, site);
    } while (cancellation_.was_any_at_barrier());
  }
  meet_all(Meeting::end, site);
  if (memory_ == nullptr || thread.state.number != 0) return;
  host_.free(std::exchange(memory_, nullptr));
}

void Team::meet_all(Meeting kind, std::uint32_t site) {
  const events::Span span(events::Kind::barrier);
  const std::uint32_t meeting = meetings_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < shape_.local) {
    return tasks_.wait_at_barrier(host_.self(),
                                  [&] { return meetings_.load(std::memory_order_acquire) != meeting; });
  }
  tasks_.drain(host_.self());
  // Where a region is cancelled not all threads come to a reduction.
  parts_given_.store(0, std::memory_order_relaxed);
  // Not earlier: who enters the region late starts from the number before it.
  if (kind == Meeting::end) shares_ = std::max(host_.self().state.shares, cancellation_.last_share());
  arrived_.store(0, std::memory_order_relaxed);
  if (shape_.ranks > 1) {
    meet_ranks(kind, site);
  } else if (kind == Meeting::barrier && cancellation_.is_allowed()) {
    cancellation_.settle(cancellation_.tell());
  }
  meetings_.store(meeting + 1, std::memory_order_release);
  if (shape_.local > 1) host_.open_gate();
}

/// By the last thread of the rank to come.
void Team::meet_ranks(Meeting kind, std::uint32_t site) {
  Thread& thread = host_.self();
  const auto can_help = [this] { return tasks_.can_help(); };
  const auto help = [&] { tasks_.help(thread); };
  const space::Meanwhile meanwhile{.can_run = can_help, .run = help};
  const TaskPool::FabricWait here(tasks_);
  host_.flush_output();
  if (kind == Meeting::end) {
    if (host_.gather(reach_, site, &meanwhile, host_.has_put_off())) host_.apply_put_off();
    if (shape_.own != 0 && shape_.local > 1 && host_.makes_tasks(region_.site, tasks_.makes_tasks()))
      heard_ = host_.hear(&meanwhile, events::Kind::idle);
    return;
  }
  meet_ranks_at_barrier(site, meanwhile);
}

void Team::meet_ranks_at_barrier(std::uint32_t site, const space::Meanwhile& meanwhile) {
  if (cancellation_.is_allowed()) static_cast<void>(cancellation_.tell());
  space::BarrierNote note;
  void*& given = given_[meetings_.load(std::memory_order_relaxed) % given_.size()];
  note.is_marked = host_.has_put_off();
  note.count = given != nullptr ? 1 : 0;
  note.words[0] = reinterpret_cast<std::uintptr_t>(given);
  host_.meet(shape_.ranks, site, note, meanwhile);
  tasks_.left_barrier();
  if (note.count != 0) given = reinterpret_cast<void*>(note.words[0]);
  if (note.is_marked) return apply_updates(site);
  if (!cancellation_.is_allowed()) return;
  if (shape_.own == 0) {
    const Cancellation::Words all = cancellation_.collect();
    note.words[0] = all.places;
    note.words[1] = all.share;
  }
  note.count = 2;
  host_.meet(shape_.ranks, site, note, meanwhile);
  tasks_.left_barrier();
  cancellation_.settle({.places = note.words[0], .share = note.words[1]});
}

/// What threads have put off until this meeting, which all have come to.
void Team::apply_updates(std::uint32_t site) {
  if (shape_.own != 0) {
    host_.hear(nullptr, events::Kind::barrier);
    return host_.put_off_is_applied();
  }
  host_.apply_put_off();
  constexpr std::uint32_t second = 0x75706474U;  // what the first acquire of this meeting learns is its own
  space::BarrierNote note;
  note.words[TeamHost::site_word] = site ^ second;
  note.count = TeamHost::site_word + 1;
  static_cast<void>(host_.tell(shape_.ranks, note));
}

space::BarrierNote Team::hear() {
  if (heard_) return *std::exchange(heard_, std::nullopt);
  Thread& thread = host_.self();
  const auto can_help = [this] { return tasks_.can_help(); };
  const auto help = [&] { tasks_.help(thread); };
  const space::Meanwhile meanwhile{.can_run = can_help, .run = help};
  const TaskPool::FabricWait here(tasks_);
  return host_.hear(&meanwhile, events::Kind::idle);
}

}  // namespace craton::omp
