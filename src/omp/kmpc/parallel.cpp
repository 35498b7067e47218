/// \file
/// Regions, `teams` on the host, and what is asked for them beforehand.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <utility>

#include "omp/float_control.hpp"
#include "omp/kmpc/abi.hpp"
#include "omp/runtime.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

extern "C" void GOMP_teams_reg(void (*function)(void*), void* data, unsigned teams, unsigned thread_limit,
                               unsigned flags);

namespace {

using Microtask = void (*)(std::int32_t* global, std::int32_t* bound, ...);

/// Of the caller, for its next region or league.
struct Asked {
  std::uint32_t threads = 0;
  std::uint32_t teams = 0;
  std::uint32_t thread_limit = 0;
  Binding bind = Binding::none;
};
constinit thread_local Asked asked_for;

/// On the stack of who starts the region, where all ranks read it.
struct Call {
  Microtask code;
  std::size_t count;
  void* const* arguments;
};

template <std::size_t>
using Pointer = void*;

template <std::size_t... I>
void call_with(Microtask code, void* const* arguments, std::index_sequence<I...> /*all*/) {
  std::int32_t global = number();
  std::int32_t bound = global;
  reinterpret_cast<void (*)(std::int32_t*, std::int32_t*, Pointer<I>...)>(code)(&global, &bound,
                                                                                arguments[I]...);
}

/// Who takes fewer arguments than it gets does not see the others, so a few numbers do for all.
template <std::size_t... Most>
bool call_with_any(const Call& call, std::index_sequence<Most...> /*all*/) {
  const auto with = [&]<std::size_t most>(std::integral_constant<std::size_t, most> /*number*/) {
    if (call.count > most) return false;
    std::array<void*, most> arguments{};
    std::copy_n(call.arguments, call.count, arguments.begin());
    call_with(call.code, arguments.data(), std::make_index_sequence<most>{});
    return true;
  };
  return (with(std::integral_constant<std::size_t, Most>{}) || ...);
}

void run_call(void* data) {
  const Call& call = *static_cast<const Call*>(data);
  if (call_with_any(call, std::index_sequence<4, 12, 28, 60, 124, 252>{})) return;
  runtime()->platform().fail(
      "cannot run an OpenMP region: it uses more than 252 variables of its surroundings");
}

/// The teams of a `teams` construct.
struct LeagueCall {
  Call call;
  Asked wanted;
};

void run_league(void* data) {
  auto& league = *static_cast<LeagueCall*>(data);
  GOMP_teams_reg(&run_call, &league.call, league.wanted.teams, league.wanted.thread_limit, 0);
}

/// The arguments behind the last named one, each the size of a pointer, in memory that all ranks read.
class Arguments {
 public:
  static constexpr std::size_t usual = 28;

