/// \file
/// Where the bytes of strong blocks come from before any rank has them: the paper's NVM at the block's owner
/// (vGASNet, section III-A).
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::coherence {

/// How a copy gets from rank to rank.
enum class Transfer : std::uint8_t {
  cooperative,  ///< from the rank that has it (section III-B, figure 3); the store is read while nobody has
                ///< it
  write_back,   ///< what was written goes to the store first and is read from there: what the paper compares
                ///< with in figure 10
};

/// On the block's manager. Called by its service thread only; may block. Errors end the service, and with it
/// the job.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  virtual void read(std::uint64_t block, std::byte* to) = 0;
  virtual void write(std::uint64_t block, const std::byte* from) = 0;
};

}  // namespace craton::coherence
