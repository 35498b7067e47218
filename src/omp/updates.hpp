/// \file
/// Parts of reductions that threads have put off. Each rank keeps its own in its words; when all have met,
/// rank 0 makes them part of the variables, which nobody else touches at that moment:
///
///     threads:   put_off() ... barrier: all meet ─▶ rank 0: apply(), tells the others ─▶ all go on
///                              end of the region: all gather at rank 0 ─▶ rank 0: apply(), goes on
///
/// A program may also add atomically, and meet the others, to tell a thread that waits for the sum before it
/// comes to the meeting. So what has been put off for a beat is made part of the variable after all: by a
/// thread of its own, as the instruction would have. Whoever claims a rank's parts has them, that thread or
/// rank 0; nothing is put off meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/arithmetic.hpp"
#include "fiber/fiber.hpp"
#include "omp/updates_host.hpp"

namespace craton::omp {

struct Thread;

struct Update {
  std::uint64_t variable;  ///< its address
  std::uint64_t part;
  Arithmetic arithmetic;
};

struct UpdateList {
  static constexpr std::size_t updates_most = 64;
  std::uint64_t count;
  std::array<Update, updates_most> updates;
};

/// A rank's, in its words.
struct PutOff {
  std::uint64_t claim;  ///< Updates::Claim; taken by atomic operations of the fabric, but at rank 0
  UpdateList list;      ///< of whoever has claimed it; unclaimed: of the rank's threads
};

class Updates {
 public:
  /// Where a thread meets the others next.
  enum class Meeting : std::uint8_t { barrier, end };

  /// \param own this rank's
  Updates(UpdatesHost& host, PutOff& own) : host_(host), own_(own) {}

  /// Whether a thread, which is about to meet the others, may put off: it does so in a team of all ranks,
  /// where there is a heartbeat. \param function of Meeting::end: the one that it returns from
  bool may_put_off(const Thread& thread, Meeting meeting, std::uintptr_t function) const noexcept;
  /// Parts of an integer become one; those of a real do not, since that would round otherwise than adding
  /// them one by one. \returns false where there is no room, or what was put off is being done. Threads of
  /// the team. Does not block.
  bool put_off(void* variable, const Arithmetic& arithmetic, std::uint64_t part) noexcept;

  /// By the heartbeat: wakes the thread where something was put off before the last beat.
  void beat() noexcept;
  /// By that thread: does what has been put off. \throws Error
  void do_now();

  // By the last thread of the rank to come to a meeting.

  bool any() const noexcept { return count().load(std::memory_order_acquire) != 0; }
  /// At rank 0, when all have met: takes what all have put off. \throws Error peer_lost
  void apply();
  /// At other ranks: rank 0 has it, if there was any.
  void applied() noexcept;

 private:
  enum Claim : std::uint64_t { unclaimed, by_own_rank, by_first_rank };

  /// Changed with the lock, and by who has the claim.
  std::atomic_ref<std::uint64_t> count() const noexcept { return std::atomic_ref(own_.list.count); }
  std::atomic_ref<std::uint64_t> claim() const noexcept { return std::atomic_ref(own_.claim); }
  bool claim_own(Claim as);
  void give_back() noexcept;

  UpdatesHost& host_;
  PutOff& own_;
  fiber::Mutex lock_;  ///< of the list, while nobody has claimed it
  std::once_flag thread_started_;
  std::atomic<bool> has_no_thread_{false};  ///< it could not be started: nothing is put off
  std::atomic<std::uint32_t> puts_{0};
  std::uint32_t puts_seen_ = 0;  ///< as of the last beat
};

}  // namespace craton::omp
