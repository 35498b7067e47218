/// \file
/// Reductions over tasks as LLVM describes them. Each thread of the team has a slice of shared memory for
/// what its tasks reduce, on whatever rank a task runs; it makes a variable there when one of its tasks first
/// asks for it. Who ends the group adds the slices up.
///
///     group ─▶ Reductions ─outer─▶ ...        slice of a thread: │ made │ item │ item │ ... to a cache line
///                 └─▶ memory: │ slice of thread 0 │ slice of thread 1 │ ...
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "omp/api/memory.hpp"
#include "omp/kmpc/abi.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

namespace {

/// kmp_taskred_input_t.
struct Input {
  void* shared;
  void* original;  ///< that `init` looks at
  std::size_t bytes;
  void (*init)(void* own, void* original);  ///< null: zero
  void (*end)(void* own);                   ///< null: nothing
  void (*combine)(void* into, void* own);
  std::uint32_t flags;
};
struct Item {
  Input input;
  std::size_t offset;  ///< in a slice
};

struct Reductions {
  Reductions* outer;
  std::size_t count;
  std::uint32_t threads;
  bool owns_memory;
  std::size_t slice_bytes;
  std::byte* memory;

  Item* items() noexcept { return reinterpret_cast<Item*>(this + 1); }
  std::byte* slice(std::uint32_t thread) noexcept { return memory + thread * slice_bytes; }
  /// Whether a thread has made an item: a byte for each, which the slice begins with.
  std::uint8_t& made(std::uint32_t thread, std::size_t item) noexcept {
    return reinterpret_cast<std::uint8_t*>(slice(thread))[item];
  }
};

constexpr std::size_t line = 64;
constexpr std::size_t up_to(std::size_t bytes, std::size_t unit) noexcept {
  return (bytes + unit - 1) / unit * unit;
}

void* shared_memory_of(std::size_t bytes) {
  void* const memory = api::allocate(bytes, line, api::null_allocator);
  if (memory == nullptr) runtime()->platform().fail("no shared memory is left for a reduction over tasks");
  return memory;
}

/// \param first what another thread has for the same construct: its memory is used; null: there is none
Reductions* make(std::int32_t count, const Input* inputs, Reductions* first) {
  const auto items = static_cast<std::size_t>(count);
  auto* const made = new (shared_memory_of(sizeof(Reductions) + items * sizeof(Item)))
      Reductions{.outer = static_cast<Reductions*>(reductions()),
                 .count = items,
                 .threads = team_size(),
                 .owns_memory = first == nullptr,
                 .slice_bytes = up_to(items, line),
                 .memory = nullptr};
  for (std::size_t i = 0; i < items; ++i) {
    made->items()[i] = {.input = inputs[i], .offset = made->slice_bytes};
    // A line at least, as in libomp: clang 14 says the size of one element for a part of an array of known
    // size.
    made->slice_bytes += up_to(inputs[i].bytes, line);
  }
  if (first != nullptr) {
    made->memory = first->memory;
  } else {
    const std::size_t bytes = made->slice_bytes * made->threads;
    made->memory = static_cast<std::byte*>(std::memset(shared_memory_of(bytes), 0, bytes));
  }
  set_reductions(made);
  return made;
}

/// Adds all slices up, in what the caller's items name.
void add_up(Reductions& all) {
  for (std::size_t i = 0; i < all.count; ++i) {
    const Item& item = all.items()[i];
    for (std::uint32_t thread = 0; thread < all.threads; ++thread) {
      if (all.made(thread, i) == 0) continue;
      void* const own = all.slice(thread) + item.offset;
      item.input.combine(item.input.shared, own);
      if (item.input.end != nullptr) item.input.end(own);
    }
  }
}

void release(Reductions* all) {
  if (all->owns_memory) api::release(all->memory);
  api::release(all);
}

void* own_part(Reductions& all, std::size_t index) {
  const std::uint32_t thread = self().state.number;
  const Item& item = all.items()[index];
  void* const own = all.slice(thread) + item.offset;
  if (all.made(thread, index) == 0) {
    if (item.input.init != nullptr) item.input.init(own, item.input.original);
    all.made(thread, index) = 1;
  }
  return own;
}

/// \returns null if it is none of them
void* find_part(Reductions* all, const void* pointer) {
  for (Reductions* one = all; one != nullptr; one = one->outer) {
    for (std::size_t i = 0; i < one->count; ++i) {
      if (one->items()[i].input.shared == pointer || one->items()[i].input.original == pointer)
        return own_part(*one, i);
    }
    // Or some thread's part of it.
    const auto* const byte = static_cast<const std::byte*>(pointer);
    if (byte < one->memory || byte >= one->memory + one->slice_bytes * one->threads) continue;
    const std::size_t offset = static_cast<std::size_t>(byte - one->memory) % one->slice_bytes;
    for (std::size_t i = 0; i < one->count; ++i) {
      if (one->items()[i].offset == offset) return own_part(*one, i);
    }
  }
  return nullptr;
}

}  // namespace

