#include "posix/notifications.hpp"

#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "base/signal_section.hpp"
#include "posix/monitor.hpp"
#include "posix/shared_program.hpp"
#include "posix/signals.hpp"
#include "posix/waits/mutexes.hpp"
#include "vm/thread_scope.hpp"

namespace craton::posix {

namespace {

using Function = void (*)(sigval value);

/// What is to be called, and with what.
struct Notified {
  Function function;
  void* value;

  bool operator<(const Notified& other) const noexcept { return key() < other.key(); }

 private:
  std::pair<std::uintptr_t, std::uintptr_t> key() const noexcept {
    return {reinterpret_cast<std::uintptr_t>(function), reinterpret_cast<std::uintptr_t>(value)};
  }
};

/// One thread's; its end is seen also where pthread_exit or a cancellation ends it.
class NotifiedThread {
 public:
  NotifiedThread() = default;
  NotifiedThread(const NotifiedThread&) = delete;
  NotifiedThread& operator=(const NotifiedThread&) = delete;
  ~NotifiedThread() {
    if (Monitor* const shared = monitor(); shared != nullptr) leave_mutexes(*shared);
  }

 private:
  const vm::ThreadScope scope_;
};

void call_notified(sigval which) {
  const Notified notified = *static_cast<const Notified*>(which.sival_ptr);
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  ::pthread_sigmask(SIG_SETMASK, Mask(&blocked), nullptr);
  const NotifiedThread thread;
  notified.function({.sival_ptr = notified.value});
}

/// The same for good: nobody says when the last call has come, and programs have few of them.
const Notified& kept(const Notified& notified) {
  static constinit std::mutex mutex;
  const SignalSection section;
  const std::lock_guard lock(mutex);
  // Not destroyed: threads of the C library outlive main().
  static auto& all = *new std::set<Notified>;
  return *all.insert(notified).first;
}

}  // namespace

Notification::Notification(const sigevent* event) noexcept : is_there_(event != nullptr) {
  if (!is_there_) return;
  copy_ = *event;
  if (copy_.sigev_notify != SIGEV_THREAD || shared_program() == nullptr) return;
  const Notified& ours =
      kept({.function = event->sigev_notify_function, .value = event->sigev_value.sival_ptr});
  copy_.sigev_notify_function = &call_notified;
  copy_.sigev_value.sival_ptr = const_cast<Notified*>(&ours);
}

}  // namespace craton::posix
