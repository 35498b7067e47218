#include "vm/mechanism.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "vm/kernel_interface.hpp"
#include "vm/mprotect_page_table.hpp"

namespace craton::vm {
namespace {

/// A page of shared memory, mapped twice, to try things out on.
class TrialPage {
 public:
  TrialPage() {
    const UniqueFd fd(::memfd_create("craton-probe", MFD_CLOEXEC));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(kernel::page_bytes())) != 0) return;
    system_ = map(fd.get());
    application_ = map(fd.get());
  }
  TrialPage(const TrialPage&) = delete;
  TrialPage& operator=(const TrialPage&) = delete;
  ~TrialPage() {
    for (void* const view : {system_, application_})
      if (view != MAP_FAILED) ::munmap(view, kernel::page_bytes());
  }

  explicit operator bool() const noexcept { return system_ != MAP_FAILED && application_ != MAP_FAILED; }
  void touch() const noexcept { *static_cast<volatile char*>(system_) = 1; }
  std::uintptr_t application() const noexcept { return reinterpret_cast<std::uintptr_t>(application_); }

 private:
  static void* map(int fd) noexcept {
    return ::mmap(nullptr, kernel::page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  void* system_ = MAP_FAILED;
  void* application_ = MAP_FAILED;
};

bool continues_write_protected(int fd, const TrialPage& page) noexcept {
  uffdio_continue request{};
  request.range = {page.application(), kernel::page_bytes()};
  request.mode = kernel::uffd_continue_mode_wp;
  return ::ioctl(fd, UFFDIO_CONTINUE, &request) == 0;
}

bool zaps_by_vector(const TrialPage& page) noexcept {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!process) return false;
  const iovec range{.iov_base = reinterpret_cast<void*>(page.application()), .iov_len = kernel::page_bytes()};
  return ::syscall(SYS_process_madvise, process.get(), &range, 1, MADV_DONTNEED, 0) ==
         static_cast<long>(kernel::page_bytes());
}

std::string failure(const char* what, int error) {
  return fmt::format("{}: {}", what, std::generic_category().message(error));
}

}  // namespace

std::string_view name_of(Mechanism mechanism) noexcept {
  return mechanism == Mechanism::userfaultfd ? "userfaultfd" : "mprotect";
}

Mechanisms probe() {
  Mechanisms found;
  const int opened = open_userfaultfd();
  if (opened == -ENOSYS) {
    found.why_not =
        "the kernel lacks userfaultfd, or of it minor faults, write protection or SIGBUS on shared memory "
        "(Linux 5.19 has all)";
    return found;
  }
  if (opened < 0) {
    found.why_not = failure("userfaultfd(2)", -opened);
    return found;
  }
  const UniqueFd fd(opened);
  const TrialPage page;
  if (!page) {
    found.why_not = failure("a page of shared memory to try it on", errno);
    return found;
  }
  if (const int error = register_userfaultfd(fd.get(), page.application(), kernel::page_bytes());
      error != 0) {
    found.why_not = failure("ioctl(UFFDIO_REGISTER)", error);
    return found;
  }
  page.touch();
  found.userfaultfd = true;
  found.abilities.continue_write_protected = continues_write_protected(fd.get(), page);
  found.abilities.vector_zap = zaps_by_vector(page);
  return found;
}

Mechanism choose_mechanism(std::string_view wanted, const Mechanisms& there) {
  if (wanted == "mprotect") return Mechanism::mprotect;
  if (wanted == "auto") return there.userfaultfd ? Mechanism::userfaultfd : Mechanism::mprotect;
  if (wanted != "userfaultfd") {
    throw Error(ErrorCode::invalid_argument, {.asked = fmt::format("cannot protect blocks by \"{}\"", wanted),
                                              .happened = "there is no such mechanism",
                                              .limit = {},
                                              .remedy = "choose auto, userfaultfd or mprotect"});
  }
  if (!there.userfaultfd) {
    throw Error(
        ErrorCode::not_supported,
        {.asked = "cannot protect blocks by userfaultfd",
         .happened = there.why_not,
         .limit = "craton info",
         .remedy = "choose auto or mprotect; in a container, allow userfaultfd(2) in its seccomp profile"});
  }
  return Mechanism::userfaultfd;
}

std::unique_ptr<ViewPageTable> make_page_table(Mechanism mechanism, const Mechanisms& there,
                                               const SegmentMemory& memory, MapBudget& budget) {
  if (mechanism == Mechanism::userfaultfd)
    return std::make_unique<UserfaultfdPageTable>(memory, there.abilities);
  return std::make_unique<MprotectPageTable>(memory, budget);
}

}  // namespace craton::vm
