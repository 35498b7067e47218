// The C interface of the job: plain functions over one process-wide job.
#include "craton/craton.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "capi/calls.hpp"
#include "vm/process_mark.hpp"

namespace {

using craton::ErrorCode;
using craton::capi::failed;
using craton::capi::guarded;
using craton::capi::not_initialised;
using craton::job::Job;

constinit std::mutex life_lock;     // one init or finalize at a time
constinit std::mutex barrier_lock;  // held by the thread that is in the barrier
constinit std::atomic<Job*> current{
    nullptr};                            // never destroyed at exit: a process that skips finalize just ends
constinit bool was_initialised = false;  // guarded by life_lock

thread_local std::string last_error;

/// A number of the job, or -1.
template <typename Read>
int number_of_job(const char* function, Read&& read) noexcept {
  Job* const job = current.load(std::memory_order_acquire);
  if (job == nullptr) {
    guarded([function] { return not_initialised(function); });
    return -1;
  }
  return static_cast<int>(read(*job));
}

}  // namespace

namespace craton::capi {

craton_status failed(ErrorCode code, std::string text) {
  last_error = std::move(text);
  return static_cast<craton_status>(code);
}

craton_status not_initialised(const char* function) {
  return failed(ErrorCode::not_initialised,
                std::string("cannot call ") + function +
                    ": this process has no job; call craton_init first, and not after "
                    "craton_finalize");
}

Job* current_job() noexcept {
  return current.load(std::memory_order_acquire);
}

Job* job_of_this_process(const char* function) {
  Job* const job = current_job();
  if (job == nullptr || vm::process_mark() != 0) return job;
  throw Error(ErrorCode::not_supported,
              {.asked = std::string("cannot call ") + function,
               .happened = "this process was forked from a rank, and is none: what it did would be done in "
                           "its parent's name",
               .limit = {},
               .remedy = "start another program by exec, or call it in the parent"});
}

}  // namespace craton::capi

craton_status craton_init(void) {
  return guarded([] {
    const std::lock_guard lock(life_lock);
    if (was_initialised) {
      return failed(
          ErrorCode::invalid_argument,
          "cannot initialise Craton: craton_init has been called before in this process, and a process "
          "joins its job once");
    }
    craton::vm::mark_process();
    current.store(Job::join().release(), std::memory_order_release);
    was_initialised = true;
    return CRATON_OK;
  });
}

craton_status craton_finalize(void) {
  return guarded([] {
    const std::lock_guard lock(life_lock);
    Job* const job = craton::capi::job_of_this_process("craton_finalize");
    if (job == nullptr) return not_initialised("craton_finalize");
    craton::capi::OpenSpace* const space = craton::capi::close_space();
    job->finalize();
    current.store(nullptr, std::memory_order_release);
    craton::capi::destroy_space(space);
    delete job;
    return CRATON_OK;
  });
}

int craton_initialized(void) {
  return current.load(std::memory_order_acquire) != nullptr ? 1 : 0;
}

int craton_rank(void) {
  return number_of_job("craton_rank", [](Job& job) { return job.rank(); });
}

int craton_size(void) {
  return number_of_job("craton_size", [](Job& job) { return job.size(); });
}

int craton_node(void) {
  return number_of_job("craton_node", [](Job& job) { return job.fabric().node_of(job.rank()); });
}

int craton_node_of(int rank) {
  return number_of_job("craton_node_of", [rank](Job& job) {
    if (rank >= 0 && static_cast<unsigned>(rank) < job.size()) {
      return static_cast<int>(job.fabric().node_of(static_cast<unsigned>(rank)));
    }
    guarded([rank, &job] {
      return failed(ErrorCode::invalid_argument, "cannot tell the node of rank " + std::to_string(rank) +
                                                     ": the job has ranks 0 to " +
                                                     std::to_string(job.size() - 1));
    });
    return -1;
  });
}

craton_status craton_barrier(void) {
  return guarded([] {
    Job* const job = craton::capi::job_of_this_process("craton_barrier");
    if (job == nullptr) return not_initialised("craton_barrier");
    const std::unique_lock lock(barrier_lock, std::try_to_lock);
    if (!lock.owns_lock()) {
      return failed(
          ErrorCode::invalid_argument,
          "cannot wait in craton_barrier: another thread of this rank already does; call it from one thread");
    }
    job->barrier();
    return CRATON_OK;
  });
}

const char* craton_last_error(void) {
  return last_error.c_str();
}

const char* craton_status_name(craton_status status) {
  if (status == CRATON_OK) return "ok";
  // name_of returns literals, which end in a zero.
  return craton::name_of(static_cast<ErrorCode>(status)).data();
}

const char* craton_version(void) {
  return craton::job::version();
}
