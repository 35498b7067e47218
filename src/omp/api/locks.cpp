/// \file
/// Locks. An omp_lock_t is an int; of an omp_nest_lock_t, which Fortran gives 8 bytes, the first int is used.
#include <atomic>

#include "omp/api/api.hpp"
#include "omp/constructs.hpp"

namespace craton::omp::api {

namespace {

/// Runs `body(runtime, locks)`. \returns what it returns; `otherwise` before the runtime has started: there
/// is one thread then, which needs no locks
template <typename Result, typename Body>
Result with_locks(Result otherwise, const Body& body) {
  Runtime* const here = runtime();
  if (here == nullptr) return otherwise;
  return here->guard([&] { return static_cast<Result>(body(*here, here->locks())); });
}
template <typename Body>
void with_locks(const Body& body) {
  if (Runtime* const here = runtime()) here->guard([&] { body(*here, here->locks()); });
}

/// Its address names the critical section in which a lock gets its number late.
constexpr char numbering = 0;

/// Of a lock that is about to be set. One that is 0 was destroyed, never initialised, or initialised before
/// the runtime had started: for GCC's library it is an unlocked one, so that it gets a number now.
LockNumber number_of(LockNumber* lock) {
  const std::atomic_ref<LockNumber> word(*lock);
  if (const LockNumber number = word.load(std::memory_order_relaxed); number != 0) return number;
  lock_critical(&numbering);
  LockNumber number = word.load(std::memory_order_relaxed);
  if (number == 0) {
    number = runtime()->locks().make();
    word.store(number, std::memory_order_relaxed);
  }
  unlock_critical(&numbering);
  return number;
}

}  // namespace

CRATON_OMP void omp_init_lock(LockNumber* lock) {
  *lock = with_locks(LockNumber{0}, [](Runtime&, Locks& locks) { return locks.make(); });
}
CRATON_OMP void omp_destroy_lock(LockNumber* lock) {
  if (*lock == 0) return;
  with_locks([&](Runtime&, Locks& locks) { locks.destroy(*lock); });
  *lock = 0;
}
CRATON_OMP void omp_set_lock(LockNumber* lock) {
  with_locks([&](Runtime&, Locks& locks) { locks.lock(number_of(lock)); });
}
CRATON_OMP void omp_unset_lock(LockNumber* lock) {
  if (*lock == 0) return;
  with_locks([&](Runtime& here, Locks& locks) {
    if (!locks.unlock(*lock, here.unlock_publishes())) here.remote_unlocks().unlock(*lock);
  });
}
CRATON_OMP int omp_test_lock(LockNumber* lock) {
  return with_locks(1, [&](Runtime&, Locks& locks) { return locks.try_lock(number_of(lock)) ? 1 : 0; });
}

CRATON_OMP void omp_init_nest_lock(LockNumber* lock) {
  omp_init_lock(lock);
}
CRATON_OMP void omp_destroy_nest_lock(LockNumber* lock) {
  omp_destroy_lock(lock);
}
CRATON_OMP void omp_set_nest_lock(LockNumber* lock) {
  with_locks([&](Runtime&, Locks& locks) { locks.lock_nested(number_of(lock), self().task); });
}
CRATON_OMP void omp_unset_nest_lock(LockNumber* lock) {
  if (*lock == 0) return;
  with_locks([&](Runtime& here, Locks& locks) { locks.unlock_nested(*lock, here.unlock_publishes()); });
}
CRATON_OMP int omp_test_nest_lock(LockNumber* lock) {
  return with_locks(
      1, [&](Runtime&, Locks& locks) { return locks.try_lock_nested(number_of(lock), self().task); });
}

// What Fortran calls: the same, by other names.
#define CRATON_FORTRAN(type, name)            \
  CRATON_OMP type name##_(LockNumber* lock) { \
    return name(lock);                        \
  }
CRATON_FORTRAN(void, omp_init_lock)
CRATON_FORTRAN(void, omp_destroy_lock)
CRATON_FORTRAN(void, omp_set_lock)
CRATON_FORTRAN(void, omp_unset_lock)
CRATON_FORTRAN(std::int32_t, omp_test_lock)
CRATON_FORTRAN(void, omp_init_nest_lock)
CRATON_FORTRAN(void, omp_destroy_nest_lock)
CRATON_FORTRAN(void, omp_set_nest_lock)
CRATON_FORTRAN(void, omp_unset_nest_lock)
CRATON_FORTRAN(std::int32_t, omp_test_nest_lock)
#undef CRATON_FORTRAN

}  // namespace craton::omp::api
