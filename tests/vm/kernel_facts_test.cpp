/// \file
/// The behaviour of the kernel that the page tables rely on, or are shaped around: one small test each, on
/// bare system calls. Where one fails on a new kernel, the room's code has to be looked at, not the test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/unique_fd.hpp"
#include "fiber/sanitizer.hpp"
#include "segment_rig.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

constexpr std::size_t pages = 8;
constexpr std::uint64_t basic_features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
                                         UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
                                         UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
constexpr std::uint64_t missing_mode = UFFDIO_REGISTER_MODE_MISSING;
constexpr std::uint64_t minor_mode = UFFDIO_REGISTER_MODE_MINOR;
constexpr std::uint64_t wp_mode = UFFDIO_REGISTER_MODE_WP;
constexpr std::uint64_t all_modes = missing_mode | minor_mode | wp_mode;

/// A memfd mapped twice, the second view under a userfaultfd where asked for.
class TwoViews {
 public:
  TwoViews() : memory_("facts", pages * page_bytes) {
    application = static_cast<std::byte*>(
        ::mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.fd(), 0));
    system = memory_.data();
  }
  TwoViews(const TwoViews&) = delete;
  TwoViews& operator=(const TwoViews&) = delete;
  ~TwoViews() { ::munmap(application, pages * page_bytes); }

  /// \returns 0 or errno
  int guard(std::uint64_t modes = all_modes, std::uint64_t features = basic_features) {
    fd.reset(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    if (!fd) return errno;
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = features;
    if (::ioctl(fd.get(), UFFDIO_API, &api) != 0) return errno;
    uffdio_register request{};
    request.range = {reinterpret_cast<std::uintptr_t>(application), pages * page_bytes};
    request.mode = modes;
    return ::ioctl(fd.get(), UFFDIO_REGISTER, &request) == 0 ? 0 : errno;
  }
  void fill() {
    for (std::size_t page = 0; page < pages; ++page) system[page * page_bytes] = std::byte(page + 1);
  }
  std::uintptr_t address(std::size_t page) const {
    return reinterpret_cast<std::uintptr_t>(application) + page * page_bytes;
  }

  /// \returns 0 or errno \param mapped what the kernel says it did
  int resume(std::size_t page, std::size_t count, std::uint64_t mode = 0,
             std::int64_t* mapped = nullptr) const {
    uffdio_continue request{};
    request.range = {address(page), count * page_bytes};
    request.mode = mode;
    const int error = ::ioctl(fd.get(), UFFDIO_CONTINUE, &request) == 0 ? 0 : errno;
    if (mapped != nullptr) *mapped = request.mapped;
    return error;
  }
  int protect(std::size_t page, std::size_t count, bool on) const {
    uffdio_writeprotect request{};
    request.range = {address(page), count * page_bytes};
    request.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
    return ::ioctl(fd.get(), UFFDIO_WRITEPROTECT, &request) == 0 ? 0 : errno;
  }
  void zap(std::size_t page, std::size_t count) const {
    ASSERT_EQ(::madvise(application + page * page_bytes, count * page_bytes, MADV_DONTNEED), 0);
  }
  /// As instructions of the program.
  std::byte at(std::size_t page) const {
    return *static_cast<volatile std::byte*>(application + page * page_bytes);
  }
  void put(std::size_t page, std::byte value) const {
    *static_cast<volatile std::byte*>(application + page * page_bytes) = value;
  }

  std::byte* application;
  std::byte* system;
  UniqueFd fd;

 private:
  fabric::RegionMemory memory_;
};

struct SeenFault {
  int signal = 0;
  const void* address = nullptr;
  std::uint64_t error = 0;
};

