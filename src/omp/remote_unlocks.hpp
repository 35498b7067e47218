/// \file
/// Locks that a thread of another rank than their holder's unlocks, as programs do whose locks are of their
/// own making: of readers and writers, where the last reader unlocks what the first has locked (SoX). OpenMP
/// does not allow it, and GCC's library does it.
///
///     who unlocks: publishes ── find_holder ──▶ all other ranks
///                            ◀── about_lock ──
///                            ── unlock ──▶ the holder: its thread learns what was published, unlocks
///     goes on                ◀── about_lock ──
///
/// A mutex of the space is unlocked where it is held, and that takes the network; so a rank has a thread for
/// it, from the first time on. The holder is found first, since nobody else may get the lock meanwhile: of an
/// order to all it might come to the next holder, too. It costs two messages a rank, and two more.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "fabric/types.hpp"
#include "fiber/fiber.hpp"
#include "omp/lock_host.hpp"
#include "omp/locks.hpp"
#include "omp/message.hpp"
#include "omp/team_host.hpp"

namespace craton::omp {

class RemoteUnlocks {
 public:
  RemoteUnlocks(TeamHost& team, LockHost& host, Locks& locks) : team_(team), host_(host), locks_(locks) {}

  /// Unlocks a lock that no thread of this rank holds; nothing happens if none of another does. Any thread;
  /// blocks. \throws Error peer_lost
  void unlock(LockNumber lock);
  static bool is_about(const Message& message) noexcept {
    return message.kind == Message::Kind::find_holder || message.kind == Message::Kind::unlock ||
           message.kind == Message::Kind::about_lock;
  }
  /// In a handler.
  void arrived(fabric::Rank source, const Message& message) noexcept;
  /// Unlocks what others have told this rank to. By LockHost's thread; blocks. \throws Error peer_lost
  void do_ordered();

 private:
  static constexpr fabric::Rank nobody = ~fabric::Rank{0};
  struct Order {
    fabric::Rank by;
    Message message;
  };
  void ask(Message::Kind kind, LockNumber lock, fabric::Rank first, fabric::Rank end);
  void answer(const Order& order, bool holds) noexcept;

  TeamHost& team_;
  LockHost& host_;
  Locks& locks_;
  fiber::Mutex asking_;  ///< one question at a time
  std::atomic<fabric::Rank> answers_due_{0};
  std::atomic<fabric::Rank> holder_{nobody};

  std::mutex lock_;  ///< of the orders
  std::deque<Order> orders_;
  bool has_thread_ = false;
};

}  // namespace craton::omp
