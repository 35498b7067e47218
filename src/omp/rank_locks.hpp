/// \file
/// Locks of a running program's, over the runtime of its rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/wake_ups.hpp"
#include "omp/lock_host.hpp"

namespace craton::omp {

class Runtime;

class RankLockHost final : public LockHost {
 public:
  explicit RankLockHost(Runtime& runtime) noexcept : runtime_(runtime) {}

  std::uint32_t mutexes() override;
  const char* remedy_for_more_mutexes() const noexcept override;
  void lock(space::MutexId mutex) override;
  bool try_lock(space::MutexId mutex) override;
  void unlock(space::MutexId mutex) override;
  void unlock_unpublished(space::MutexId mutex) override;
  void read(void* into, std::size_t offset, std::size_t bytes) override;
  void write(std::size_t offset, const void* from, std::size_t bytes) override;
  void start_thread() noexcept override;
  void wake_thread() noexcept override;

 private:
  space::Mutexes& all() const noexcept;
  void run_thread() noexcept;

  Runtime& runtime_;
  WakeUps wake_ups_;
};

}  // namespace craton::omp
