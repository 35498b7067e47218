/// \file
/// Bytes of all ranks brought to rank 0: reports at the end of a job.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/fabric.hpp"

namespace craton::space {

/// For one use.
class Collection {
 public:
  /// \param handler a message handler, the same on all ranks
  Collection(fabric::Fabric& fabric, fabric::HandlerId handler);
  Collection(const Collection&) = delete;
  Collection& operator=(const Collection&) = delete;

  /// Collective; blocks at rank 0 until all have called it. \returns at rank 0 what each gave, by rank;
  /// elsewhere nothing \throws Error peer_lost
  std::vector<std::vector<std::byte>> collect(std::span<const std::byte> own);

 private:
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;

  fabric::Fabric& fabric_;
  const fabric::HandlerId handler_;
  std::vector<std::vector<std::byte>> all_;  ///< at rank 0
  std::atomic<fabric::Rank> complete_{0};    ///< ranks that have sent all
};

}  // namespace craton::space
