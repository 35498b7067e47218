#include "vm/userfaultfd_page_table.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/kept_errno.hpp"
#include "vm/access_failure.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

constexpr std::uint64_t needed_features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_MISSING_SHMEM |
                                          UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MINOR_SHMEM |
                                          UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

/// From so many pages on blocks that are mapped for reading are mapped anew to be written. Of those whose
/// protection is merely taken away the kernel leaves each entry read-only, and changes it in a fault of its
/// own at the first write. What either costs: docs/vm.md.
constexpr std::size_t remap_pages_least = 8;

constexpr std::string_view cannot_change = "cannot change what blocks allow with userfaultfd";

[[noreturn]] void fail_call(std::string_view call, int error) {
  char buffer[160];
  LineWriter happened(buffer, sizeof buffer);
  happened.append(call);
  happened.append(" failed with errno ");
  happened.append_signed(error);
  fail_access(ErrorCode::system, cannot_change, happened.text(), "man 2 userfaultfd",
              "choose the mechanism mprotect, and report this");
}

[[noreturn]] void fail_memory() {
  fail_access(ErrorCode::out_of_resources, cannot_change, "there is no memory for the pages of the blocks",
              "free -b; the memory limit of the control group",
              "use fewer or smaller segments, or more hosts");
}

void zap_range(const iovec& range) {
  while (::madvise(range.iov_base, range.iov_len, MADV_DONTNEED) != 0)
    if (errno != EAGAIN && errno != EINTR) fail_call("madvise(MADV_DONTNEED)", errno);
}

/// A call takes a range of one mapping only, and says ENOENT of others. What a program asks of the kernel for
/// some of its pages splits a mapping: OpenBLAS does by mbind, as madvise and mlock do. So after ENOENT half
/// of the range is tried. \returns false for a page
bool try_halve(std::size_t& bytes) noexcept {
  if (bytes <= kernel::page_bytes()) return false;
  bytes = bytes / kernel::page_bytes() / 2 * kernel::page_bytes();
  return true;
}

}  // namespace

int open_userfaultfd() noexcept {
  UniqueFd fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!fd) return -errno;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = needed_features;
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0) return errno == EINVAL ? -ENOSYS : -errno;
  return fd.release();
}

int register_userfaultfd(int fd, std::uintptr_t begin, std::size_t bytes) noexcept {
  uffdio_register request{};
  request.range = {begin, bytes};
  request.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(fd, UFFDIO_REGISTER, &request) != 0) return errno;
  constexpr std::uint64_t needed =
      (std::uint64_t{1} << _UFFDIO_CONTINUE) | (std::uint64_t{1} << _UFFDIO_WRITEPROTECT);
  return (request.ioctls & needed) == needed ? 0 : ENOSYS;
}

UserfaultfdPageTable::UserfaultfdPageTable(const SegmentMemory& memory, UserfaultfdAbilities abilities)
    : ViewPageTable(memory), abilities_(abilities) {
  if (abilities_.vector_zap) {
    process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    if (!process_) throw Error::from_errno("cannot open a descriptor of this process", errno, "ulimit -n");
  }
  const int fd = open_userfaultfd();
  const std::string asked = fmt::format("cannot guard segment \"{}\" with userfaultfd", memory.name());
  const char* const remedy = "choose the mechanism mprotect; craton info says what this machine allows";
  if (fd == -EMFILE || fd == -ENFILE) throw Error::from_errno(asked, -fd, "ulimit -n; sysctl fs.file-max");
  if (fd < 0) throw Error::from_errno(asked, -fd, "craton info", remedy);
  fd_.reset(fd);
  // As it was made, the view allows nothing at all; only once it is guarded do page table entries decide.
  if (const int error = register_userfaultfd(fd_.get(), address(0), bytes()); error != 0)
    throw Error::from_errno(asked, error, "craton info", remedy);
  if (::mprotect(application_view(), bytes(), PROT_READ | PROT_WRITE | executes()) != 0)
    throw Error::from_errno(asked, errno, "sysctl vm.max_map_count", remedy);
}

int UserfaultfdPageTable::executes() const noexcept {
  return holds_code() ? PROT_EXEC : 0;
}

