/// \file
/// Private memory that stands for the program's in system calls.
///
/// The kernel fails with EFAULT, or stops short, where a page of shared memory is not accessible at that
/// moment; no fault of ours happens then. So no system call is given shared memory: names and structures are
/// copied before, and what the kernel changed is put back after.
///
///     program ──▶ stat(path, status) ──▶ real stat(Name(path), Result(status)) ──▶ status = what the kernel
///     wrote
///
/// Why not touch the pages and call: another thread of the rank may release or acquire at any time, also
/// while the call blocks for hours, and what the kernel has taken by then (a datagram, a child's status)
/// would be lost.
///
/// Memory of which the kernel can always use every byte is passed as it is: private memory, and this rank's
/// own stacks. So the usual call costs a look at the address.
///
/// Threads: any; signal handlers as well.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "posix/real.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

/// Whether the kernel may fail to use what is there.
inline bool may_fault(const void* address) noexcept {
  SharedProgram* const program = shared_program();
  return program != nullptr && program->may_fault(address);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type and two lists
/// Defines what programs get as `name`: a call of the C library's, with private memory where `arguments` say
/// so.
#define CRATON_CALL(type, name, parameters, arguments)  \
  [[gnu::visibility("default")]] type name parameters { \
    return CRATON_REAL(name) arguments;                 \
  }
// NOLINTEND(bugprone-macro-parentheses)

/// So much of a long transfer goes through private memory at a time.
inline constexpr std::size_t piece_bytes = std::size_t{256} * 1024;
/// Larger buffers are not made for calls that must be one operation.
inline constexpr std::size_t at_once_bytes_most = std::size_t{16} * 1024 * 1024;

/// Whether each transfer is a message, which no one may split.
bool keeps_messages(int fd) noexcept;
/// How much of `bytes` one call for a socket receives: of a stream it may be a part.
std::size_t received_at_once(int fd, std::size_t bytes, int flags) noexcept;

/// What the kernel uses of an address of a socket that is told to have so many bytes.
inline std::size_t address_bytes(socklen_t told) noexcept {
  if (static_cast<int>(told) < 0) return 0;  // which it refuses
  return told < sizeof(sockaddr_storage) ? told : sizeof(sockaddr_storage);
}

/// Private memory for the length of a call. Its content is not set. Aligned for O_DIRECT.
class PrivateBuffer {
 public:
  enum class Life : std::uint8_t {
    call,
    /// Of the buffer only: nothing else is ever written to its pages, which the kernel may still read after
    /// the call (MSG_ZEROCOPY).
    once
  };
  explicit PrivateBuffer(std::size_t bytes, Life life = Life::call) noexcept;
  PrivateBuffer(const PrivateBuffer&) = delete;
  PrivateBuffer& operator=(const PrivateBuffer&) = delete;
  ~PrivateBuffer();

  /// Null where there is no memory; errno is ENOMEM then.
  std::byte* data() noexcept { return begin_; }

 private:
  static constexpr std::size_t small_bytes = 4096;
  alignas(512) std::byte small_[small_bytes];
  std::byte* begin_ = small_;
  std::size_t mapped_bytes_ = 0;  ///< of its own, not the thread's
  bool is_threads_ = false;
};

/// A name of a file, or another text of which the kernel looks at no more than PATH_MAX bytes.
class Name {
 public:
  explicit Name(const char* text) noexcept : text_(text) {
    if (may_fault(text)) copy();
  }
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;

  operator const char*() const noexcept { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  void copy() noexcept;

  const char* text_;
  char copy_[PATH_MAX + 1];
};

/// A text of any length.
class Text {
 public:
  explicit Text(const char* text) noexcept;
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  operator const char*() const noexcept { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  PrivateBuffer copy_;
  const char* text_;
};

/// Copies what differs between what the kernel was given and what it left.
void put_back(void* original, const void* before, const void* now, std::size_t bytes) noexcept;

/// A structure that the kernel reads.
template <typename T>
class Value {
 public:
  explicit Value(const T* original) noexcept : used_(original) {
    if (!may_fault(original)) return;
    std::memcpy(copy_, original, sizeof(T));
    used_ = reinterpret_cast<const T*>(copy_);
  }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  operator const T*() const noexcept { return used_; }  // NOLINT(google-explicit-constructor)

 private:
  const T* used_;
  alignas(T) std::byte copy_[sizeof(T)];
};

/// A structure that the kernel writes, perhaps after reading it.
template <typename T>
class Result {
 public:
  explicit Result(T* original) noexcept : original_(original), used_(original) {
    if (!may_fault(original)) return;
    std::memcpy(before_, original, sizeof(T));
    std::memcpy(now_, before_, sizeof(T));
    used_ = reinterpret_cast<T*>(now_);
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    if (used_ != original_) put_back(original_, before_, now_, sizeof(T));
  }

  operator T*() const noexcept { return used_; }  // NOLINT(google-explicit-constructor)

 private:
  T* const original_;
  T* used_;
  alignas(T) std::byte before_[sizeof(T)];
  alignas(T) std::byte now_[sizeof(T)];
};

/// As Value, of a number of bytes.
class Values {
 public:
  Values(const void* original, std::size_t bytes) noexcept;
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  template <typename T>
  operator const T*() const noexcept {  // NOLINT(google-explicit-constructor)
    return static_cast<const T*>(used_);
  }

 private:
  PrivateBuffer copy_;
  const void* used_;
};

/// As Result, of a number of bytes.
class Results {
 public:
  Results(void* original, std::size_t bytes) noexcept;
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results();

  template <typename T>
  operator T*() const noexcept {  // NOLINT(google-explicit-constructor)
    return static_cast<T*>(used_);
  }

 private:
  void* const original_;
  const std::size_t bytes_;
  PrivateBuffer copies_;  ///< what was there before, then what the kernel uses
  void* used_;
};

/// Pieces of memory, of which some may be shared.
class Pieces {
 public:
  Pieces(const iovec* pieces, int count) noexcept;

  bool may_fault() const noexcept { return may_fault_; }
  std::size_t bytes() const noexcept { return bytes_; }
  void gather(void* to, std::size_t offset, std::size_t bytes) const noexcept;
  void scatter(const void* from, std::size_t offset, std::size_t bytes) const noexcept;

 private:
  template <typename Copy>
  void for_part(std::size_t offset, std::size_t bytes, Copy copy) const noexcept;

  const iovec* pieces_;
  int count_;
  std::size_t bytes_ = 0;
  bool may_fault_ = false;
};

/// Makes shared pages accessible: for what only the kernel knows the length of, where a failed call may be
/// repeated. Private memory is left alone.
void touch(const void* begin, std::size_t bytes, bool write) noexcept;
/// All of a list that a null ends, and the texts that it points to.
void touch_texts(const char* const* list) noexcept;

}  // namespace craton::posix
