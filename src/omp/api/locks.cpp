/// \file
/// Locks. An omp_lock_t is an int; of an omp_nest_lock_t, which Fortran gives 8 bytes, the first int is used.
#include "omp/api/api.hpp"

namespace craton::omp::api {

namespace {

/// Runs `body(runtime, locks)`. Before the runtime has started there is one thread, which needs no locks.
template <typename Result, typename Body>
Result with_locks(Result otherwise, const Body& body) {
  Runtime* const here = runtime();
  if (here == nullptr) return otherwise;
  return here->guard([&] { return static_cast<Result>(body(*here, here->locks())); });
}

}  // namespace

CRATON_OMP void omp_init_lock(LockNumber* lock) {
  *lock = with_locks(LockNumber{0}, [](Runtime&, Locks& locks) { return locks.make(); });
}
CRATON_OMP void omp_destroy_lock(LockNumber* lock) {
  with_locks(0, [&](Runtime&, Locks& locks) {
    locks.destroy(*lock);
    return 0;
  });
  *lock = 0;
}
CRATON_OMP void omp_set_lock(LockNumber* lock) {
  with_locks(0, [&](Runtime&, Locks& locks) {
    locks.lock(*lock);
    return 0;
  });
}
CRATON_OMP void omp_unset_lock(LockNumber* lock) {
  with_locks(0, [&](Runtime& here, Locks& locks) {
    locks.unlock(*lock, here.unlock_publishes());
    return 0;
  });
}
CRATON_OMP int omp_test_lock(LockNumber* lock) {
  return with_locks(1, [&](Runtime&, Locks& locks) { return locks.try_lock(*lock) ? 1 : 0; });
}

CRATON_OMP void omp_init_nest_lock(LockNumber* lock) {
  omp_init_lock(lock);
}
CRATON_OMP void omp_destroy_nest_lock(LockNumber* lock) {
  omp_destroy_lock(lock);
}
CRATON_OMP void omp_set_nest_lock(LockNumber* lock) {
  with_locks(0, [&](Runtime&, Locks& locks) { return locks.lock_nested(*lock, self().task); });
}
CRATON_OMP void omp_unset_nest_lock(LockNumber* lock) {
  with_locks(0, [&](Runtime& here, Locks& locks) {
    locks.unlock_nested(*lock, here.unlock_publishes());
    return 0;
  });
}
CRATON_OMP int omp_test_nest_lock(LockNumber* lock) {
  return with_locks(1, [&](Runtime&, Locks& locks) { return locks.try_lock_nested(*lock, self().task); });
}

// ---- Fortran

CRATON_OMP void omp_init_lock_(LockNumber* lock) {
  omp_init_lock(lock);
}
CRATON_OMP void omp_destroy_lock_(LockNumber* lock) {
  omp_destroy_lock(lock);
}
CRATON_OMP void omp_set_lock_(LockNumber* lock) {
  omp_set_lock(lock);
}
CRATON_OMP void omp_unset_lock_(LockNumber* lock) {
  omp_unset_lock(lock);
}
CRATON_OMP std::int32_t omp_test_lock_(LockNumber* lock) {
  return omp_test_lock(lock);
}
CRATON_OMP void omp_init_nest_lock_(LockNumber* lock) {
  omp_init_nest_lock(lock);
}
CRATON_OMP void omp_destroy_nest_lock_(LockNumber* lock) {
  omp_destroy_nest_lock(lock);
}
CRATON_OMP void omp_set_nest_lock_(LockNumber* lock) {
  omp_set_nest_lock(lock);
}
CRATON_OMP void omp_unset_nest_lock_(LockNumber* lock) {
  omp_unset_nest_lock(lock);
}
CRATON_OMP std::int32_t omp_test_nest_lock_(LockNumber* lock) {
  return omp_test_nest_lock(lock);
}

}  // namespace craton::omp::api
