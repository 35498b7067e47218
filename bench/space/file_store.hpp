/// \file
/// The bytes of strong blocks on a file: what the paper's owner has its NVM for (vGASNet, section III-A).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/unique_fd.hpp"
#include "coherence/block_store.hpp"

namespace craton::bench {

/// A file without a name in $TMPDIR, or else /var/tmp: it is gone with the process, however that ends. What
/// was written is on the medium when write() returns. Past the kernel's cache (O_DIRECT) where the file
/// system can do that, since a read out of that cache would say nothing of a store.
class FileStore final : public coherence::BlockStore {
 public:
  /// \param block_bytes a multiple of what the medium reads at a time \throws Error
  FileStore(std::uint64_t blocks, std::size_t block_bytes);
  /// \throws Error
  void read(std::uint64_t block, std::byte* to) override;
  void write(std::uint64_t block, const std::byte* from) override;

  bool is_direct() const noexcept { return is_direct_; }
  /// Blocks written so far.
  std::uint64_t writes() const noexcept { return writes_.load(); }

 private:
  const std::size_t block_bytes_;
  bool is_direct_ = false;
  std::atomic<std::uint64_t> writes_{0};
  UniqueFd file_;
};

}  // namespace craton::bench
