#include "omp/process.hpp"

#include <cstdio>
#include <memory>
#include <string>

#include "base/assert.hpp"
#include "base/events.hpp"

namespace craton::omp {

namespace {

// The entry points of an ABI are functions without an object, so there is one for the process.
Runtime* the_runtime = nullptr;
constinit thread_local Thread* this_thread = nullptr;

/// Ends with its thread. What the thread does after that, in other such destructors and in exit handlers, it
/// does with another state, which stays.
struct ThreadHolder {
  std::unique_ptr<Thread> thread;

  ~ThreadHolder();
};
constinit thread_local bool is_ending = false;
thread_local ThreadHolder holder;

ThreadHolder::~ThreadHolder() {
  is_ending = true;
  if (thread == nullptr) return;
  if (the_runtime != nullptr) the_runtime->give_back(thread->blocks);
  this_thread = nullptr;
}

/// For a thread that runs exit handlers and destructors of the program's when what is thread-local is gone:
/// never destroyed.
Thread& make_lasting() {
  this_thread = new Thread(the_runtime != nullptr ? the_runtime->initial_icvs() : Icvs{});
  return *this_thread;
}

}  // namespace

Runtime* runtime() noexcept {
  return the_runtime;
}

Thread& self() {
  if (this_thread != nullptr) [[likely]]
    return *this_thread;
  if (is_ending) return make_lasting();
  holder.thread = std::make_unique<Thread>(the_runtime != nullptr ? the_runtime->initial_icvs() : Icvs{});
  this_thread = holder.thread.get();
  return *this_thread;
}

Thread* self_if_known() noexcept {
  return this_thread;
}

void start(Platform& platform, const Settings& settings) {
  CRATON_ASSERT(the_runtime == nullptr);
  the_runtime = new Runtime(platform, settings);  // the program may use it till its last exit handler
  if (settings.display == Settings::Display::no || platform.fabric().rank() != 0) return;
  const bool verbose = settings.display == Settings::Display::verbose;
  const std::string text = settings.text(the_runtime->default_threads(), verbose);
  static_cast<void>(std::fputs(text.c_str(), stderr));
}

void attach_master() {
  events::attach();
  Thread& master = make_lasting();
  master.is_master = true;
  the_runtime->settle(master);
}

void work() {
  events::attach();
  the_runtime->settle(make_lasting());
  the_runtime->work();
}

void stop() {
  the_runtime->stop();
}

}  // namespace craton::omp
