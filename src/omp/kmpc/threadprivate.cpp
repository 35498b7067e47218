/// \file
/// `threadprivate` variables of programs that are compiled without thread-local storage for them
/// (-fnoopenmp-use-tls): copies that the runtime makes. The master's copy is the variable itself.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <unordered_map>

#include "omp/kmpc/abi.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

namespace {

/// The calling thread's copies, in memory that all ranks share: others may be given their addresses.
std::unordered_map<const void*, void*>& copies() {
  thread_local std::unordered_map<const void*, void*> own;
  return own;
}

}  // namespace

/// \param cache a word of the program's, null at first: gets what the variable was before the master first
/// used it
CRATON_KMPC void* __kmpc_threadprivate_cached(Location* /*at*/, std::int32_t /*thread*/, void* variable,
                                              std::size_t bytes, void** cache) {
  if (runtime() == nullptr) return variable;
  const std::atomic_ref<void*> before(*cache);
  if (self().is_master) {
    if (before.load(std::memory_order_relaxed) == nullptr)
      before.store(std::memcpy(take_block(bytes), variable, bytes), std::memory_order_release);
    return variable;
  }
  const auto [found, is_new] = copies().try_emplace(variable, nullptr);
  if (is_new) {
    found->second = std::memcpy(take_block(bytes), variable, bytes);
    // Unless the master has begun to use it meanwhile.
    if (const void* const kept = before.load(std::memory_order_acquire))
      std::memcpy(found->second, kept, bytes);
  }
  return found->second;
}

}  // namespace craton::omp::kmpc
