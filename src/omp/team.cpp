#include "omp/team.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/events.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp {

extern "C" void omp_display_affinity(const char* format);

fabric::Rank TeamTaskHost::rank() const noexcept {
  return runtime_.rank();
}
fabric::Rank TeamTaskHost::ranks() const noexcept {
  return runtime_.ranks();
}
std::uint32_t TeamTaskHost::threads_a_rank() const noexcept {
  return runtime_.settings().threads_a_rank;
}
TimeNs TeamTaskHost::now_ns() const noexcept {
  return runtime_.platform().fabric().clock().now_ns();
}
void TeamTaskHost::send(fabric::Rank to, const Message& message) {
  runtime_.send(to, message);
}
void TeamTaskHost::serve() {
  runtime_.platform().fabric().serve();
}
void TeamTaskHost::publish() {
  runtime_.guard([&] { runtime_.platform().space().publish(); });
}
void TeamTaskHost::learn(fabric::Rank rank) {
  runtime_.guard([&] { runtime_.platform().space().learn(rank); });
}
void TeamTaskHost::flush_output() {
  runtime_.platform().flush_output();
}
void TeamTaskHost::give_block(void* block, std::size_t bytes) {
  runtime_.give_block(block, bytes);
}
bool TeamTaskHost::is_cancelled() const noexcept {
  return is_region_cancelled() || is_group_cancelled();
}
void TeamTaskHost::wait_in_fabric(FunctionRef<bool()> condition) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  static_cast<void>(fabric.wait_until([&] { return condition() || fabric.lost_ranks() != 0; }));
  runtime_.end_if_lost();
}
void TeamTaskHost::notify_fabric() noexcept {
  runtime_.platform().fabric().notify();
}
void TeamTaskHost::wait_at_gate(FunctionRef<bool()> condition) {
  gate_.wait(runtime_.spin(), condition);
}

Team::Team(Runtime& runtime)
    : runtime_(runtime),
      loops_(runtime.platform().fabric(), runtime.loop_words_at()),
      task_host_(runtime, gate_),
      tasks_(task_host_),
      turns_(runtime, gate_, tasks_),
      doacross_(runtime, gate_, tasks_),
      cancellation_(runtime, tasks_) {}

void Team::begin(const Beginning& beginning) {
  gate_.wait(runtime_.spin(), [this] { return inside_.load(std::memory_order_acquire) == 0; });
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
    implicit_[i].is_final = parent_ != nullptr && parent_->is_final;
  }
  loops_.begin(shape_);
  tasks_.begin(shape_.ranks, shape_.size, beginning.number);
  turns_.begin(shape_, shares_ + 1, beginning.number);
  doacross_.begin(shape_, shares_ + 1);
  cancellation_.begin(shape_, beginning.number);
  parts_given_.store(0, std::memory_order_relaxed);    // a cancelled region may have left some
  if (shape_.ranks > 1) runtime_.updates().applied();  // by the end of the last region
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
                  .league = outer_.league,
                  .seat = runtime_.seat_of(outer_)};
  if (bind_ != Binding::none) {
    thread.state.seat = seat_of_thread(thread.state.seat, bind_, local, shape_.local);
    runtime_.bind(thread);
  }
  // OMP_DISPLAY_AFFINITY: where a thread has another place than before.
  if (runtime_.settings().display_affinity && std::exchange(thread.shown_in, shape_.size) != shape_.size)
    omp_display_affinity(nullptr);
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
  if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) gate_.open();
}

void Team::meet(std::uint32_t site) {
  come(false, site);
}

/// To a meeting that those at the end of a cancelled region take part in.
void Team::come(bool is_at_end, std::uint32_t site) {
  if (cancellation_.is_allowed()) cancellation_.come(is_at_end, self().state.shares);
  meet_all(Meeting::barrier, site);
}

void* Team::meet_with(void* pointer, std::uint32_t site) {
  void*& given = given_[meetings_.load(std::memory_order_acquire) % given_.size()];
  if (pointer != nullptr) given = pointer;
  meet(site);
  return given;
}

bool Team::reduce(void* part, Combine combine, std::uint32_t site) {
  const std::uint32_t local = self().state.number - first_;
  parts_[local] = part;
  if (parts_given_.fetch_add(1, std::memory_order_acq_rel) + 1 == shape_.local) {
    parts_given_.store(0, std::memory_order_relaxed);
    for (std::uint32_t other = 1; other < shape_.local; ++other) combine(parts_[0], parts_[other]);
    if (shape_.ranks > 1) runtime_.show_partial(parts_[0]);
  }
  meet(site);
  if (first_ + local != 0 || cancellation_.is_region_cancelled()) return false;
  for (fabric::Rank rank = 1; rank < shape_.ranks; ++rank)
    combine(part, runtime_.guard([&] { return runtime_.partial_of(rank); }));
  return true;
}