/// While one exists, faults are noted and resolved.
class FaultCatcher {
 public:
  explicit FaultCatcher(std::function<void(const SeenFault&)> resolve) : resolve_(std::move(resolve)) {
    current = this;
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    action.sa_sigaction = [](int signal, siginfo_t* info, [[maybe_unused]] void* context) {
      SeenFault fault{.signal = signal, .address = info->si_addr};
#if defined(__x86_64__)
      fault.error = static_cast<std::uint64_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR]);
#endif
      if (current->faults.size() == current->faults.capacity()) _exit(99);  // nothing resolves it
      current->faults.push_back(fault);
      current->resolve_(fault);
    };
    faults.reserve(64);
    ::sigaction(SIGSEGV, &action, &before_segv_);
    ::sigaction(SIGBUS, &action, &before_bus_);
  }
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;
  ~FaultCatcher() {
    ::sigaction(SIGSEGV, &before_segv_, nullptr);
    ::sigaction(SIGBUS, &before_bus_, nullptr);
  }
  std::vector<SeenFault> faults;

 private:
  static inline FaultCatcher* current = nullptr;
  std::function<void(const SeenFault&)> resolve_;
  struct sigaction before_segv_ {};
  struct sigaction before_bus_ {};
};

std::size_t page_of(const TwoViews& views, const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) - views.address(0)) / page_bytes;
}

class KernelFacts : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why_not = missing(Backend::userfaultfd); !why_not.empty()) GTEST_SKIP() << why_not;
  }
  TwoViews views;
};

TEST_F(KernelFacts, MinorFaultsAloneFillHolesWithZerosAndTellNobody) {
  ASSERT_EQ(views.guard(minor_mode | wp_mode), 0);
  FaultCatcher catcher([this](const SeenFault& fault) { views.resume(page_of(views, fault.address), 1); });
  EXPECT_EQ(views.at(2), std::byte{0});
  EXPECT_EQ(catcher.faults.size(), 0U) << "so missing pages are registered too";
}

TEST_F(KernelFacts, WithMissingPagesRegisteredAHoleIsAFault) {
  ASSERT_EQ(views.guard(), 0);
  FaultCatcher catcher([this](const SeenFault& fault) {
    const std::size_t page = page_of(views, fault.address);
    views.system[page * page_bytes] = std::byte{9};
    views.resume(page, 1);
  });
  EXPECT_EQ(views.at(2), std::byte{9});
  ASSERT_EQ(catcher.faults.size(), 1U);
  EXPECT_EQ(catcher.faults[0].signal, SIGBUS);
}

TEST_F(KernelFacts, ContinueOfAHoleIsEfault) {
  ASSERT_EQ(views.guard(), 0);
  EXPECT_EQ(views.resume(0, 1), EFAULT);
  views.system[0] = std::byte{1};
  std::int64_t mapped = 0;
  EXPECT_EQ(views.resume(0, 2, 0, &mapped), EAGAIN) << "what comes before the hole is done";
  EXPECT_EQ(mapped, static_cast<std::int64_t>(page_bytes));
  EXPECT_EQ(views.resume(1, 1), EFAULT);
}

TEST_F(KernelFacts, ContinueStopsAtAPageThatIsMapped) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(views.resume(3, 1), 0);
  std::int64_t mapped = 0;
  EXPECT_EQ(views.resume(0, pages, 0, &mapped), EAGAIN);
  EXPECT_EQ(mapped, static_cast<std::int64_t>(3 * page_bytes));
  EXPECT_EQ(views.resume(3, pages - 3, 0, &mapped), EEXIST);
  EXPECT_EQ(mapped, -EEXIST);
  EXPECT_EQ(views.resume(4, pages - 4), 0);
}

#if defined(__x86_64__)
TEST_F(KernelFacts, TheErrorCodeTellsReadFromWrite) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  FaultCatcher catcher([this](const SeenFault& fault) {
    const std::size_t page = page_of(views, fault.address);
    if ((fault.error & 1U) != 0) {
      views.protect(page, 1, false);
    } else {
      views.resume(page, 1);
    }
  });
  EXPECT_EQ(views.at(0), std::byte{1});
  views.put(1, std::byte{7});
  views.resume(2, 1);
  views.protect(2, 1, true);
  EXPECT_EQ(views.at(2), std::byte{3});
  views.put(2, std::byte{8});
  ASSERT_EQ(catcher.faults.size(), 3U);
  EXPECT_EQ(catcher.faults[0].error, 4U) << "read of what is not mapped";
  EXPECT_EQ(catcher.faults[1].error, 6U) << "write to what is not mapped";
  EXPECT_EQ(catcher.faults[2].error, 7U) << "write to what is protected";
  for (const SeenFault& fault : catcher.faults) EXPECT_EQ(fault.signal, SIGBUS);
}
#endif

