/// \file
/// Routines that only LLVM's runtime has, beside omp_*: locks with hints, tools, kmp_*.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "omp/kmpc/abi.hpp"
#include "omp/locks.hpp"
#include "omp/runtime.hpp"

namespace craton::omp::kmpc {

extern "C" {
void omp_init_lock(LockNumber* lock);
void omp_init_nest_lock(LockNumber* lock);
void omp_destroy_lock(LockNumber* lock);
void omp_destroy_nest_lock(LockNumber* lock);
void omp_set_lock(LockNumber* lock);
void omp_set_nest_lock(LockNumber* lock);
void omp_unset_lock(LockNumber* lock);
void omp_unset_nest_lock(LockNumber* lock);
int omp_test_lock(LockNumber* lock);
int omp_test_nest_lock(LockNumber* lock);
int omp_pause_resource(int kind, int device);
int omp_get_cancellation();
}

// ---- Locks

CRATON_KMPC void omp_init_lock_with_hint(LockNumber* lock, int /*hint*/) {
  omp_init_lock(lock);
}
CRATON_KMPC void omp_init_nest_lock_with_hint(LockNumber* lock, int /*hint*/) {
  omp_init_nest_lock(lock);
}
CRATON_KMPC void omp_init_lock_with_hint_(LockNumber* lock, const int* /*hint*/) {
  omp_init_lock(lock);
}
CRATON_KMPC void omp_init_nest_lock_with_hint_(LockNumber* lock, const int* /*hint*/) {
  omp_init_nest_lock(lock);
}
CRATON_KMPC void __kmpc_init_lock_with_hint(Location* /*at*/, std::int32_t /*thread*/, LockNumber* lock,
                                            std::uintptr_t /*hint*/) {
  omp_init_lock(lock);
}
CRATON_KMPC void __kmpc_init_nest_lock_with_hint(Location* /*at*/, std::int32_t /*thread*/, LockNumber* lock,
                                                 std::uintptr_t /*hint*/) {
  omp_init_nest_lock(lock);
}
// NOLINTBEGIN(bugprone-macro-parentheses): parts of names
#define CRATON_LOCK(type, name)                                                                             \
  CRATON_KMPC type __kmpc_##name##_lock(Location* /*at*/, std::int32_t /*thread*/, LockNumber* lock) {      \
    return omp_##name##_lock(lock);                                                                         \
  }                                                                                                         \
  CRATON_KMPC type __kmpc_##name##_nest_lock(Location* /*at*/, std::int32_t /*thread*/, LockNumber* lock) { \
    return omp_##name##_nest_lock(lock);                                                                    \
  }
// NOLINTEND(bugprone-macro-parentheses)
CRATON_LOCK(void, init)
CRATON_LOCK(void, destroy)
CRATON_LOCK(void, set)
CRATON_LOCK(void, unset)
CRATON_LOCK(std::int32_t, test)
#undef CRATON_LOCK

// ---- Tools, devices

/// \returns that there is no tool
CRATON_KMPC int omp_control_tool(int /*command*/, int /*modifier*/, void* /*argument*/) {
  return -2;
}
CRATON_KMPC int omp_control_tool_(const int* /*command*/, const int* /*modifier*/, void* /*argument*/) {
  return -2;
}
CRATON_KMPC int __kmpc_pause_resource(int kind) {
  return omp_pause_resource(kind, 0);
}
/// \returns that target regions run here: OMP_TARGET_OFFLOAD is `default`, and there are no devices
CRATON_KMPC int __kmpc_get_target_offload() {
  return 1;
}

// ---- The error directive

CRATON_KMPC void __kmpc_error(Location* /*at*/, int severity, const char* text) {
  constexpr int warning = 1;
  const std::string line = text != nullptr ? text : "error directive encountered";
  static_cast<void>(
      std::fprintf(stderr, "OMP: %s: %s\n", severity == warning ? "Warning" : "Error", line.c_str()));
  if (severity == warning) return;
  if (runtime() != nullptr) runtime()->platform().fail("the program's error directive has ended it");
  std::exit(1);
}