void* Team::shared_memory(std::size_t bytes, bool is_first) {
  constexpr std::uint32_t site = 0x6d656d6fU;  // none of the program's
  if (!is_first) return meet_with(nullptr, site);
  space::Heap& heap = runtime_.platform().heap();
  void* const made = runtime_.guard([&] { return heap.allocate(bytes); });
  std::memset(made, 0, bytes);
  meet_with(made, site);
  // All are past the work share that had the one before.
  if (memory_ != nullptr) runtime_.guard([&] { heap.free(memory_); });
  return memory_ = made;
}

void Team::end(std::uint32_t site) {
  const Thread& thread = self();
  if (cancellation_.is_allowed() && shape_.size > 1) {
    do {
      come(true, site);
    } while (cancellation_.was_any_at_barrier());
  }
  meet_all(Meeting::end, site);
  if (memory_ == nullptr || thread.state.number != 0) return;
  runtime_.guard([&] { runtime_.platform().heap().free(std::exchange(memory_, nullptr)); });
}

void Team::meet_all(Meeting kind, std::uint32_t site) {
  const events::Span span(events::Kind::barrier);
  const std::uint32_t meeting = meetings_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < shape_.local) {
    return tasks_.wait_at_barrier(self(),
                                  [&] { return meetings_.load(std::memory_order_acquire) != meeting; });
  }
  tasks_.drain(self());
  // Where a region is cancelled not all threads come to a reduction.
  parts_given_.store(0, std::memory_order_relaxed);
  // Not earlier: who enters the region late starts from the number before it.
  if (kind == Meeting::end) shares_ = std::max(self().state.shares, cancellation_.last_share());
  arrived_.store(0, std::memory_order_relaxed);
  if (shape_.ranks > 1) {
    runtime_.guard([&] { meet_ranks(kind, site); });
  } else if (kind == Meeting::barrier && cancellation_.is_allowed()) {
    cancellation_.settle(cancellation_.tell());
  }
  meetings_.store(meeting + 1, std::memory_order_release);
  if (shape_.local > 1) gate_.open();
}

/// By the last thread of the rank to come.
void Team::meet_ranks(Meeting kind, std::uint32_t site) {
  space::Barrier& barrier = runtime_.platform().space().barrier();
  Thread& thread = self();
  const auto can_help = [this] { return tasks_.can_help(); };
  const auto help = [&] { tasks_.help(thread); };
  const space::Meanwhile meanwhile{.can_run = can_help, .run = help};
  const TaskPool::FabricWait here(tasks_);
  runtime_.platform().flush_output();
  if (kind == Meeting::end) {
    if (barrier.gather(reach_, site, &meanwhile, runtime_.updates().any())) runtime_.updates().apply();
    if (shape_.own != 0 && shape_.local > 1 && runtime_.makes_tasks(region_.site, tasks_.makes_tasks()))
      heard_ = barrier.hear(Runtime::site_word, &meanwhile);
    return;
  }
  meet_ranks_at_barrier(site, meanwhile);
}

void Team::meet_ranks_at_barrier(std::uint32_t site, const space::Meanwhile& meanwhile) {
  space::Barrier& barrier = runtime_.platform().space().barrier();
  if (cancellation_.is_allowed()) static_cast<void>(cancellation_.tell());
  space::BarrierNote note;
  void*& given = given_[meetings_.load(std::memory_order_relaxed) % given_.size()];
  note.is_marked = runtime_.updates().any();
  note.count = given != nullptr ? 1 : 0;
  note.words[0] = reinterpret_cast<std::uintptr_t>(given);
  barrier.meet(shape_.ranks, site, &note, &meanwhile);
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
  barrier.meet(shape_.ranks, site, &note, &meanwhile);
  tasks_.left_barrier();
  cancellation_.settle({.places = note.words[0], .share = note.words[1]});
}

/// What threads have put off until this meeting, which all have come to.
void Team::apply_updates(std::uint32_t site) {
  space::Barrier& barrier = runtime_.platform().space().barrier();
  if (shape_.own != 0) {
    barrier.hear(Runtime::site_word, nullptr, events::Kind::barrier);
    return runtime_.updates().applied();
  }
  runtime_.updates().apply();
  constexpr std::uint32_t second = 0x75706474U;  // what the first acquire of this meeting learns is its own
  space::BarrierNote note;
  note.words[Runtime::site_word] = site ^ second;
  note.count = Runtime::site_word + 1;
  barrier.tell(shape_.ranks, note);
}

space::BarrierNote Team::hear() {
  if (heard_) return *std::exchange(heard_, std::nullopt);
  Thread& thread = self();
  const auto can_help = [this] { return tasks_.can_help(); };
  const auto help = [&] { tasks_.help(thread); };
  const space::Meanwhile meanwhile{.can_run = can_help, .run = help};
  const TaskPool::FabricWait here(tasks_);
  return runtime_.guard(
      [&] { return runtime_.platform().space().barrier().hear(Runtime::site_word, &meanwhile); });
}

}  // namespace craton::omp
