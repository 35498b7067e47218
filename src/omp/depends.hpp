/// \file
/// Dependences among the tasks that one task makes: by address, in the order in which they are made.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "omp/task.hpp"

namespace craton::omp {

/// An item of a depend clause.
struct Dependence {
  const void* address;
  bool writes;  ///< out, inout, mutexinoutset, inoutset: after all that read or wrote it before
};

/// What the compiler passes for depend clauses, each address once.
std::vector<Dependence> dependences_of(void** depend);

/// With the lock of the pool.
class Depends {
 public:
  /// Makes a task wait for those made before it that it depends on. \param joins whether later ones can
  /// depend on it
  void add(Task& task, std::span<const Dependence> items, bool joins);
  /// A task has ended.
  void remove(const Task& task);

 private:
  struct Uses {
    Task* writer = nullptr;      ///< the last one
    std::vector<Task*> readers;  ///< since then
  };
  static void wait_for(Task& task, Task* other);

  std::unordered_map<const void*, Uses> uses_;
};

}  // namespace craton::omp
