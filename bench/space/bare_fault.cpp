#include "space/bare_fault.hpp"

#include <signal.h>

#include <cerrno>
#include <cstdint>

#include "base/error.hpp"

namespace craton::bench {

struct BareFaults::Before {
  struct sigaction action;
};

namespace {
BareFaults* current = nullptr;  // what the signal handler serves
}

struct BareFaultsHandler {
  static void serve(int /*signal*/, siginfo_t* info, void* /*context*/) {
    BareFaults& faults = *current;
    const auto offset =
        static_cast<std::size_t>(static_cast<std::byte*>(info->si_addr) - faults.view_) & ~std::size_t{4095};
    if (faults.granted_ == PROT_READ)
      faults.bring_(faults.context_, offset / BareFaults::page_bytes, faults.memory_.data() + offset);
    ::mprotect(faults.view_ + offset, BareFaults::page_bytes, faults.granted_);
  }
};

BareFaults::BareFaults(std::size_t pages, Bring bring, void* context)
    : memory_("bench bare", pages * page_bytes), bring_(bring), context_(context), before_(new Before) {
  void* const view = ::mmap(nullptr, memory_.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.fd(), 0);
  if (view == MAP_FAILED) throw Error::from_errno("cannot map the bare view", errno);
  view_ = static_cast<std::byte*>(view);
  // Every page is touched once in both views: their page table entries are there.
  for (std::size_t page = 0; page < pages; ++page) {
    memory_.data()[page * page_bytes] = std::byte{1};
    static_cast<volatile std::byte*>(view_)[page * page_bytes] = std::byte{1};
  }
  protect(PROT_NONE);
  current = this;
  struct sigaction action {};
  action.sa_sigaction = &BareFaultsHandler::serve;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &before_->action);
}

BareFaults::~BareFaults() {
  ::sigaction(SIGSEGV, &before_->action, nullptr);
  delete before_;
  ::munmap(view_, memory_.bytes());
}

void BareFaults::protect(int protection) {
  granted_ = protection == PROT_NONE ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::mprotect(view_, memory_.bytes(), protection) != 0)
    throw Error::from_errno("cannot protect the bare view", errno);
}

}  // namespace craton::bench