// ---- What may be set and asked for, and changes nothing here: threads, their stacks and their waits are
// chosen by OMP_NUM_THREADS, OMP_STACKSIZE and OMP_WAIT_POLICY

namespace {

constexpr int usual_block_time_ms = 200;
std::atomic<int> block_time_ms{usual_block_time_ms};
constexpr int throughput_library = 3;

std::size_t stack_bytes() {
  return runtime() != nullptr ? runtime()->settings().stack_bytes : 0;
}

}  // namespace

CRATON_KMPC void kmp_set_blocktime(int ms) {
  block_time_ms.store(ms, std::memory_order_relaxed);
}
CRATON_KMPC void kmp_set_blocktime_(const int* ms) {
  kmp_set_blocktime(*ms);
}
CRATON_KMPC void kmpc_set_blocktime(int ms) {
  kmp_set_blocktime(ms);
}
CRATON_KMPC int kmp_get_blocktime() {
  return block_time_ms.load(std::memory_order_relaxed);
}
CRATON_KMPC int kmp_get_blocktime_() {
  return kmp_get_blocktime();
}
CRATON_KMPC void kmp_set_stacksize(int /*bytes*/) {}
CRATON_KMPC void kmp_set_stacksize_(const int* /*bytes*/) {}
CRATON_KMPC void kmp_set_stacksize_s(std::size_t /*bytes*/) {}
CRATON_KMPC void kmp_set_stacksize_s_(const std::size_t* /*bytes*/) {}
CRATON_KMPC void kmpc_set_stacksize(int /*bytes*/) {}
CRATON_KMPC void kmpc_set_stacksize_s(std::size_t /*bytes*/) {}
CRATON_KMPC int kmp_get_stacksize() {
  return static_cast<int>(stack_bytes());
}
CRATON_KMPC int kmp_get_stacksize_() {
  return kmp_get_stacksize();
}
CRATON_KMPC std::size_t kmp_get_stacksize_s() {
  return stack_bytes();
}
CRATON_KMPC std::size_t kmp_get_stacksize_s_() {
  return stack_bytes();
}
CRATON_KMPC void kmp_set_library(int /*kind*/) {}
CRATON_KMPC void kmp_set_library_(const int* /*kind*/) {}
CRATON_KMPC void kmpc_set_library(int /*kind*/) {}
CRATON_KMPC void kmp_set_library_serial() {}
CRATON_KMPC void kmp_set_library_serial_() {}
CRATON_KMPC void kmp_set_library_turnaround() {}
CRATON_KMPC void kmp_set_library_turnaround_() {}
CRATON_KMPC void kmp_set_library_throughput() {}
CRATON_KMPC void kmp_set_library_throughput_() {}
CRATON_KMPC int kmp_get_library() {
  return throughput_library;
}
CRATON_KMPC int kmp_get_library_() {
  return throughput_library;
}
CRATON_KMPC void kmp_set_defaults(const char* /*text*/) {}
CRATON_KMPC void kmp_set_defaults_(const char* /*text*/, std::size_t /*bytes*/) {}
CRATON_KMPC void kmpc_set_defaults(const char* /*text*/) {}
CRATON_KMPC void kmp_set_disp_num_buffers(int /*number*/) {}
CRATON_KMPC void kmp_set_disp_num_buffers_(const int* /*number*/) {}
CRATON_KMPC void kmpc_set_disp_num_buffers(int /*number*/) {}
CRATON_KMPC void kmp_set_warnings_on() {}
CRATON_KMPC void kmp_set_warnings_on_() {}
CRATON_KMPC void kmp_set_warnings_off() {}
CRATON_KMPC void kmp_set_warnings_off_() {}
CRATON_KMPC int kmp_get_num_known_threads() {
  return runtime() != nullptr ? static_cast<int>(runtime()->default_threads()) : 1;
}
CRATON_KMPC int kmp_get_num_known_threads_() {
  return kmp_get_num_known_threads();
}
CRATON_KMPC int kmp_get_cancellation_status(int /*kind*/) {
  return omp_get_cancellation();
}
CRATON_KMPC int kmp_get_cancellation_status_(const int* /*kind*/) {
  return omp_get_cancellation();
}

}  // namespace craton::omp::kmpc