/// Takes the entries of many runs away with few system calls.
class UserfaultfdPageTable::Zap {
 public:
  explicit Zap(UserfaultfdPageTable& table) noexcept : table_(table) {}
  void add(const Run& run) {
    if (count_ == runs_.size()) flush();
    runs_[count_] = run;
    vector_[count_] = {.iov_base = table_.application_view(run.first), .iov_len = table_.bytes_of(run)};
    ++count_;
    table_.begin_change(run);
  }
  void flush() {
    try {
      // One run costs less by madvise: it needs no look-up of the process.
      if (table_.abilities_.vector_zap && count_ > 1) {
        by_vector();
      } else {
        for (std::size_t i = 0; i < count_; ++i) zap_range(vector_[i]);
      }
    } catch (...) {
      for (std::size_t i = 0; i < count_; ++i) table_.settle(runs_[i], table_.access(runs_[i].first));
      throw;
    }
    for (std::size_t i = 0; i < count_; ++i) table_.settle(runs_[i], Access::none);
    count_ = 0;
  }

 private:
  void by_vector() {
    const KeptErrno kept;
    std::size_t done = 0;
    while (done < count_) {
      const long zapped = ::syscall(SYS_process_madvise, table_.process_.get(), vector_.data() + done,
                                    count_ - done, MADV_DONTNEED, 0);
      if (zapped <= 0) {
        if (errno == EAGAIN || errno == EINTR) continue;
        for (; done < count_; ++done) zap_range(vector_[done]);
        return;
      }
      auto left = static_cast<std::size_t>(zapped);
      while (done < count_ && left >= vector_[done].iov_len) left -= vector_[done++].iov_len;
      if (left != 0) {
        vector_[done].iov_base = static_cast<std::byte*>(vector_[done].iov_base) + left;
        vector_[done].iov_len -= left;
      }
    }
  }

  UserfaultfdPageTable& table_;
  std::size_t count_ = 0;
  std::array<Run, kernel::vector_length> runs_;
  std::array<iovec, kernel::vector_length> vector_;
};

void UserfaultfdPageTable::set_access(std::span<const Run> runs, Access access) {
  check_process();
  if (access == Access::none) {
    Zap zap(*this);
    for (const Run& run : runs) {
      CRATON_ASSERT_SLOW(run.first + run.count <= blocks());
      for (BlockIndex block = run.first; block < run.first + run.count;) {
        const Run same = same_access(block, run.first + run.count);
        if (this->access(block) != Access::none) zap.add(same);
        block += same.count;
      }
    }
    zap.flush();
    return;
  }
  for (const Run& run : runs) {
    CRATON_ASSERT_SLOW(run.first + run.count <= blocks());
    for (BlockIndex block = run.first; block < run.first + run.count;) {
      const Run same = same_access(block, run.first + run.count);
      const Access from = this->access(block);
      if (from != access) change(same, from, access);
      block += same.count;
    }
  }
}

void UserfaultfdPageTable::change(const Run& run, Access from, Access to) {
  begin_change(run);
  try {
    if (from == Access::none) {
      map(run, to);
    } else if (to == Access::write && bytes_of(run) >= remap_pages_least * kernel::page_bytes()) {
      zap_range({.iov_base = application_view(run.first), .iov_len = bytes_of(run)});
      map(run, to);
    } else {
      write_protect(address(run.first), bytes_of(run), to == Access::read);
    }
  } catch (...) {
    // What is mapped of it already must not stay open.
    if (from == Access::none) ::madvise(application_view(run.first), bytes_of(run), MADV_DONTNEED);
    settle(run, from);
    throw;
  }
  settle(run, to);
}

void UserfaultfdPageTable::map(const Run& run, Access access) {
  const std::uintptr_t begin = address(run.first);
  const std::size_t bytes = bytes_of(run);
  if (access == Access::write) {
    // Where an entry was there already it may be protected.
    if (!continue_range(begin, bytes, 0)) write_protect(begin, bytes, false);
  } else if (abilities_.continue_write_protected) {
    if (!continue_range(begin, bytes, kernel::uffd_continue_mode_wp)) write_protect(begin, bytes, true);
  } else {
    map_read_only(begin, bytes);
  }
}

