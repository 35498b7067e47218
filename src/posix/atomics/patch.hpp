/// \file
/// Sends the atomic instructions of a loaded object to software, without the program knowing: those with a
/// lock prefix, xchg with memory, mfence, and the `lock or $0` on the stack that compilers make of a fence.
///
/// An instruction is overwritten by a jump of 5 bytes to code made for it (site_code.hpp). A shorter one
/// takes its neighbours with it, where these can be moved and nothing jumps at them (branch_targets.hpp).
/// Else a breakpoint takes its place (trap.hpp). Those that end reductions can be put off (reduction.hpp).
/// Where the hooks ask for it, so are loads of threads that wait for others (looks.hpp).
///
/// What this cannot change: code without unwind tables, where it only tells of sites. What it cannot see:
/// code made at run time, and other plain loads and stores, which atomic loads and relaxed stores are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "posix/atomics/code_map.hpp"
#include "posix/atomics/shared_memory.hpp"

namespace craton::posix {

struct PatchReport {
  /// An instruction, and why it did not become what it should have.
  struct Reason {
    std::uintptr_t address;
    const char* why;
  };

  std::size_t functions = 0;
  std::size_t code_bytes = 0;    ///< of executable segments
  std::size_t read_bytes = 0;    ///< of these: known functions, as far as they could be read
  std::size_t unread_bytes = 0;  ///< others, as far as they could not be read either
  std::size_t atomics = 0;       ///< sites of each kind
  std::size_t flushes = 0;
  std::size_t looks = 0;
  std::size_t reductions = 0;  ///< of the atomics: those whose parts can be put off
  std::size_t jumps = 0;       ///< sites behind a jump
  std::vector<Reason> traps;   ///< sites with a breakpoint
  /// Sites left as they were, places where functions become unreadable, and sites outside of known functions.
  std::vector<Reason> untouched;
  /// Loads of what a compare-exchange is about to change: a fault of one may fetch for writing at once.
  std::vector<std::uintptr_t> loads_to_store;
  std::string problem;  ///< why functions may have been missed; empty if none
};

/// Patches an object, for as long as the process lives: what it needs is never freed. No other thread may run
/// code of the object meanwhile, and the object must be neither patched already nor ours.
/// \param shared is copied \param threads of this process that read the code at a time
/// \throws Error invalid_argument, not_supported, out_of_resources, system; the object is as it was then
PatchReport patch(const CodeMap& object, const SharedMemory& shared, unsigned threads = 1);

}  // namespace craton::posix
