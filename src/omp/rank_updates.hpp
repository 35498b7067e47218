/// \file
/// What is put off in a running program, over the runtime of its rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/wake_ups.hpp"
#include "omp/updates_host.hpp"

namespace craton::omp {

class Runtime;

class RankUpdatesHost final : public UpdatesHost {
 public:
  /// \param offset where in the words each rank's PutOff is
  RankUpdatesHost(Runtime& runtime, std::size_t offset) noexcept : runtime_(runtime), offset_(offset) {}

  fabric::Rank rank() const noexcept override;
  fabric::Rank ranks() const noexcept override;
  bool beats() const noexcept override;
  bool start_thread() noexcept override;
  void wake_thread() noexcept override;
  void claim(std::span<Claiming> claims, std::uint64_t as) override;
  void read(std::span<UpdateList> lists) override;
  void pause() override;
  void run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body) override;

 private:
  static void run_thread(void* self);
  fabric::RemoteAddress address(fabric::Rank rank, std::size_t offset) const noexcept;

  Runtime& runtime_;
  const std::size_t offset_;
  WakeUps wake_ups_;
};

}  // namespace craton::omp