/// Before Linux 6.4 an entry comes into being writable. It must not be: what another thread stored before it
/// was protected would be lost. So the range refuses writes as a mapping meanwhile, which costs two mappings
/// and two system calls more.
void UserfaultfdPageTable::map_read_only(std::uintptr_t begin, std::size_t bytes) {
  void* const view = reinterpret_cast<void*>(begin);
  if (::mprotect(view, bytes, PROT_READ | executes()) != 0) fail_call("mprotect(PROT_READ)", errno);
  try {
    continue_range(begin, bytes, 0);
    write_protect(begin, bytes, true);
  } catch (...) {
    ::madvise(view, bytes, MADV_DONTNEED);
    ::mprotect(view, bytes, PROT_READ | PROT_WRITE | executes());
    throw;
  }
  if (::mprotect(view, bytes, PROT_READ | PROT_WRITE | executes()) != 0)
    fail_call("mprotect(PROT_READ | PROT_WRITE)", errno);
}

/// Puts what the memfd lacks of a range of the application view into it.
void UserfaultfdPageTable::make_present(std::uintptr_t begin, std::size_t bytes) {
  std::byte* const page = system_view() + (begin - address(0));
  while (::madvise(page, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EAGAIN || errno == EINTR) continue;
    if (errno == ENOMEM || errno == EFAULT) fail_memory();
    fail_call("madvise(MADV_POPULATE_WRITE)", errno);
  }
}

/// Maps pages that the memfd lacks, writable, as it makes them, from `begin` on up to the first that is
/// there. \returns whether there were any: `begin` is behind them
bool UserfaultfdPageTable::map_zeros(std::uintptr_t& begin, std::uintptr_t end) {
  uffdio_zeropage request{};
  request.range = {begin, end - begin};
  const bool all = ::ioctl(fd_.get(), UFFDIO_ZEROPAGE, &request) == 0;
  if (!all && errno == ENOMEM) fail_memory();
  if (!all && request.zeropage <= 0) return false;
  begin += static_cast<std::uintptr_t>(request.zeropage);
  return true;
}

/// \returns false if some of it was mapped already
bool UserfaultfdPageTable::continue_range(std::uintptr_t begin, std::size_t bytes, std::uint64_t mode) {
  const KeptErrno kept;
  const std::uintptr_t end = begin + bytes;
  std::size_t most = bytes;  // of the next call
  std::uintptr_t made_present = 0;
  bool all_new = true;
  while (begin < end) {
    const std::uintptr_t until = begin + std::min(most, end - begin);
    uffdio_continue request{};
    request.range = {begin, until - begin};
    request.mode = mode;
    const int error = ::ioctl(fd_.get(), UFFDIO_CONTINUE, &request) == 0 ? 0 : errno;
    // What was done before it stopped; the next call says why.
    if (error == 0) {
      begin = until;
      most = bytes;
    } else if (error == EAGAIN) {
      if (request.mapped > 0) begin += static_cast<std::uintptr_t>(request.mapped);
    } else if (error == EEXIST) {
      all_new = false;
      begin += kernel::page_bytes();
    } else if ((error == ENOENT && try_halve(most)) ||
               (error == EFAULT && mode == 0 && map_zeros(begin, until))) {
      continue;
    } else if (error == EFAULT && made_present <= begin) {
      make_present(begin, end - begin);
      made_present = begin + 1;  // no second time for this page: it is there now
    } else if (error == ENOMEM) {
      fail_memory();
    } else {
      fail_call("ioctl(UFFDIO_CONTINUE)", error);
    }
  }
  return all_new;
}

void UserfaultfdPageTable::write_protect(std::uintptr_t begin, std::size_t bytes, bool on) {
  const KeptErrno kept;
  const std::uintptr_t end = begin + bytes;
  std::size_t most = bytes;  // of the next call
  while (begin < end) {
    uffdio_writeprotect request{};
    request.range = {begin, std::min(most, end - begin)};
    request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
    if (::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &request) == 0) {
      begin += request.range.len;
      most = bytes;
    } else if (errno == ENOMEM) {
      fail_memory();
    } else if (errno == ENOENT && try_halve(most)) {
      continue;
    } else if (errno != EAGAIN && errno != EINTR) {
      fail_call("ioctl(UFFDIO_WRITEPROTECT)", errno);
    }
  }
}

void UserfaultfdPageTable::reinstate(BlockIndex block) noexcept {
  check_process();
  const std::optional<Access> access = try_begin_reinstating(block);
  if (!access) return;
  const Run run{.first = block, .count = 1};
  map(run, *access);
  settle(run, *access);
}

}  // namespace craton::vm
