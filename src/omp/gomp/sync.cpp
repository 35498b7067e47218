/// \file
/// Barriers, `single`, `critical`, sections.
#include "omp/gomp/abi.hpp"
#include "omp/gomp/reductions.hpp"
#include "omp/locks.hpp"

namespace craton::omp::gomp {

CRATON_GOMP void GOMP_barrier() {
  barrier(site_of(__builtin_return_address(0)));
}
CRATON_GOMP bool GOMP_barrier_cancel() {
  return cancellable_barrier(site_of(__builtin_return_address(0)));
}

// ---- Single

CRATON_GOMP bool GOMP_single_start() {
  return is_single();
}
/// \returns null to the thread that runs the construct, to others what that one gave
CRATON_GOMP void* GOMP_single_copy_start() {
  if (is_single()) return nullptr;
  return give_all(nullptr, site_of(__builtin_return_address(0)));
}
CRATON_GOMP void GOMP_single_copy_end(void* copied) {
  give_all(copied, site_of(__builtin_return_address(0)));
}

// ---- Critical, and atomic updates that no instruction does

CRATON_GOMP void GOMP_critical_start() {
  lock_critical(Locks::unnamed);
}
CRATON_GOMP void GOMP_critical_end() {
  unlock_critical(Locks::unnamed);
}
/// \param name a pointer of the program's, whose address is the name
CRATON_GOMP void GOMP_critical_name_start(void** name) {
  lock_critical(name);
}
CRATON_GOMP void GOMP_critical_name_end(void** name) {
  unlock_critical(name);
}
CRATON_GOMP void GOMP_atomic_start() {
  lock_critical(Locks::atomic());
}
CRATON_GOMP void GOMP_atomic_end() {
  unlock_critical(Locks::atomic());
}

// ---- Sections, numbered from 1; 0: there is none left

CRATON_GOMP unsigned GOMP_sections_next() {
  LoopPosition* position = nullptr;
  return next_chunk(position) ? static_cast<unsigned>(position->first + 1) : 0;
}
CRATON_GOMP unsigned GOMP_sections_start(unsigned count) {
  begin_share(sections_of(count));
  return GOMP_sections_next();
}
CRATON_GOMP unsigned GOMP_sections2_start(unsigned count, std::uintptr_t* reductions, void** memory) {
  begin_share_reductions(reductions);
  give_memory(memory);
  return GOMP_sections_start(count);
}
CRATON_GOMP void GOMP_sections_end() {
  barrier(site_of(__builtin_return_address(0)));
}
CRATON_GOMP bool GOMP_sections_end_cancel() {
  return cancellable_barrier(site_of(__builtin_return_address(0)));
}
CRATON_GOMP void GOMP_sections_end_nowait() {}

/// \param reductions over tasks
CRATON_GOMP void GOMP_scope_start(std::uintptr_t* reductions) {
  begin_share_reductions(reductions);
}

}  // namespace craton::omp::gomp
