#include "omp/depends.hpp"

#include <algorithm>
#include <cstdint>

namespace craton::omp {

namespace {

/// Of an omp_depend_t: an address, and one of these.
constexpr std::uintptr_t object_in = 1;

}  // namespace

Task::Task() = default;
Task::~Task() = default;

std::vector<Dependence> dependences_of(void** depend) {
  // Either: all, those that write; or: 0, all, those that write, mutexinoutset, in, and then depend objects.
  const auto number = [depend](std::size_t i) { return reinterpret_cast<std::uintptr_t>(depend[i]); };
  const bool is_short = number(0) != 0;
  const std::size_t all = is_short ? number(0) : number(1);
  const std::size_t writing = is_short ? number(1) : number(2) + number(3);
  const std::size_t plain = is_short ? all : writing + number(4);
  void** const items = depend + (is_short ? 2 : 5);
  std::vector<Dependence> given;
  for (std::size_t i = 0; i < all; ++i) {
    Dependence item{.address = items[i], .writes = i < writing};
    if (i >= plain) {
      void* const* const object = static_cast<void**>(items[i]);
      item = {.address = object[0], .writes = reinterpret_cast<std::uintptr_t>(object[1]) != object_in};
    }
    const auto same = std::find_if(given.begin(), given.end(),
                                   [&](const Dependence& other) { return other.address == item.address; });
    if (same == given.end()) {
      given.push_back(item);
    } else {
      same->writes = same->writes || item.writes;
    }
  }
  return given;
}

void Depends::wait_for(Task& task, Task* other) {
  if (other == nullptr || other == &task) return;
  other->successors.push_back(&task);
  task.waits_for.fetch_add(1, std::memory_order_relaxed);
}

void Depends::add(Task& task, std::span<const Dependence> items, bool joins) {
  for (const Dependence& item : items) {
    const auto found = joins ? uses_.try_emplace(item.address).first : uses_.find(item.address);
    if (found == uses_.end()) continue;
    Uses& uses = found->second;
    if (!item.writes || uses.readers.empty()) wait_for(task, uses.writer);
    if (item.writes) {
      for (Task* const reader : uses.readers) wait_for(task, reader);
    }
    if (!joins) continue;
    task.addresses.push_back(item.address);
    if (item.writes) {
      uses.writer = &task;
      uses.readers.clear();
    } else {
      uses.readers.push_back(&task);
    }
  }
}

void Depends::remove(const Task& task) {
  for (const void* const address : task.addresses) {
    const auto found = uses_.find(address);
    if (found == uses_.end()) continue;
    Uses& uses = found->second;
    if (uses.writer == &task) uses.writer = nullptr;
    uses.readers.erase(std::remove(uses.readers.begin(), uses.readers.end(), &task), uses.readers.end());
    if (uses.writer == nullptr && uses.readers.empty()) uses_.erase(found);
  }
}

}  // namespace craton::omp
