#include "vm/process_mark.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>

#include "base/error.hpp"
#include "vm/kernel_interface.hpp"

namespace craton::vm {
namespace {

// In a page that the kernel fills with zeros in a child: whatever way it was forked, no library has to
// notice.
std::atomic<std::atomic<ProcessMark>*> marked_page{nullptr};
std::atomic<ProcessMark> last_mark{0};

}  // namespace

ProcessMark mark_process() {
  if (marked_page.load(std::memory_order_acquire) == nullptr) {
    void* const page =
        ::mmap(nullptr, kernel::page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || ::madvise(page, kernel::page_bytes(), MADV_WIPEONFORK) != 0) {
      throw Error::from_errno("cannot make a page that tells a process from its children", errno,
                              "sysctl vm.max_map_count; ulimit -v");
    }
    marked_page.store(static_cast<std::atomic<ProcessMark>*>(page), std::memory_order_release);
  }
  std::atomic<ProcessMark>& mark = *marked_page.load(std::memory_order_acquire);
  if (mark.load() == 0) mark.store(last_mark.fetch_add(1) + 1);
  return mark.load();
}

ProcessMark process_mark() noexcept {
  const auto* const mark = marked_page.load(std::memory_order_acquire);
  return mark == nullptr ? 0 : mark->load(std::memory_order_relaxed);
}

}  // namespace craton::vm
