/// \file
/// Critical sections and the program's locks: mutexes of the space, which go to whom takes them.
///
///     mutexes     unnamed │ atomic │ one a name, found by its address │ the program's locks
///
/// A lock of the program holds the number of its mutex, so finding it costs nothing. A name's place is agreed
/// on in a table at rank 0, of which each rank keeps what it has seen.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "coherence/block.hpp"
#include "fiber/fiber.hpp"
#include "omp/platform.hpp"
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

  Locks(Platform& platform, fabric::RemoteAddress names, fabric::RemoteAddress taken);

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
  void unlock(LockNumber lock, bool publishes);
  /// A lock that its holder may take again. \returns how often it holds it now; 0: it does not
  std::uint32_t lock_nested(LockNumber lock, const Task* holder);
  std::uint32_t try_lock_nested(LockNumber lock, const Task* holder);
  void unlock_nested(LockNumber lock, bool publishes);

 private:
  /// All zero bytes at first.
  struct Nest {
    std::atomic<const Task*> holder;  ///< of this rank
    std::uint32_t depth;
  };

  space::MutexId mutex_of(const void* name);
  void check(LockNumber lock) const;

  Platform& platform_;
  space::Mutexes& mutexes_;
  const fabric::RemoteAddress names_;
  const fabric::RemoteAddress taken_;
  std::array<std::atomic<std::uint64_t>, critical_names_at_most> known_{};  ///< names at rank 0, as seen
  fiber::Mutex free_lock_;
  std::vector<LockNumber> free_;
  coherence::ZeroedArray<Nest> nests_;
};

}  // namespace craton::omp
