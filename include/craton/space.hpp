/// \file
/// The coherent space for C++17 and later: thin owners over space.h, which says what each thing means. Errors
/// are craton::StatusError. Header only; link with libcraton.
#ifndef CRATON_SPACE_HPP
#define CRATON_SPACE_HPP

#include <craton/space.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace craton {

/// A craton function has failed: what() is craton_last_error().
class StatusError : public std::runtime_error {
 public:
  explicit StatusError(craton_status status) : std::runtime_error(craton_last_error()), status_(status) {}
  craton_status status() const noexcept { return status_; }

 private:
  craton_status status_;
};

/// \throws StatusError unless the status is CRATON_OK
inline void check(craton_status status) {
  if (status != CRATON_OK) throw StatusError(status);
}

/// The job and its space, from the constructor to the destructor. One a process. If it is destroyed while an
/// exception is under way, it does not wait for the other ranks, and the job ends as one that has failed.
class Session {
 public:
  /// Collective; blocks. \throws StatusError
  explicit Session(const craton_space_options& options = CRATON_SPACE_OPTIONS_INIT) {
    check(craton_init());
    check(craton_space_open(&options));
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  /// Collective; blocks.
  ~Session() {
    if (std::uncaught_exceptions() == exceptions_) craton_finalize();
  }

  int rank() const noexcept { return craton_rank(); }
  int size() const noexcept { return craton_size(); }

 private:
  int exceptions_ = std::uncaught_exceptions();
};

/// Blocks until all threads of all ranks are here. \throws StatusError
inline void barrier(std::uint32_t site = 0) {
  check(craton_space_barrier(site));
}

/// What can lie in shared memory: ranks see its bytes, and no constructor or destructor of it is run.
template <typename T>
inline constexpr bool is_shareable = std::is_trivially_copyable_v<T>&& std::is_trivially_destructible_v<T>;

/// A segment of `count` elements, all zero bytes at first. Does not own them: segments live until the end.
template <typename T>
class Array {
  static_assert(is_shareable<T>, "elements are seen by other ranks as bytes");
  static_assert(alignof(T) <= 4096, "segments are aligned to 4096 bytes");

 public:
  /// Collective; blocks. \param options all but its `bytes` \throws StatusError
  explicit Array(std::size_t count, craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT)
      : count_(count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    options.bytes = count * sizeof(T);
    void* data = nullptr;
    check(craton_segment_create(&options, &data));
    data_ = static_cast<T*>(data);
  }

  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  T& operator[](std::size_t index) const noexcept { return data_[index]; }
  T* begin() const noexcept { return data_; }
  T* end() const noexcept { return data_ + count_; }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

/// A mutex of all threads of all ranks, for std::lock_guard and std::unique_lock. A value: copies are the
/// same mutex, and it may lie in shared memory. Made by create().
class Mutex {
 public:
  Mutex() = default;
  explicit Mutex(craton_mutex number) noexcept : number_(number) {}
  /// A new one. Any thread of any rank. \throws StatusError
  static Mutex create() {
    craton_mutex number = 0;
    check(craton_mutex_create(&number));
    return Mutex(number);
  }
  /// A new one, the same on all ranks. Collective; blocks. \throws StatusError
  static Mutex create_together() {
    craton_mutex number = 0;
    check(craton_mutex_create_together(&number));
    return Mutex(number);
  }

  void lock() { check(craton_mutex_lock(number_)); }
  bool try_lock() {
    int locked = 0;
    check(craton_mutex_trylock(number_, &locked));
    return locked != 0;
  }
  void unlock() { check(craton_mutex_unlock(number_)); }
  craton_mutex number() const noexcept { return number_; }

 private:
  craton_mutex number_ = 0;
};

/// An object of the shared heap, zero or a copy of `value` at first. \throws StatusError, std::bad_alloc
template <typename T>
T* make_shared_object(const T& value = T()) {
  static_assert(is_shareable<T>, "objects are seen by other ranks as bytes");
  static_assert(alignof(T) <= 16 || (alignof(T) <= 64 && sizeof(T) >= 64), "see craton_alloc");
  void* const memory = craton_alloc(sizeof(T));
  if (memory == nullptr) throw StatusError(CRATON_OUT_OF_RESOURCES);
  return new (memory) T(value);
}

/// For standard containers whose elements lie in the shared heap. The container itself may lie there too.
template <typename T>
class HeapAllocator {
 public:
  using value_type = T;
  HeapAllocator() = default;
  template <typename U>
  HeapAllocator(const HeapAllocator<U>& /*other*/) noexcept {}

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= 16, "see craton_alloc");
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    void* const memory = craton_alloc(count * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* pointer, std::size_t /*count*/) noexcept { craton_free(pointer); }

  friend bool operator==(const HeapAllocator& /*one*/, const HeapAllocator& /*other*/) { return true; }
  friend bool operator!=(const HeapAllocator& /*one*/, const HeapAllocator& /*other*/) { return false; }
};

/// A word that all ranks update atomically. Lies in shared memory, aligned to its size; its bytes are those
/// of the number. \throws StatusError, all of them
template <typename T>
class AtomicWord {
  static_assert(std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>, "32 or 64 bits");

 public:
  T fetch_add(T addend) {
    T previous = 0;
    if constexpr (sizeof(T) == 8)
      check(craton_atomic_fetch_add64(&word_, addend, &previous));
    else
      check(craton_atomic_fetch_add32(&word_, addend, &previous));
    return previous;
  }
  T exchange(T desired) {
    T previous = 0;
    if constexpr (sizeof(T) == 8)
      check(craton_atomic_exchange64(&word_, desired, &previous));
    else
      check(craton_atomic_exchange32(&word_, desired, &previous));
    return previous;
  }
  bool compare_exchange(T& expected, T desired) {
    int exchanged = 0;
    if constexpr (sizeof(T) == 8)
      check(craton_atomic_compare_exchange64(&word_, &expected, desired, &exchanged));
    else
      check(craton_atomic_compare_exchange32(&word_, &expected, desired, &exchanged));
    return exchanged != 0;
  }
  T load() const {
    T value = 0;
    if constexpr (sizeof(T) == 8)
      check(craton_atomic_load64(&word_, &value));
    else
      check(craton_atomic_load32(&word_, &value));
    return value;
  }
  void store(T value) {
    if constexpr (sizeof(T) == 8)
      check(craton_atomic_store64(&word_, value));
    else
      check(craton_atomic_store32(&word_, value));
  }

 private:
  T word_;
};

/// craton_thread_enter while it exists: the first thing in a thread that touches shared memory.
class ThreadScope {
 public:
  ThreadScope() { check(craton_thread_enter()); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
  ~ThreadScope() { craton_thread_leave(); }
};

/// craton_pin while it exists.
class Pin {
 public:
  Pin(const void* begin, std::size_t bytes) : begin_(begin), bytes_(bytes) {
    check(craton_pin(begin, bytes));
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  ~Pin() { craton_unpin(begin_, bytes_); }

 private:
  const void* begin_;
  std::size_t bytes_;
};

}  // namespace craton

#endif