TEST_F(KernelFacts, ContinueOverridesTheMarkerOfAProtectedHole) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  FaultCatcher catcher(
      [this](const SeenFault& fault) { views.protect(page_of(views, fault.address), 1, false); });
  ASSERT_EQ(views.protect(0, 1, true), 0);
  ASSERT_EQ(views.resume(0, 1), 0);
  views.put(0, std::byte{5});
  EXPECT_EQ(catcher.faults.size(), 0U)
      << "so protecting first and mapping then leaves a page that can be written";
}

TEST_F(KernelFacts, ContinueCanMapWriteProtected) {
  if (!probe().abilities.continue_write_protected)
    GTEST_SKIP() << "UFFDIO_CONTINUE_MODE_WP comes with Linux 6.4";
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  FaultCatcher catcher(
      [this](const SeenFault& fault) { views.protect(page_of(views, fault.address), 1, false); });
  ASSERT_EQ(views.resume(0, 2, kernel::uffd_continue_mode_wp), 0);
  EXPECT_EQ(views.at(0), std::byte{1});
  EXPECT_EQ(catcher.faults.size(), 0U);
  views.put(0, std::byte{5});
  EXPECT_EQ(catcher.faults.size(), 1U);
}

TEST_F(KernelFacts, ContinueInAReadOnlyMappingMapsReadOnly) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(mprotect(views.application, page_bytes, PROT_READ), 0);
  ASSERT_EQ(views.resume(0, 1), 0);
  ASSERT_EQ(views.protect(0, 1, true), 0);
  ASSERT_EQ(mprotect(views.application, page_bytes, PROT_READ | PROT_WRITE), 0);
  FaultCatcher catcher(
      [this](const SeenFault& fault) { views.protect(page_of(views, fault.address), 1, false); });
  views.put(0, std::byte{5});
  ASSERT_EQ(catcher.faults.size(), 1U) << "which is how kernels before 6.4 open a page for reading";
  EXPECT_EQ(catcher.faults[0].signal, SIGBUS);
}

TEST_F(KernelFacts, ZappingKeepsWhatWasWritten) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(views.resume(0, 1), 0);
  views.put(0, std::byte{77});
  views.zap(0, 1);
  EXPECT_EQ(views.system[0], std::byte{77});
  FaultCatcher catcher([this](const SeenFault& fault) { views.resume(page_of(views, fault.address), 1); });
  EXPECT_EQ(views.at(0), std::byte{77});
  EXPECT_EQ(catcher.faults.size(), 1U);
}

TEST_F(KernelFacts, ZappingAProtectedPageLeavesAFault) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(views.resume(0, 1), 0);
  ASSERT_EQ(views.protect(0, 1, true), 0);
  views.zap(0, 1);
  FaultCatcher catcher([this](const SeenFault& fault) { views.resume(page_of(views, fault.address), 1); });
  EXPECT_EQ(views.at(0), std::byte{1});
  EXPECT_EQ(catcher.faults.size(), 1U);
}

TEST_F(KernelFacts, ManyRangesAreZappedByOneCall) {
  if (!probe().abilities.vector_zap) GTEST_SKIP() << "process_madvise of oneself comes with Linux 6.13";
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(views.resume(0, pages), 0);
  std::array<iovec, 3> ranges{};
  for (std::size_t i = 0; i < ranges.size(); ++i)
    ranges[i] = {.iov_base = views.application + 2 * i * page_bytes, .iov_len = page_bytes};
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  EXPECT_EQ(syscall(SYS_process_madvise, self.get(), ranges.data(), ranges.size(), MADV_DONTNEED, 0),
            static_cast<long>(3 * page_bytes));
  FaultCatcher catcher([this](const SeenFault& fault) { views.resume(page_of(views, fault.address), 1); });
  for (std::size_t page = 0; page < pages; ++page) EXPECT_EQ(views.at(page), std::byte(page + 1));
  EXPECT_EQ(catcher.faults.size(), 3U);
}

