#include "posix/streams.hpp"

#include <fmt/format.h>
#include <stdio_ext.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <new>

#include "posix/descriptors.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

// NOLINTBEGIN(readability-identifier-naming): the C library's list of its streams, which no header has any
// more
extern "C" {
struct _IO_iter;
_IO_iter* _IO_iter_begin();
_IO_iter* _IO_iter_end();
_IO_iter* _IO_iter_next(_IO_iter* at);
FILE* _IO_iter_file(_IO_iter* at);
void _IO_list_lock();
void _IO_list_unlock();
}
// NOLINTEND(readability-identifier-naming)

namespace craton::posix {

namespace {

constexpr std::size_t file_bytes = 16 * mebi;  ///< for StreamMemory::files_most
constexpr std::size_t part_bytes = 64 * mebi;  ///< the rest is for 768 directories

/// Free in usual processes, away from where the kernel puts what has no address of its own, and from the
/// space.
constexpr std::array<std::uintptr_t, 4> candidate_bases = {0x1a0000000000, 0x5a0000000000, 0x4a0000000000,
                                                           0x3a0000000000};

bool reserve(std::uintptr_t base, std::size_t bytes) noexcept {
  void* const wished = reinterpret_cast<void*>(base);
  void* const got = ::mmap(wished, bytes, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got == wished) return true;
  ::munmap(got, bytes);
  return false;
}

}  // namespace

constinit thread_local int OpeningStream::depth = 0;

constinit KeptStreamMemory kept_stream_memory;

void StreamMemory::share(space::Agreement& agreement, fabric::Rank rank) {
  for (const std::uintptr_t base : candidate_bases) {
    const std::size_t all = agreement.gather(0).size() * part_bytes;
    auto* const own = reinterpret_cast<std::byte*>(base + rank * part_bytes);
    const bool is_reserved = reserve(base, all);
    const bool is_mine = is_reserved && ::mprotect(own, part_bytes, PROT_READ | PROT_WRITE) == 0;
    const std::vector<std::uint64_t> had = agreement.gather(is_mine ? 1 : 0);
    if (std::find(had.begin(), had.end(), 0) != had.end()) {
      if (is_reserved) ::munmap(reinterpret_cast<void*>(base), all);
      continue;
    }
    files_.next = own;
    files_.end = directories_.next = own + file_bytes;
    directories_.end = own + part_bytes;
    base_ = base;
    bytes_ = all;
    own_ = own;
    own_bytes_ = part_bytes;
    return;
  }
}

void* StreamMemory::allocate(std::size_t bytes) noexcept {
  if (own_ == nullptr || bytes > directories_.block_bytes) return nullptr;
  Blocks& blocks = bytes <= files_.block_bytes ? files_ : directories_;
  const std::lock_guard lock(lock_);
  if (!blocks.free.empty()) {
    std::byte* const block = blocks.free.back();
    blocks.free.pop_back();
    locked_[index_of(block)].store(false, std::memory_order_relaxed);
    return block;
  }
  if (static_cast<std::size_t>(blocks.end - blocks.next) < blocks.block_bytes) return nullptr;
  std::byte* const block = blocks.next;
  blocks.next += blocks.block_bytes;
  return block;
}

void StreamMemory::free(void* stream) noexcept {
  auto* const block = static_cast<std::byte*>(stream);
  const std::lock_guard lock(lock_);
  (block < own_ + file_bytes ? files_ : directories_).free.push_back(block);
}

fabric::Rank StreamMemory::owner(const void* address) const noexcept {
  return static_cast<fabric::Rank>((reinterpret_cast<std::uintptr_t>(address) - base_) / part_bytes);
}

FILE* adopt_stream(FILE* stream) noexcept {
  if (stream != nullptr) stream->_fileno = descriptor_made(stream->_fileno);
  return stream;
}

bool lock_if_soon(FILE* stream) noexcept {
  constexpr int looks_most = 20;
  for (int look = 0; look < looks_most; ++look) {
    if (::ftrylockfile(stream) == 0) return true;
    const timespec moment{.tv_sec = 0, .tv_nsec = 500'000};
    ::nanosleep(&moment, nullptr);
  }
  return false;
}

void flush_streams_at_end() noexcept {
  ::_IO_list_lock();
  for (_IO_iter* at = ::_IO_iter_begin(); at != ::_IO_iter_end(); at = ::_IO_iter_next(at)) {
    FILE* const stream = ::_IO_iter_file(at);
    const bool reads_ahead = stream->_IO_read_ptr < stream->_IO_read_end;
    if (::__fpending(stream) == 0 && !reads_ahead) continue;
    const bool is_locked = lock_if_soon(stream);
    if (is_locked || !reads_ahead) static_cast<void>(::fflush_unlocked(stream));
    if (is_locked) ::funlockfile(stream);
  }
  ::_IO_list_unlock();
}

void refuse_foreign_stream(const void* stream, const char* function) noexcept {
  SharedProgram* const program = shared_program();
  program->fail(fmt::format(
      "{}(): the stream was opened on rank {}, and only threads of that rank can use it so; open the file in "
      "the threads that use it, or use it outside of parallel regions",
      function, stream == stdin ? 0 : stream_memory().owner(stream)));
}

}  // namespace craton::posix
