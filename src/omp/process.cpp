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

/// Ends with its thread.
struct ThreadHolder {
  std::unique_ptr<Thread> thread;
};
thread_local ThreadHolder holder;

}  // namespace

Runtime* runtime() noexcept {
  return the_runtime;
}

Thread& self() {
  if (this_thread != nullptr) [[likely]]
    return *this_thread;
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
  Thread& thread = self();
  thread.is_master = true;
  thread.initial.icvs = the_runtime->initial_icvs();
}

void work() {
  events::attach();
  self().initial.icvs = the_runtime->initial_icvs();
  the_runtime->work();
}

void stop() {
  the_runtime->stop();
}

}  // namespace craton::omp