TEST_F(KernelFacts, ReadOnlyByBothMeansInOneView) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(views.resume(0, pages), 0);
  ASSERT_EQ(views.protect(0, 2, true), 0);
  ASSERT_EQ(mprotect(views.application + 2 * page_bytes, 2 * page_bytes, PROT_READ), 0);
  FaultCatcher catcher([this](const SeenFault& fault) {
    const std::size_t page = page_of(views, fault.address);
    if (fault.signal == SIGSEGV) {
      mprotect(views.application + page * page_bytes, page_bytes, PROT_READ | PROT_WRITE);
    } else {
      views.protect(page, 1, false);
    }
  });
  for (std::size_t page = 0; page < 5; ++page) views.put(page, std::byte{1});
  ASSERT_EQ(catcher.faults.size(), 4U);
  EXPECT_EQ(catcher.faults[1].signal, SIGBUS);
  EXPECT_EQ(catcher.faults[2].signal, SIGSEGV);
}

// ---- Forks

int status_of_child(const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGSEGV, SIGBUS}) ::signal(signal, SIG_DFL);
    action();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(KernelFacts, AForkedChildReadsWhatIsOutOfDateAndNobodyIsTold) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  const int status = status_of_child([this] { _exit(views.at(1) == std::byte{2} ? 11 : 12); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 11) << "no fault: so the view is not for children";
}