  Arguments(std::int32_t count, std::va_list& list) : count_(static_cast<std::size_t>(count)) {
    if (count_ > usual) more_ = static_cast<void**>(take_block(count_ * sizeof(void*)));
    for (std::size_t i = 0; i < count_; ++i) begin()[i] = va_arg(list, void*);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments() {
    if (more_ != nullptr) give_block(more_, count_ * sizeof(void*));
  }
  Call call(Microtask code) { return {.code = code, .count = count_, .arguments = begin()}; }

 private:
  void** begin() { return more_ != nullptr ? more_ : few_.data(); }

  std::size_t count_;
  std::array<void*, usual> few_;
  void** more_ = nullptr;
};

}  // namespace

CRATON_KMPC void __kmpc_push_num_threads(Location* /*at*/, std::int32_t /*thread*/, std::int32_t threads) {
  asked_for.threads = static_cast<std::uint32_t>(std::max(threads, 0));
}
CRATON_KMPC void __kmpc_pop_num_threads(Location* /*at*/, std::int32_t /*thread*/) {}
CRATON_KMPC void __kmpc_push_proc_bind(Location* /*at*/, std::int32_t /*thread*/, int bind) {
  asked_for.bind = binding_of(static_cast<unsigned>(bind));
}

CRATON_KMPC void __kmpc_fork_call(Location* /*at*/, std::int32_t count, Microtask code, ...) {
  std::va_list list;
  va_start(list, code);
  Arguments arguments(count, list);
  va_end(list);
  Call call = arguments.call(code);
  run_region({.function = &run_call,
              .data = &call,
              .code = reinterpret_cast<const void*>(code),
              .loop = {},
              .bind = std::exchange(asked_for.bind, Binding::none),
              .site = site_of(reinterpret_cast<std::uintptr_t>(code)),
              .float_control = float_control()},  // KMP_INHERIT_FP_CONTROL
             std::exchange(asked_for.threads, 0));
}
CRATON_KMPC void __kmpc_serialized_parallel(Location* /*at*/, std::int32_t /*thread*/) {
  asked_for.threads = 0;
  asked_for.bind = Binding::none;
  begin_region({}, 1);
}
CRATON_KMPC void __kmpc_end_serialized_parallel(Location* /*at*/, std::int32_t /*thread*/) {
  end_region();
}
/// \param argument null: the code has none
CRATON_KMPC void __kmpc_fork_call_if(Location* at, std::int32_t count, Microtask code, std::int32_t condition,
                                     void* argument) {
  if (condition != 0) return __kmpc_fork_call(at, count, code, argument);
  begin_region({}, 1);
  Call call{.code = code, .count = argument != nullptr ? 1U : 0U, .arguments = &argument};
  run_call(&call);
  end_region();
}

// ---- Teams

CRATON_KMPC void __kmpc_push_num_teams(Location* /*at*/, std::int32_t /*thread*/, std::int32_t teams,
                                       std::int32_t thread_limit) {
  asked_for.teams = static_cast<std::uint32_t>(std::max(teams, 0));
  asked_for.thread_limit = static_cast<std::uint32_t>(std::max(thread_limit, 0));
}
CRATON_KMPC void __kmpc_push_num_teams_51(Location* at, std::int32_t thread, std::int32_t /*least*/,
                                          std::int32_t most, std::int32_t thread_limit) {
  __kmpc_push_num_teams(at, thread, most, thread_limit);
}
CRATON_KMPC void __kmpc_fork_teams(Location* /*at*/, std::int32_t count, Microtask code, ...) {
  std::va_list list;
  va_start(list, code);
  Arguments arguments(count, list);
  va_end(list);
  Call call = arguments.call(code);
  LeagueCall league{.call = call, .wanted = std::exchange(asked_for, {})};
  // `teams` itself is outside of all regions; inside of one it is that of a target region.
  if (self().state.team != nullptr) return run_target(&run_league, &league, 0);
  run_league(&league);
}

// ---- Who runs

CRATON_KMPC std::int32_t __kmpc_global_thread_num(Location* /*at*/) {
  return number();
}
CRATON_KMPC std::int32_t __kmpc_global_num_threads(Location* /*at*/) {
  return static_cast<std::int32_t>(team_size());
}
CRATON_KMPC std::int32_t __kmpc_bound_thread_num(Location* /*at*/) {
  return number();
}
CRATON_KMPC std::int32_t __kmpc_bound_num_threads(Location* /*at*/) {
  return static_cast<std::int32_t>(team_size());
}
CRATON_KMPC std::int32_t __kmpc_in_parallel(Location* /*at*/) {
  return self().state.active_level != 0 ? 1 : 0;
}
CRATON_KMPC std::int32_t __kmpc_ok_to_fork(Location* /*at*/) {
  return 1;
}
CRATON_KMPC void __kmpc_begin(Location* /*at*/, std::int32_t /*flags*/) {}
CRATON_KMPC void __kmpc_end(Location* /*at*/) {}

}  // namespace craton::omp::kmpc