CRATON_KMPC void __kmpc_taskgroup(Location* /*at*/, std::int32_t /*thread*/) {
  begin_group();
}
CRATON_KMPC void __kmpc_end_taskgroup(Location* /*at*/, std::int32_t /*thread*/) {
  const TaskGroup* const group = self().task->group;
  const TaskGroup* const outer = group != nullptr ? group->outer : nullptr;
  auto* const own = static_cast<Reductions*>(group != nullptr ? group->reductions : nullptr);
  const void* const inherited = outer != nullptr ? outer->reductions : self().task->reductions;
  end_group();
  if (own == nullptr || own == inherited) return;
  add_up(*own);
  release(own);
}

/// For the group that the caller has just begun.
CRATON_KMPC void* __kmpc_taskred_init(std::int32_t /*thread*/, std::int32_t count, void* inputs) {
  return make(count, static_cast<const Input*>(inputs), nullptr);
}
/// \param all from __kmpc_taskred_init or its like; null: those of the caller's group
CRATON_KMPC void* __kmpc_task_reduction_get_th_data(std::int32_t /*thread*/, void* all, void* pointer) {
  void* part = find_part(static_cast<Reductions*>(all), pointer);
  if (part == nullptr) part = find_part(static_cast<Reductions*>(reductions()), pointer);
  if (part != nullptr) return part;
  if (runtime() != nullptr) {
    runtime()->platform().fail(
        "cannot run a task with in_reduction: no taskgroup around it has a reduction of the same; give one "
        "task_reduction, or a construct reduction(task, ...)");
  }
  return pointer;
}

// ---- Of a region or work share: reduction(task, ...). Each thread begins a group of its own, all with the
// same memory; the first thread adds up what all have, when all are done.

CRATON_KMPC void* __kmpc_taskred_modifier_init(Location* /*at*/, std::int32_t /*thread*/,
                                               std::int32_t /*is_share*/, std::int32_t count, void* inputs) {
  const std::uint32_t site = site_of(__builtin_return_address(0));
  begin_group();
  mark_share_group();
  if (!is_first())
    return make(count, static_cast<const Input*>(inputs), static_cast<Reductions*>(give_all(nullptr, site)));
  Reductions* const own = make(count, static_cast<const Input*>(inputs), nullptr);
  give_all(own, site);
  return own;
}
CRATON_KMPC void __kmpc_task_reduction_modifier_fini(Location* /*at*/, std::int32_t /*thread*/,
                                                     std::int32_t /*is_share*/) {
  auto* const own = static_cast<Reductions*>(reductions());
  end_group();
  barrier(site_of(__builtin_return_address(0)));
  if (is_first()) add_up(*own);
  release(own);
}

}  // namespace craton::omp::kmpc