TEST_F(KernelFacts, WithDontforkAForkedChildHasNoSuchView) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  ASSERT_EQ(madvise(views.application, pages * page_bytes, MADV_DONTFORK), 0);
  const int status = status_of_child([this] { _exit(std::to_integer<int>(views.at(1))); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
}

TEST_F(KernelFacts, AnInheritedUserfaultfdActsOnTheParent) {
  views.fill();
  ASSERT_EQ(views.guard(), 0);
  const int status = status_of_child([this] { _exit(views.resume(0, 1)); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(views.resume(0, 1), EEXIST)
      << "the child mapped it here: so page tables refuse to work in children";
}

TEST_F(KernelFacts, AnOrdinaryUserMayHaveFaultsOfUserCode) {
  views.fill();
  const int status = status_of_child([this] {
    constexpr unsigned nobody_id = 65534;
    if (geteuid() == 0 &&
        (setresgid(nobody_id, nobody_id, nobody_id) != 0 || setresuid(nobody_id, nobody_id, nobody_id) != 0))
      _exit(50);
    if (const int error = views.guard(); error != 0) _exit(error);
    if (views.resume(0, 1) != 0) _exit(51);
    if (views.protect(0, 1, true) != 0) _exit(52);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// ---- Kernel accesses: buffers of system calls

/// \returns what read(2) into the page says, or -errno
long read_into(std::byte* buffer, std::size_t bytes) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  const std::vector<std::byte> source(bytes, std::byte{1});
  if (write(in.get(), source.data(), bytes) != static_cast<ssize_t>(bytes)) return -EIO;
  const long got = syscall(SYS_read, out.get(), buffer, bytes);
  return got < 0 ? -errno : got;
}
long write_from(const std::byte* buffer, std::size_t bytes) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
  const UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  const long put = syscall(SYS_write, in.get(), buffer, bytes);
  return put < 0 ? -errno : put;
}

class KernelAccesses : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (const std::string why_not = missing(GetParam()); !why_not.empty()) GTEST_SKIP() << why_not;
  }
};

TEST_P(KernelAccesses, SystemCallsFailWhereTheProgramWouldFault) {
  SegmentRig rig(GetParam(), 8);
  std::byte* const view = rig.application_view();
  EXPECT_EQ(write_from(view, 16), -EFAULT);
  EXPECT_EQ(read_into(view, 16), -EFAULT);
  rig.table().set_access(0, Access::read);
  EXPECT_EQ(write_from(view, 16), 16) << "the kernel may read what the program may read";
  EXPECT_EQ(read_into(view, 16), -EFAULT);
  EXPECT_EQ(write_from(view, 2 * page_bytes), static_cast<long>(page_bytes))
      << "a short count at the next page";
  rig.table().set_access(0, Access::write);
  EXPECT_EQ(read_into(view, 16), 16);
  EXPECT_EQ(read_into(view, 2 * page_bytes), static_cast<long>(page_bytes));
  EXPECT_EQ(rig.faults(), 0) << "no signal tells of any of this: callers are given the system view instead";
  EXPECT_EQ(read_into(rig.table().system_view(1), 16), 16);
}

INSTANTIATE_TEST_SUITE_P(Holds, KernelAccesses, testing::Values(Backend::userfaultfd, Backend::mprotect),
                         [](const auto& backend) { return name_of(backend.param); });

// ---- Dirty pages without faults (mode W)

// struct pm_scan_arg, which is younger than our headers.
struct PagemapScan {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t walk_end;
  std::uint64_t vec;
  std::uint64_t vec_len;
  std::uint64_t max_pages;
  std::uint64_t category_inverted;
  std::uint64_t category_mask;
  std::uint64_t category_anyof_mask;
  std::uint64_t return_mask;
};
struct PagemapRegion {
  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t categories;
};
constexpr std::uint64_t page_is_written = 2;
constexpr std::uint64_t scan_wp_matching = 1;
constexpr std::uint64_t scan_check_wpasync = 2;

TEST_F(KernelFacts, AsynchronousWriteProtectionFindsWrittenPages) {
  if (const int error = views.guard(all_modes, basic_features | kernel::uffd_feature_wp_async); error != 0)
    GTEST_SKIP() << "UFFD_FEATURE_WP_ASYNC comes with Linux 6.7: errno " << error;
  views.fill();
  FaultCatcher catcher([this](const SeenFault& fault) { views.resume(page_of(views, fault.address), 1); });
  EXPECT_EQ(views.at(0), std::byte{1});
  EXPECT_EQ(catcher.faults.size(), 1U) << "what is missing is a signal in the same context";
  ASSERT_EQ(views.resume(1, pages - 1), 0);
  ASSERT_EQ(views.protect(0, pages, true), 0);
  views.put(3, std::byte{9});
  views.put(6, std::byte{9});
  EXPECT_EQ(catcher.faults.size(), 1U) << "a first write is none";

  const UniqueFd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::array<PagemapRegion, pages> found{};
  PagemapScan scan{};
  scan.size = sizeof scan;
  scan.flags = scan_wp_matching | scan_check_wpasync;
  scan.start = views.address(0);
  scan.end = views.address(pages);
  scan.vec = reinterpret_cast<std::uintptr_t>(found.data());
  scan.vec_len = found.size();
  scan.category_mask = page_is_written;
  scan.return_mask = page_is_written;
  const auto scan_call = _IOWR('f', 16, PagemapScan);
  const auto written = [&] {
    scan.walk_end = 0;
    const int count = ioctl(pagemap.get(), scan_call, &scan);
    std::vector<std::size_t> numbers;
    for (int i = 0; i < count; ++i)
      for (std::uint64_t at = found[static_cast<std::size_t>(i)].start;
           at < found[static_cast<std::size_t>(i)].end; at += page_bytes)
        numbers.push_back((at - views.address(0)) / page_bytes);
    return numbers;
  };
  EXPECT_EQ(written(), (std::vector<std::size_t>{3, 6}));
  EXPECT_EQ(written(), std::vector<std::size_t>{}) << "the scan protects again";
  views.put(3, std::byte{10});
  EXPECT_EQ(written(), (std::vector<std::size_t>{3}));
}

// ---- Mappings

#if !defined(CRATON_FIBER_SANITIZED)  // their many mappings are part of what is counted, and they are slow
TEST(KernelLimits, AlternatingProtectionRunsOutOfMappings) {
  const std::int64_t limit = MapBudget::kernel_limit_here();
  if (limit > 100'000) GTEST_SKIP() << "vm.max_map_count is " << limit << ": this would take too long";
  const int status = status_of_child([limit] {
    const auto bytes = static_cast<std::size_t>(limit) * 2 * page_bytes;
    auto* const view = static_cast<std::byte*>(
        mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t offset = 0; offset < bytes; offset += 2 * page_bytes) {
      if (mprotect(view + offset, page_bytes, PROT_NONE) == 0) continue;
      const auto done = static_cast<std::int64_t>(offset / page_bytes);
      _exit(errno == ENOMEM && done > limit - 1000 && done <= limit ? 21 : 22);
    }
    _exit(23);
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 21);
}
#endif

}  // namespace
}  // namespace craton::vm
