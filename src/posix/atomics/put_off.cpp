#include <utility>

#include "posix/atomics/entry.hpp"

namespace craton::posix {
namespace {

constexpr std::uint64_t zero_flag = 0x40;

/// The exchange that was made to fail and has not come back: the thread's next step is the one that offers
/// its part. A handler of a signal that goes through another one in between makes it fail once more.
thread_local const SiteRecord* asked = nullptr;
/// The exchange whose part was refused: the thread's next step there is done after all.
thread_local const SiteRecord* refused = nullptr;

/// Around what the thread has on its stack: it may look there before it has met the others, and what is
/// there may be gone when it has.
constexpr std::uint64_t own_stack_bytes = std::uint64_t{8} << 20U;

std::uint64_t lowest(std::uint64_t value, unsigned bytes) noexcept {
  return value & ~std::uint64_t{0} >> (64U - 8U * bytes);
}

}  // namespace

bool put_off(const SiteRecord& site, PerformState& state, void* target) noexcept {
  const AtomicHooks& hooks = site.shared->hooks;
  const Reduction& reduction = site.reduction;
  if (reinterpret_cast<std::uintptr_t>(target) - state.before.general[rsp] < own_stack_bytes) return false;
  if (hooks.may_put_off == nullptr || !hooks.may_put_off(reduction)) return false;
  if (std::exchange(refused, nullptr) == &site) return false;
  const std::uint64_t identity = reduction.arithmetic.identity();
  if (reduction.way == Reduction::Way::at_once) {
    std::uint64_t part = identity;
    site.perform(&state, &part);
    return hooks.put_off(target, reduction, part);
  }
  const unsigned bytes = site.operand.bytes;
  if (std::exchange(asked, nullptr) == &site && lowest(state.before.general[rax], bytes) == identity) {
    if (!hooks.put_off(target, reduction, lowest(state.before.general[reduction.offered], bytes))) {
      refused = &site;  // what is there is not what it computed with
      return false;
    }
    state.after.flags |= zero_flag;
    return true;
  }
  asked = &site;
  state.after.general[rax] = identity;
  state.after.flags &= ~zero_flag;
  return true;
}

}  // namespace craton::posix
