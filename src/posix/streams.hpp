/// \file
/// Whose stream a FILE or DIR is.
///
/// The C library's streams are private: their buffers, locks and descriptors belong to the process that
/// opened them, while the program hands the pointers to threads of other ranks. So each rank has addresses of
/// its own for them, the same ones are free everywhere else, and an address tells the rank.
///
///     │ streams of rank 0 │ streams of rank 1 │ ...      in each: │ blocks for FILE │ blocks for DIR │
///
/// What is done with a stream of another rank is done there (remote_files.hpp). In this process zeros stand
/// for it, which make what the headers have inline (getc_unlocked() say) call a function. stdout and stderr
/// are those of each process, and always right; stdin is rank 0's.
///
/// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

#include "fabric/types.hpp"
#include "space/agreement.hpp"

namespace craton::posix {

class SharedProgram;

/// Memory of this rank's streams. One for the process, as its C library is.
class StreamMemory {
 public:
  /// Finds addresses. Collective. Where ranks cannot have the same, streams are not told apart.
  void share(space::Agreement& agreement, fabric::Rank rank);

  /// Null where there is none; the C library's heap has some.
  void* allocate(std::size_t bytes) noexcept;
  void free(void* stream) noexcept;
  /// It was allocated here.
  bool owns(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(own_) < own_bytes_;
  }
  /// It is a stream of another rank.
  bool is_foreign(const void* address) const noexcept {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < bytes_ && !owns(address);
  }
  fabric::Rank owner(const void* address) const noexcept;
  static constexpr std::size_t files_most = 16384;
  /// Of a FILE of this rank's; others have a place as well.
  std::size_t index_of(const void* stream) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(stream) - own_) / file_block_bytes %
           files_most;
  }
  /// Whose index it is, where there is one.
  FILE* stream_at(std::size_t index) const noexcept {
    return reinterpret_cast<FILE*>(own_ + index * file_block_bytes);
  }
  /// A thread has locked it, of whichever rank: what others write to it must not wait anywhere, where whoever
  /// has the lock may wait for them.
  void note_locked(const void* stream) noexcept {
    if (owns(stream)) locked_[index_of(stream)].store(true, std::memory_order_relaxed);
  }
  bool was_locked(const void* stream) const noexcept {
    return owns(stream) && locked_[index_of(stream)].load(std::memory_order_relaxed);
  }

 private:
  /// Blocks of one size.
  struct Blocks {
    std::size_t block_bytes;
    std::byte* next = nullptr;  ///< the first that was never used
    std::byte* end = nullptr;
    std::vector<std::byte*> free;
  };

  static constexpr std::size_t file_block_bytes = 1024;

  std::uintptr_t base_ = 0;
  std::size_t bytes_ = 0;  ///< of all ranks
  std::byte* own_ = nullptr;
  std::size_t own_bytes_ = 0;
  std::mutex lock_;  ///< of the blocks
  std::array<std::atomic<bool>, files_most> locked_{};
  Blocks files_{.block_bytes = file_block_bytes, .next = nullptr, .end = nullptr, .free = {}};
  Blocks directories_{.block_bytes = std::size_t{64} * 1024, .next = nullptr, .end = nullptr, .free = {}};
};

/// Never destroyed: streams are closed until the process is gone.
union KeptStreamMemory {
  constexpr KeptStreamMemory() : memory() {}
  ~KeptStreamMemory() {}
  StreamMemory memory;
};
extern KeptStreamMemory kept_stream_memory;
inline StreamMemory& stream_memory() noexcept {
  return kept_stream_memory.memory;
}

/// While one exists, what the C library allocates on this thread is a stream.
class OpeningStream {
 public:
  OpeningStream() noexcept { ++depth; }
  OpeningStream(const OpeningStream&) = delete;
  OpeningStream& operator=(const OpeningStream&) = delete;
  ~OpeningStream() { --depth; }

  static bool now() noexcept { return depth != 0; }

 private:
  static thread_local int depth;
};

/// Ends the job: the stream is another rank's, and the function is not forwarded. \param function for the
/// message
[[noreturn]] void refuse_foreign_stream(const void* stream, const char* function) noexcept;

/// Gives the descriptor that the C library has opened for a stream the number that the program gets.
/// \returns the stream; null stays
FILE* adopt_stream(FILE* stream) noexcept;

/// Takes a stream's lock, if nobody has it or keeps it for longer than it takes to print. For the program's
/// end. \returns whether it has
bool lock_if_soon(FILE* stream) noexcept;

/// Writes what the streams of this process still hold, and moves files back to where the program has read to,
/// as exit() does: without waiting long for one that
/// another thread is using, for it may do so for ever, in a read from a terminal say.
void flush_streams_at_end() noexcept;

/// The program has said itself how stdout is to be buffered.
bool buffer_of_output_is_chosen() noexcept;

}  // namespace craton::posix
