/// \file
/// A lock for a few instructions that do not suspend (fiber::SpinLock), and the places where the simulator
/// lets other threads of the rank run. On a machine they run anywhere; what they can see of each other they
/// see where a lock is taken and where a word that others read is stored, so a switch at these places stands
/// for one anywhere between them.
#pragma once

#include "fiber/spin_lock.hpp"
#include "fiber/system.hpp"

namespace craton::coherence {

/// For tests, of one kernel thread: `run`, if it is set, is called by interleave().
struct Interleaving {
  using Run = void (*)(void* context) noexcept;
  static inline Run run = nullptr;
  static inline void* context = nullptr;
  static inline unsigned locks_held = 0;  ///< nobody is let run over one: who waits for it would not give way
};

/// Others may run here.
inline void interleave() noexcept {
  if (Interleaving::run != nullptr && Interleaving::locks_held == 0) [[unlikely]]
    Interleaving::run(Interleaving::context);
}

class StateLock {
 public:
  void lock() noexcept {
    if (Interleaving::run != nullptr) [[unlikely]] {
      interleave();
      ++Interleaving::locks_held;
    }
    lock_.lock();
  }
  void unlock() noexcept {
    lock_.unlock();
    if (Interleaving::run != nullptr) [[unlikely]]
      --Interleaving::locks_held;
  }

 private:
  fiber::SpinLock<fiber::NativeSystem> lock_;
};

class StateGuard {
 public:
  explicit StateGuard(StateLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;
  ~StateGuard() { lock_.unlock(); }

 private:
  StateLock& lock_;
};

}  // namespace craton::coherence
