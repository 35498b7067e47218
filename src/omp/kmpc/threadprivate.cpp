/// \file
/// `threadprivate` variables of programs that are compiled without thread-local storage for them
/// (-fnoopenmp-use-tls): copies that the runtime makes. The master's copy is the variable itself.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <unordered_map>

#include "omp/constructs.hpp"
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

/// Who makes its first copy, and the master before it first uses the variable. A word that tells of other
/// memory does not do: another rank may find it before that memory.
constexpr char copying = 0;

}  // namespace

/// \param cache a word of the program's, null at first: gets what the variable was before the master first
/// used it
CRATON_KMPC void* __kmpc_threadprivate_cached(Location* /*at*/, std::int32_t /*thread*/, void* variable,
                                              std::size_t bytes, void** cache) {
  if (runtime() == nullptr) return variable;
  const std::atomic_ref<void*> before(*cache);
  if (self().is_master) {
    if (before.load(std::memory_order_relaxed) != nullptr) return variable;
    void* const kept = std::memcpy(take_block(bytes), variable, bytes);
    lock_critical(&copying);
    before.store(kept, std::memory_order_relaxed);
    unlock_critical(&copying);
    return variable;
  }
  const auto [found, is_new] = copies().try_emplace(variable, nullptr);
  if (is_new) {
    found->second = take_block(bytes);
    lock_critical(&copying);
    const void* const kept = before.load(std::memory_order_relaxed);
    std::memcpy(found->second, kept != nullptr ? kept : variable, bytes);
    unlock_critical(&copying);
  }
  return found->second;
}

}  // namespace craton::omp::kmpc
