/// \file
/// User-level threads (dissertation, chapter 5), on the machine as it is. The whole library is headers: this
/// folder, base/clock.hpp, base/futex.hpp, base/kept_errno.hpp and base/function_ref.hpp are all that it
/// needs.
///
///   fiber::Runtime runtime({.workers = 2});
///   const int result = runtime.run([] {
///     int left = 0;
///     auto child = fiber::fork([&] { left = f(1); });
///     const int right = f(2);
///     child.join();
///     return left + right;
///   });
///
/// Whatever waits here (Mutex, Condition, Barrier, Semaphore, Latch, Future, Waiter, join) works the same
/// from a fiber, from a kernel thread, and from both at once.
#pragma once

#include <cstdint>

#include "fiber/barrier.hpp"
#include "fiber/condition.hpp"
#include "fiber/delegator.hpp"
#include "fiber/latch.hpp"
#include "fiber/local.hpp"
#include "fiber/mutex.hpp"
#include "fiber/queues.hpp"
#include "fiber/runtime.hpp"
#include "fiber/semaphore.hpp"
#include "fiber/waiter.hpp"

namespace craton::fiber {

using Runtime = BasicRuntime<NativeSystem, WorkStealing<NativeSystem>>;
using FifoRuntime = BasicRuntime<NativeSystem, Fifo<NativeSystem>>;
using SeededRuntime = BasicRuntime<NativeSystem, Seeded<NativeSystem>>;
using Join = Runtime::Join;

using KernelThreadScope = BasicKernelThreadScope<NativeSystem>;
using Suspended = BasicSuspended<NativeSystem>;
using Waiter = BasicWaiter<NativeSystem>;
using Mutex = BasicMutex<NativeSystem>;
using McsMutex = BasicMcsMutex<NativeSystem>;
using Condition = BasicCondition<NativeSystem>;
using Barrier = BasicBarrier<NativeSystem>;
using Semaphore = BasicSemaphore<NativeSystem>;
using Gate = BasicGate<NativeSystem>;
using Latch = BasicLatch<NativeSystem>;
template <typename T>
using Future = BasicFuture<T, NativeSystem>;
template <typename Command>
using RingDelegator = BasicRingDelegator<NativeSystem, Command>;
template <typename Command>
using ListDelegator = BasicListDelegator<NativeSystem, Command>;

/// See BasicRuntime::fork. From a fiber of a Runtime.
template <typename Body>
Join fork(Body&& body, const char* name = nullptr) {
  return Runtime::fork(std::forward<Body>(body), name);
}

/// Lets other fibers of the caller's runtime run. Nothing on a kernel thread.
inline void yield() {
  if (Worker<NativeSystem>* const worker = current_worker<NativeSystem>()) worker->yield();
}

/// Calls `body(i)` for `first <= i < last`, in pieces of at most `grain`, on the workers of the calling
/// fiber's runtime. Returns when all are done. \throws what a body threw first, once all others are done
template <typename Index, typename Body>
void parallel_for(Index first, Index last, Index grain, const Body& body) {
  if (last - first <= grain) {
    for (; first < last; ++first) body(first);
    return;
  }
  const Index middle = first + (last - first) / 2;
  Join left = fork([&] { parallel_for(first, middle, grain, body); });
  parallel_for(middle, last, grain, body);
  left.join();
}

}  // namespace craton::fiber
