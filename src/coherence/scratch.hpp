/// \file
/// Buffers of a block each, for what comes in from elsewhere before it is merged. Not from malloc, since
/// faults need them too; kept when they are given back.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <new>

#include "base/error.hpp"
#include "coherence/state_lock.hpp"

namespace craton::coherence {

class ScratchPool {
 public:
  explicit ScratchPool(std::size_t bytes) : bytes_(bytes < sizeof(Free) ? sizeof(Free) : bytes) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    while (free_ != nullptr) {
      Free* const next = free_->next;
      ::munmap(free_, bytes_);
      free_ = next;
    }
  }

  /// Has a buffer as long as it lives.
  class Buffer {
   public:
    /// \throws Error out_of_resources
    explicit Buffer(ScratchPool& pool) : pool_(pool), data_(pool.take()) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { pool_.give_back(data_); }
    std::byte* data() const noexcept { return data_; }

   private:
    ScratchPool& pool_;
    std::byte* const data_;
  };

 private:
  struct Free {
    Free* next;
  };

  std::byte* take() {
    {
      const StateGuard guard(lock_);
      if (free_ != nullptr) {
        Free* const first = free_;
        free_ = first->next;
        return reinterpret_cast<std::byte*>(first);
      }
    }
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error::from_errno("cannot get a buffer to merge a block in", errno);
    return static_cast<std::byte*>(memory);
  }
  void give_back(std::byte* memory) noexcept {
    const StateGuard guard(lock_);
    free_ = ::new (memory) Free{free_};
  }

  const std::size_t bytes_;
  StateLock lock_;
  Free* free_ = nullptr;
};

}  // namespace craton::coherence
