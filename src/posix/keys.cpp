// Keys of thread-specific values. Their numbers are each process's own, but the program uses one number on
// all ranks, where it lies in memory that all see: then all have the same key.
//
//     create on rank r ──▶ the real one here gives k ──▶ all others make keys until theirs is k, and delete
//     the rest ──▶ where k is taken on one of them: r keeps k from being given again, and tries the next
//
// One rank at a time does so. Keys that libraries keep in private data stay their process's, and are what k
// may be taken by.
#include <pthread.h>
#include <threads.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>

#include "posix/everywhere.hpp"
#include "posix/monitor.hpp"
#include "posix/real.hpp"

namespace craton::posix {

namespace {

/// By number: those that all ranks have.
std::array<std::atomic<bool>, PTHREAD_KEYS_MAX> shared_keys{};

/// Keys of this process that only keep their numbers from being given again, until the end.
class HeldKeys {
 public:
  HeldKeys() = default;
  HeldKeys(const HeldKeys&) = delete;
  HeldKeys& operator=(const HeldKeys&) = delete;
  ~HeldKeys() {
    for (std::size_t i = 0; i < count_; ++i) CRATON_REAL(pthread_key_delete)(keys_[i]);
  }
  void hold(pthread_key_t key) noexcept { keys_[count_++] = key; }

 private:
  std::array<pthread_key_t, PTHREAD_KEYS_MAX> keys_;
  std::size_t count_ = 0;
};

/// \returns 0 or an error number
int create_on_all(Everywhere& others, pthread_key_t* key, void (*destructor)(void*)) noexcept {
  KeyChange change{.key = 0, .destructor = destructor};
  HeldKeys refused;
  int error = 0;
  monitor()->inside(&shared_keys, [&] {
    while ((error = CRATON_REAL(pthread_key_create)(&change.key, destructor)) == 0) {
      if (others.make(Everywhere::Kind::key, &change, sizeof change)) {
        shared_keys[change.key].store(true);
        return;
      }
      others.make(Everywhere::Kind::key_deleted, &change, sizeof change);
      refused.hold(change.key);
    }
  });
  if (error == 0) *key = change.key;
  return error;
}

}  // namespace

bool make_key_as_told(const KeyChange& change) noexcept {
  HeldKeys passed;
  pthread_key_t made = 0;
  // The C library gives the lowest number that is free.
  while (CRATON_REAL(pthread_key_create)(&made, change.destructor) == 0) {
    if (made == change.key) {
      shared_keys[made].store(true);
      return true;
    }
    passed.hold(made);
    if (made > change.key) break;
  }
  return false;
}

bool delete_key_as_told(const KeyChange& change) noexcept {
  if (change.key >= shared_keys.size()) return false;
  return !shared_keys[change.key].exchange(false) || CRATON_REAL(pthread_key_delete)(change.key) == 0;
}

}  // namespace craton::posix

// ---- What programs call

using craton::posix::Everywhere;
using craton::posix::everywhere_now;
using craton::posix::shared_program;

extern "C" {

[[gnu::visibility("default")]] int pthread_key_create(pthread_key_t* key,
                                                      void (*destructor)(void*)) noexcept {
  Everywhere* const others = everywhere_now();
  if (others == nullptr || !shared_program()->is_shared(key))
    return CRATON_REAL(pthread_key_create)(key, destructor);
  return craton::posix::create_on_all(*others, key, destructor);
}

[[gnu::visibility("default")]] int pthread_key_delete(pthread_key_t key) noexcept {
  using craton::posix::shared_keys;
  Everywhere* const others = everywhere_now();
  if (others == nullptr || key >= shared_keys.size() || !shared_keys[key].load())
    return CRATON_REAL(pthread_key_delete)(key);
  const craton::posix::KeyChange change{.key = key, .destructor = nullptr};
  int error = 0;
  craton::posix::monitor()->inside(&shared_keys, [&] {
    error = CRATON_REAL(pthread_key_delete)(key);
    if (error != 0) return;
    shared_keys[key].store(false);
    others->make(Everywhere::Kind::key_deleted, &change, sizeof change);
  });
  return error;
}

[[gnu::visibility("default")]] int tss_create(tss_t* key, tss_dtor_t destructor) {
  return pthread_key_create(key, destructor) == 0 ? thrd_success : thrd_error;
}

[[gnu::visibility("default")]] void tss_delete(tss_t key) {
  pthread_key_delete(key);
}

}  // extern "C"
