/// \file
/// The bare rival of a fault: a SIGSEGV handler that brings the bytes of a page, or none, and calls mprotect.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "base/function_ref.hpp"
#include "fabric/region_memory.hpp"

namespace craton::bench {

/// Pages with a view that is never protected, into which bytes are brought, and one that faults. While one
/// exists, SIGSEGV of this process is its. Only one at a time.
class BareFaults {
 public:
  static constexpr std::size_t page_bytes = 4096;
  /// Brings the bytes of page `index` to `to`. Runs in the handler.
  using Bring = void (*)(void* context, std::size_t index, std::byte* to);

  /// \throws Error
  BareFaults(std::size_t pages, Bring bring, void* context);
  BareFaults(const BareFaults&) = delete;
  BareFaults& operator=(const BareFaults&) = delete;
  ~BareFaults();

  std::byte* view() const noexcept { return view_; }
  /// Of all pages: PROT_NONE or PROT_READ. A fault on the former opens the page for reading, on the latter
  /// for writing.
  void protect(int protection);

 private:
  friend struct BareFaultsHandler;
  fabric::RegionMemory memory_;
  std::byte* view_;
  Bring bring_;
  void* context_;
  int granted_ = PROT_READ;
  struct Before;
  Before* before_;
};

}  // namespace craton::bench
