#include <signal.h>
#include <sys/mman.h>

#include <cerrno>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"
#include "vm/thread_scope.hpp"
#include "vm/vm.hpp"

namespace craton::bench {
namespace {

int opened_protection = PROT_READ;

void open_page(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto page = reinterpret_cast<std::uintptr_t>(info->si_addr) & ~std::uintptr_t{4095};
  ::mprotect(reinterpret_cast<void*>(page), 4096, opened_protection);
}

int protection_of(vm::Access access) noexcept {
  return access == vm::Access::none   ? PROT_NONE
         : access == vm::Access::read ? PROT_READ
                                      : PROT_READ | PROT_WRITE;
}

class BareProtection final : public Protection {
 public:
  explicit BareProtection(bool read_only) : memory_("bench-bare", vm_blocks * 4096) {
    opened_protection = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    void* const view = ::mmap(nullptr, vm_blocks * 4096, PROT_NONE, MAP_SHARED, memory_.fd(), 0);
    if (view == MAP_FAILED) throw Error::from_errno("cannot map the bare view", errno);
    view_ = static_cast<std::byte*>(view);
    for (std::uint64_t block = 0; block < vm_blocks; ++block) memory_.data()[block * 4096] = std::byte{1};
    struct sigaction action {};
    action.sa_sigaction = open_page;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~BareProtection() override {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(view_, vm_blocks * 4096);
  }
  std::byte* view() const noexcept override { return view_; }
  void set_access(std::span<const vm::Run> runs, vm::Access access) override {
    for (const vm::Run& run : runs) {
      if (::mprotect(view_ + run.first * 4096, run.count * 4096, protection_of(access)) != 0)
        throw Error::from_errno("cannot protect the bare view", errno);
    }
  }

 private:
  const vm::ThreadScope scope_;
  fabric::RegionMemory memory_;
  std::byte* view_ = nullptr;
  struct sigaction before_ {};
};

}  // namespace

std::unique_ptr<Protection> make_bare(bool read_only) {
  return std::make_unique<BareProtection>(read_only);
}

}  // namespace craton::bench
