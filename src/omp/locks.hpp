/// \file
/// Critical sections and the program's locks: mutexes of the space, which go to whom takes them.
///
///     mutexes     unnamed │ atomic │ of the list │ one a name, found by its address │ the program's locks
///
/// A lock of the program holds the number of its mutex, so finding it costs nothing. Each rank has some free
/// numbers; those that it destroys more locks than it makes has too many of go to a list at rank 0. A name's
/// place is agreed on in a table at rank 0, of which each rank keeps what it has seen.
///
/// Programs copy locks, as objects in a container that grows, and destroy the original, which for GCC's
/// library changes nothing. The copy has the number, so that it is right until another lock gets that; so a
/// number that was destroyed rests for long, and destroying it again meanwhile does nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "coherence/block.hpp"
#include "fiber/fiber.hpp"
#include "omp/lock_host.hpp"
#include "omp/team_host.hpp"
#include "omp/words.hpp"
#include "space/mutexes.hpp"

namespace craton::omp {

struct Task;

/// As the program sees them: an int (omp_lock_t), or the first bytes of an omp_nest_lock_t.
using LockNumber = std::uint32_t;

class Locks {
 public:
  /// Names that no program has.
  static constexpr const void* unnamed = nullptr;
  static const void* atomic() noexcept;

  Locks(TeamHost& team, LockHost& host);

  /// Of all mutexes, those that are no lock of the program's: three and one for each name.
  static constexpr std::uint32_t mutexes_kept = 3 + critical_names_at_most;

  /// Of the list, which lies behind rank 0's words, where a space has so many mutexes.
  static constexpr std::size_t list_bytes(std::size_t mutexes) noexcept {
    return mutexes * sizeof(LockNumber);
  }

  // Any thread; all block for the network, what locks for the lock. \throws Error peer_lost,
  // out_of_resources

  /// \param name the address by which the program names it \param publishes whether another rank may take it
  /// before this rank's next release
  void lock_critical(const void* name);
  void unlock_critical(const void* name, bool publishes);

  LockNumber make();
  void destroy(LockNumber lock);
  void lock(LockNumber lock);
  bool try_lock(LockNumber lock);
  /// \returns false if no thread of this rank holds it: see RemoteUnlocks
  [[nodiscard]] bool unlock(LockNumber lock, bool publishes);
  /// The same where the caller is none of the program's threads, which have output.
  void unlock_for_another(LockNumber lock);
  /// By a thread of this rank. Does not block.
  bool is_held(LockNumber lock) const noexcept {
    return states_[lock].is_held.load(std::memory_order_relaxed);
  }
  /// A lock that its holder may take again. \returns how often it holds it now; 0: it does not
  std::uint32_t lock_nested(LockNumber lock, const Task* holder);
  std::uint32_t try_lock_nested(LockNumber lock, const Task* holder);
  void unlock_nested(LockNumber lock, bool publishes);

 private:
  /// All zero bytes at first.
  struct State {
    std::atomic<const Task*> holder;  ///< of this rank; of a nested lock, as is the depth
    std::uint32_t depth;
    std::atomic<bool> is_held;  ///< by this rank; of a simple one
    bool is_free;               ///< destroyed by this rank, and still its own
  };

  space::MutexId mutex_of(const void* name);
  std::uint64_t given();
  void take_from_list();
  void take_new();
  void give_to_list();
  void check(LockNumber lock) const;
  void unlock_mutex(space::MutexId mutex, bool publishes);

  TeamHost& team_;
  LockHost& host_;
  const std::uint32_t mutex_count_;
  const std::uint32_t resting_;  ///< free ones that are used only where there are no others
  std::array<std::atomic<std::uint64_t>, critical_names_at_most> known_{};  ///< names at rank 0, as seen
  fiber::Mutex free_lock_;
  std::vector<LockNumber> fresh_;  ///< that no lock had, or one of long ago
  std::deque<LockNumber> free_;    ///< destroyed by this rank, the latest at the end
  coherence::ZeroedArray<State> states_;
};

}  // namespace craton::omp
