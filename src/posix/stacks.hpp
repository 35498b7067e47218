/// \file
/// Kernel threads on stacks that all ranks can read (space/owned_segment.hpp). The C library puts a thread's
/// thread-local variables on top of its stack, so these have addresses of their own in the whole job as well.
///
///     part of a rank:  │ first thread's │ slot │ slot │ ... │     the lowest pages of each are its guard
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "posix/needs.hpp"
#include "space/owned_segment.hpp"

namespace craton::posix {

/// As the loader would make them: with code where the program or a library asks for it (PT_GNU_STACK).
vm::Contents contents_of_stacks() noexcept;

class Stacks {
 public:
  Stacks(space::OwnedSegment& segment, fabric::Rank rank, const StackSizes& sizes);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  using Body = void* (*)(void* argument);
  /// Starts the program's first thread, once. \throws Error out_of_resources
  void start_first(Body body, void* argument);
  /// As pthread_create, which it calls, but for the stack: that is always one of ours.
  int start(pthread_t* thread, const pthread_attr_t* attributes, Body body, void* argument);
  /// A thread of the program has ended. The C library ends main's where pthread_exit() is called there, with
  /// no frame of ours to see it: who called main says so.
  static void thread_ended() noexcept;
  /// By who has started a thread that never ends: it is none that the process stays for.
  static void forget_thread() noexcept;
  /// Threads of the program that run on this rank: main, where it is rank 0, and those that it has started.
  std::size_t running_threads() const noexcept;
  /// How many there have ever been.
  std::uint64_t ever() const noexcept;
  /// Says once where a thread is to have a larger stack than threads have, here or on other ranks.
  void tell_smaller(const pthread_attr_t& asked) noexcept;
  /// The thread has been joined, or will never be: its stack is free when it has ended.
  void let_go(pthread_t thread);

 private:
  struct Slot {
    pthread_t thread = 0;
    std::atomic<pid_t> kernel_thread{0};  ///< 0: none yet
    bool used = false;
    bool let_go = false;  ///< nobody will join it
  };
  struct Entry {
    Body body;
    void* argument;
    std::atomic<pid_t>* kernel_thread;
    std::optional<sigset_t> mask{};           ///< that its attributes name
    std::atomic<std::uint32_t> may_begin{0};  ///< a futex; its creator knows it now
  };

  static void* enter(void* entry);
  static void let_begin(Entry& entry) noexcept;
  /// Ends the process: the thread whose guard this is has used up its stack.
  static void overflowed(void* self, const std::byte* page) noexcept;
  std::byte* slot_stack(std::size_t number) const noexcept {
    return part_ + sizes_.first_bytes + number * sizes_.thread_bytes;
  }
  Slot* take_slot(std::size_t& number);

  std::byte* const part_;
  const StackSizes sizes_;
  std::size_t not_counted_ = 0;  ///< threads that are the runtime's, not the program's
  std::mutex lock_;              ///< of the slots
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace craton::posix
