/// \file
/// Fiber-local storage: thread_local would be the kernel thread's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <stdexcept>

#include "fiber/worker.hpp"

namespace craton::fiber {

/// How many Locals a program may have.
inline constexpr std::size_t max_locals = 64;

/// The values of one fiber.
class LocalValues {
 public:
  LocalValues() = default;
  LocalValues(const LocalValues&) = delete;
  LocalValues& operator=(const LocalValues&) = delete;
  ~LocalValues() {
    for (const Value& value : values_) {
      if (value.object != nullptr) value.destroy(value.object);
    }
  }

  struct Value {
    void* object = nullptr;
    void (*destroy)(void*) = nullptr;
  };
  Value& operator[](std::size_t key) noexcept { return values_[key]; }

 private:
  std::array<Value, max_locals> values_;
};

/// A T for every fiber, made on first use and destroyed when the fiber ends. On a kernel thread that runs no
/// fiber there is none.
template <typename T, System S = NativeSystem>
class Local {
 public:
  /// \throws std::length_error
  Local() : key_(keys().fetch_add(1, std::memory_order_relaxed)) {
    if (key_ >= max_locals)
      throw std::length_error("more than 64 fiber-local variables (craton::fiber::max_locals)");
  }
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  ~Local() = default;

  /// The calling fiber's. \throws std::bad_alloc, what T's constructor does, std::logic_error outside a fiber
  T& operator*() {
    Worker<S>* const worker = current_worker<S>();
    if (worker == nullptr) throw std::logic_error("a fiber-local variable is used outside a fiber");
    Fiber<S>& fiber = worker->running();
    if (fiber.locals == nullptr) fiber.locals = new LocalValues;
    LocalValues::Value& value = (*fiber.locals)[key_];
    if (value.object == nullptr) {
      value.object = new T();
      value.destroy = [](void* object) { delete static_cast<T*>(object); };
    }
    return *static_cast<T*>(value.object);
  }
  T* operator->() { return &**this; }

 private:
  static std::atomic<std::size_t>& keys() noexcept {
    static std::atomic<std::size_t> used{0};
    return used;
  }
  const std::size_t key_;
};

}  // namespace craton::fiber
