#include "omp/gomp/reductions.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "omp/gomp/abi.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::gomp {

extern "C" void* GOMP_alloc(std::size_t alignment, std::size_t bytes, std::uintptr_t allocator);
extern "C" void GOMP_free(void* pointer, std::uintptr_t allocator);

namespace {

constexpr std::uintptr_t no_allocator = ~std::uintptr_t{0};
constexpr std::uintptr_t default_allocator = 1;
constexpr std::uint32_t reductions_site = 0x72656475U;  // none of the program's

Reductions* registered() noexcept {
  return static_cast<Reductions*>(reductions());
}

/// Where the caller's part of an item is, and what is reduced into it.
struct Place {
  void* own;
  void* address;
};

/// \param pointer what is reduced, or any thread's part of it
Place place_of(std::uintptr_t pointer) {
  const std::uint32_t thread = self().state.number;
  const Reductions* const innermost = registered();
  const auto in_slice = [thread](const Reductions& one, std::uintptr_t offset) {
    return reinterpret_cast<void*>(one.memory + thread * one.slice_bytes + offset);
  };
  for (const Reductions* one = innermost; one != nullptr; one = one->next) {
    for (std::size_t i = 0; i < one->count; ++i) {
      const Reductions::Item& item = one->items()[i];
      if (item.address == pointer)
        return {.own = in_slice(*one, item.offset), .address = reinterpret_cast<void*>(item.address)};
    }
  }
  for (const Reductions* one = innermost; one != nullptr; one = one->next) {
    if (pointer < one->memory || pointer >= one->memory_end) continue;
    const std::uintptr_t offset = (pointer - one->memory) % one->slice_bytes;
    Place place{.own = in_slice(*one, offset), .address = nullptr};
    for (std::size_t i = 0; i < one->count; ++i) {
      if (one->items()[i].offset == offset) place.address = reinterpret_cast<void*>(one->items()[i].address);
    }
    return place;
  }
  const char* const message =
      "cannot run a task with in_reduction: no taskgroup around it has a reduction of the same; give one "
      "task_reduction, or a construct reduction(task, ...)";
  if (runtime() != nullptr) runtime()->platform().fail(message);
  static_cast<void>(std::fprintf(stderr, "craton: %s\n", message));
  std::exit(1);
}

}  // namespace

void register_reductions(Reductions* reductions, Reductions* outer, const Reductions* first,
                         std::uint32_t threads) {
  for (Reductions* one = reductions;; one = one->next) {
    if (first != nullptr) {
      one->memory = first->memory;
      one->memory_end = first->memory_end;
      first = first->next;
    } else {
      const std::size_t bytes = one->slice_bytes * threads;
      const std::uintptr_t allocator = one->allocator == no_allocator ? default_allocator : one->allocator;
      one->memory =
          reinterpret_cast<std::uintptr_t>(std::memset(GOMP_alloc(one->memory, bytes, allocator), 0, bytes));
      one->memory_end = one->memory + bytes;
    }
    one->is_head = one == reductions ? 1 : 0;
    if (one->next != nullptr) continue;
    one->next = outer;
    return;
  }
}

void begin_share_reductions(std::uintptr_t* words) {
  if (words == nullptr) return;
  auto* const own = reinterpret_cast<Reductions*>(words);
  begin_group();
  mark_share_group();
  Reductions* const outer = registered();
  if (is_single()) {
    register_reductions(own, outer, nullptr, team_size());
    give_all(own, reductions_site);
  } else {
    register_reductions(own, outer, static_cast<const Reductions*>(give_all(nullptr, reductions_site)),
                        team_size());
  }
  set_reductions(own);
}

/// \param words for the group that the caller has just begun
CRATON_GOMP void GOMP_taskgroup_reduction_register(std::uintptr_t* words) {
  auto* const own = reinterpret_cast<Reductions*>(words);
  register_reductions(own, registered(), nullptr, team_size());
  set_reductions(own);
}
CRATON_GOMP void GOMP_taskgroup_reduction_unregister(std::uintptr_t* words) {
  const auto* one = reinterpret_cast<const Reductions*>(words);
  do {
    GOMP_free(reinterpret_cast<void*>(one->memory), default_allocator);
    one = one->next;
  } while (one != nullptr && one->is_head == 0);
}
/// \param pointers `count` of them, each to what is reduced or to some thread's part of it: gets the caller's
/// part. Behind them come what the first `with_address` of them are reduced into.
CRATON_GOMP void GOMP_task_reduction_remap(std::size_t count, std::size_t with_address, void** pointers) {
  for (std::size_t i = 0; i < count; ++i) {
    const Place place = place_of(reinterpret_cast<std::uintptr_t>(pointers[i]));
    pointers[i] = place.own;
    if (i < with_address) pointers[count + i] = place.address;
  }
}
/// At the end of a work share with reductions over tasks.
CRATON_GOMP void GOMP_workshare_task_reduction_unregister(bool is_cancelled) {
  auto* const own = reinterpret_cast<std::uintptr_t*>(registered());
  end_group();
  if (is_single()) GOMP_taskgroup_reduction_unregister(own);
  if (!is_cancelled) barrier(site_of(__builtin_return_address(0)));
}

}  // namespace craton::omp::gomp
