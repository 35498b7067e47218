/// \file
/// Condition variables (dissertation, section 5.2.4): no spurious wake-ups, notified in the order of waiting.
#pragma once

#include "fiber/mutex.hpp"
#include "fiber/spin_lock.hpp"
#include "fiber/wait_list.hpp"

namespace craton::fiber {

template <System S>
class BasicCondition {
 public:
  /// Unlocks, waits until notified, and locks again. \param mutex held by the caller
  template <typename Lock>
  void wait(Lock& mutex) {
    typename WaitList<S>::Node node;
    suspend<S>([this, &node, &mutex](Handle self) {
      Lock* const locked = &mutex;
      node.handle = self;
      lock_.lock();
      waiting_.append(node);
      lock_.unlock();  // from here on the caller may be notified and be gone
      locked->unlock();
      return true;
    });
    mutex.lock();
  }
  template <typename Lock, typename Predicate>
  void wait(Lock& mutex, Predicate&& predicate) {
    while (!predicate()) wait(mutex);
  }
  /// With the mutex or without.
  void notify_one() noexcept {
    lock_.lock();
    const auto* const first = waiting_.take_first();
    const Handle handle = first != nullptr ? static_cast<Handle>(first->handle) : nobody;
    lock_.unlock();
    if (handle != nobody) resume<S>(handle);
  }
  void notify_all() noexcept {
    lock_.lock();
    auto* const all = waiting_.take_all();
    lock_.unlock();
    WaitList<S>::resume_all(all);
  }

 private:
  SpinLock<S> lock_;
  WaitList<S> waiting_;
};

}  // namespace craton::fiber
