// Boost.Context: its fiber class, which is what it offers, and the bare jump beneath it, which it declares in
// a header but calls a detail.
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <memory>
#include <utility>

#include "fibers/workloads.hpp"

namespace craton::bench {
namespace {

Sample fiber_turn(const Load& load) {
  namespace context = boost::context;
  context::fiber there([](context::fiber&& here) {
    for (;;) here = std::move(here).resume();
    return std::move(here);
  });
  return time_batches(load.turn_ns, [&there](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) there = std::move(there).resume();
  });
}

[[noreturn]] void answer(boost::context::detail::transfer_t from) {
  for (;;) from = boost::context::detail::jump_fcontext(from.fctx, nullptr);
}

Sample fcontext_turn(const Load& load) {
  namespace detail = boost::context::detail;
  constexpr std::size_t stack_bytes = 64 * 1024;
  const auto stack = std::make_unique<std::byte[]>(stack_bytes);
  detail::fcontext_t there = detail::make_fcontext(stack.get() + stack_bytes, stack_bytes, answer);
  return time_batches(load.turn_ns, [&there](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) there = detail::jump_fcontext(there, nullptr).fctx;
  });
}

}  // namespace

std::vector<Way> boost_context_ways() {
  return {
      {Workload::context_switch, "boost.context", fiber_turn},
      {Workload::context_switch, "boost fcontext", fcontext_turn},
  };
}

}  // namespace craton::bench
