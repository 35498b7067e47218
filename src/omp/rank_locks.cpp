#include "omp/rank_locks.hpp"

#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/processors.hpp"
#include "base/signals_blocked.hpp"
#include "omp/runtime.hpp"

namespace craton::omp {

space::Mutexes& RankLockHost::all() const noexcept {
  return runtime_.platform().space().mutexes();
}
std::uint32_t RankLockHost::mutexes() {
  return runtime_.platform().mutexes();
}
const char* RankLockHost::remedy_for_more_mutexes() const noexcept {
  return runtime_.platform().remedy_for_more_mutexes();
}
void RankLockHost::lock(space::MutexId mutex) {
  all().lock(mutex);
}
bool RankLockHost::try_lock(space::MutexId mutex) {
  return all().try_lock(mutex);
}
void RankLockHost::unlock(space::MutexId mutex) {
  all().unlock(mutex);
}
void RankLockHost::unlock_unpublished(space::MutexId mutex) {
  all().unlock_unpublished(mutex);
}
void RankLockHost::read(void* into, std::size_t offset, std::size_t bytes) {
  runtime_.read_words(into, offset, bytes);
}
void RankLockHost::write(std::size_t offset, const void* from, std::size_t bytes) {
  runtime_.write_words(offset, from, bytes);
}

void RankLockHost::start_thread() noexcept {
  try {
    const SignalsBlocked blocked;
    std::thread([this] { run_thread(); }).detach();  // it lives as long as the process
  } catch (const std::system_error& error) {
    runtime_.fail(Error::from_errno("cannot start a thread that unlocks for other ranks",
                                    error.code().value(), "ulimit -u"));
  }
}

void RankLockHost::wake_thread() noexcept {
  wake_ups_.wake();
}

void RankLockHost::run_thread() noexcept {
  use_all_processors();
  runtime_.guard([&] { wake_ups_.serve([&] { runtime_.remote_unlocks().do_ordered(); }); });
}

}  // namespace craton::omp
