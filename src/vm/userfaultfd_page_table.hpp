/// \file
/// Page table by userfaultfd(2) (mode U of the measurements): the application view is registered for missing
/// pages, minor faults and write protection, with events as SIGBUS. States are page table entries, so there
/// is no limit on how they alternate.
///
///     none   no entry                        a touch is a minor fault: SIGBUS
///     read   entry with the uffd-wp bit      a write is SIGBUS
///     write  entry
///
/// Registered for missing pages as well, though none should be missing when a block is opened: with minor
/// faults alone the kernel fills a hole of the memfd with zeros and tells nobody.
#pragma once

#include "base/unique_fd.hpp"
#include "vm/view_page_table.hpp"

namespace craton::vm {

/// What a kernel can do beyond what is needed at least.
struct UserfaultfdAbilities {
  bool continue_write_protected = false;  ///< UFFDIO_CONTINUE_MODE_WP, Linux 6.4
  bool vector_zap = false;                ///< process_madvise of oneself with MADV_DONTNEED, Linux 6.13
};

class UserfaultfdPageTable final : public ViewPageTable {
 public:
  /// \param abilities of this kernel, or fewer
  /// \throws Error not_supported, permission, out_of_resources
  UserfaultfdPageTable(const SegmentMemory& memory, UserfaultfdAbilities abilities);

  using PageTable::set_access;
  /// To none: one system call for 256 runs where the kernel can, else one a run. To read or write: one a run
  /// of blocks that are in the same state. Pages that the memfd lacks are allocated. \throws Error
  /// out_of_resources where there is no memory for them; inside a fault handler it ends the process instead.
  void set_access(std::span<const Run> runs, Access access) override;
  /// Memory reclaim has taken the entry away, and the bytes are in the page cache or swapped out.
  void reinstate(BlockIndex block) noexcept override;
  bool faults_by_sigbus() const noexcept override { return true; }

 private:
  class Zap;
  void change(const Run& run, Access from, Access to);
  /// What mprotect is to allow besides reading.
  int executes() const noexcept;
  void map(const Run& run, Access access);
  void map_read_only(std::uintptr_t begin, std::size_t bytes);
  void make_present(std::uintptr_t begin, std::size_t bytes);
  bool map_zeros(std::uintptr_t& begin, std::uintptr_t end);
  bool continue_range(std::uintptr_t begin, std::size_t bytes, std::uint64_t mode);
  void write_protect(std::uintptr_t begin, std::size_t bytes, bool on);
  std::uintptr_t address(BlockIndex block) const noexcept {
    return reinterpret_cast<std::uintptr_t>(application_view(block));
  }

  const UserfaultfdAbilities abilities_;
  UniqueFd process_;  // this process, for process_madvise
  UniqueFd fd_;
};

/// Opens a userfaultfd for faults of user code that become SIGBUS. \returns a negative errno if the kernel
/// refuses it or lacks what is needed (-ENOSYS), else the descriptor
int open_userfaultfd() noexcept;
/// Registers a range in all three modes. \returns 0 or errno
int register_userfaultfd(int fd, std::uintptr_t begin, std::size_t bytes) noexcept;

}  // namespace craton::vm
