/// \file
/// Memory that can become a region: a memfd and this rank's system view of it (DESIGN, decision 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/assert.hpp"
#include "base/unique_fd.hpp"

namespace craton::fabric {

/// Owns a memfd of `bytes` bytes (rounded up to whole pages) and a writable shared mapping of all of it.
/// Pages are allocated when they are first touched. Nothing appears in any file system; the memory goes with
/// its last mapping.
class RegionMemory {
 public:
  /// \param name shown in /proc/PID/maps
  /// \param bytes at least 1
  /// \throws Error out_of_resources with the limit that was hit and its remedy
  RegionMemory(const std::string& name, std::size_t bytes);
  RegionMemory(RegionMemory&& other) noexcept;
  RegionMemory& operator=(RegionMemory&&) = delete;
  RegionMemory(const RegionMemory&) = delete;
  RegionMemory& operator=(const RegionMemory&) = delete;
  ~RegionMemory() = default;

  /// The system view.
  std::byte* data() const noexcept { return data_.get(); }
  /// The same, which keeps the memory there when this object has gone.
  const std::shared_ptr<std::byte>& shared_data() const noexcept { return data_; }
  /// Bytes asked for; the mapping is whole pages.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Not of memory that was made under a ProcessRegions.
  int fd() const noexcept {
    CRATON_ASSERT(static_cast<bool>(fd_));
    return fd_.get();
  }

 private:
  UniqueFd fd_;
  std::shared_ptr<std::byte> data_;
  std::size_t bytes_ = 0;
};

/// While it lives, region memory that its thread makes comes from this process's heap, aligned to a cache
/// line and without a memfd: enough where all ranks are in one process, and without system calls.
class ProcessRegions {
 public:
  ProcessRegions() noexcept;
  ProcessRegions(const ProcessRegions&) = delete;
  ProcessRegions& operator=(const ProcessRegions&) = delete;
  ~ProcessRegions();

 private:
  bool outer_;  ///< whether there was one already
};

/// A mapping of another rank's RegionMemory. Takes the descriptor and closes it once mapped.
class PeerMapping {
 public:
  PeerMapping() = default;
  /// \throws Error out_of_resources, protocol if the memfd is smaller than `bytes`
  PeerMapping(UniqueFd memfd, std::size_t bytes);
  PeerMapping(PeerMapping&& other) noexcept;
  PeerMapping& operator=(PeerMapping&& other) noexcept;
  PeerMapping(const PeerMapping&) = delete;
  PeerMapping& operator=(const PeerMapping&) = delete;
  ~PeerMapping();

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace craton::fabric
