// std::atomic_load, atomic_store and the like of a std::shared_ptr. The C++ library locks mutexes of its own
// for them, which each process has for itself: so the program gets locks from us that exclude threads of all
// ranks, and bring along what was written under them.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>

#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"
#include "posix/remote_files.hpp"
#include "posix/shared_program.hpp"

namespace {

using craton::posix::shared_program;
using craton::posix::SharedProgram;

/// std::_Sp_locker: two keys, of the first and the last mutex that it holds.
struct Locker {
  std::uint8_t first;
  std::uint8_t last;
};

/// Four bits.
std::uint8_t key_of(const void* pointer) noexcept {
  constexpr std::uint64_t mix = 0x9e3779b97f4a7c15U;
  return static_cast<std::uint8_t>((reinterpret_cast<std::uintptr_t>(pointer) / sizeof(void*) * mix) >> 60U);
}

/// Handlers of signals run before or after it.
template <typename Call>
void call(SharedProgram& program, const Call& make) noexcept {
  const craton::KeptErrno kept;
  const craton::SignalSection section;
  craton::posix::guarded(program, make);
}

void lock(SharedProgram& program, Locker& locker, std::uint8_t one, std::uint8_t other) noexcept {
  locker = {.first = std::min(one, other), .last = std::max(one, other)};
  call(program, [&] {
    craton::space::Mutexes& mutexes = program.space().mutexes();
    mutexes.lock(program.mutex_of_key(locker.first));
    if (locker.last != locker.first) mutexes.lock(program.mutex_of_key(locker.last));
  });
}

void unlock(SharedProgram& program, const Locker& locker) noexcept {
  call(program, [&] {
    craton::posix::send_what_waits();
    if (locker.last != locker.first) program.unlock(program.mutex_of_key(locker.last));
    program.unlock(program.mutex_of_key(locker.first));
  });
}

/// The C++ library's own, before the program starts.
template <typename Function>
Function* real(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void lock_one(Locker* locker, const void* pointer) noexcept {
  if (SharedProgram* const program = shared_program())
    return lock(*program, *locker, key_of(pointer), key_of(pointer));
  real<void(Locker*, const void*)>("_ZNSt10_Sp_lockerC1EPKv")(locker, pointer);
}
void lock_two(Locker* locker, const void* one, const void* other) noexcept {
  if (SharedProgram* const program = shared_program())
    return lock(*program, *locker, key_of(one), key_of(other));
  real<void(Locker*, const void*, const void*)>("_ZNSt10_Sp_lockerC1EPKvS1_")(locker, one, other);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the C++ library's names
extern "C" {

[[gnu::visibility("default")]] void _ZNSt10_Sp_lockerC1EPKv(Locker* locker, const void* pointer) {
  lock_one(locker, pointer);
}
[[gnu::visibility("default")]] void _ZNSt10_Sp_lockerC2EPKv(Locker* locker, const void* pointer) {
  lock_one(locker, pointer);
}
[[gnu::visibility("default")]] void _ZNSt10_Sp_lockerC1EPKvS1_(Locker* locker, const void* one,
                                                               const void* other) {
  lock_two(locker, one, other);
}
[[gnu::visibility("default")]] void _ZNSt10_Sp_lockerC2EPKvS1_(Locker* locker, const void* one,
                                                               const void* other) {
  lock_two(locker, one, other);
}
[[gnu::visibility("default")]] void _ZNSt10_Sp_lockerD1Ev(Locker* locker) {
  if (SharedProgram* const program = shared_program()) return unlock(*program, *locker);
  real<void(Locker*)>("_ZNSt10_Sp_lockerD1Ev")(locker);
}
[[gnu::visibility("default")]] void _ZNSt10_Sp_lockerD2Ev(Locker* locker) {
  _ZNSt10_Sp_lockerD1Ev(locker);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
