/// \file
/// What the C functions share: the process-wide job and space, and turning exceptions into statuses. C has no
/// objects to hand around between init and finalize, so this is one of the places where a process-wide object
/// is forced on us.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/error.hpp"
#include "craton/craton.h"
#include "job/job.hpp"

namespace craton::capi {

class OpenSpace;

/// Remembers the text for craton_last_error() of this thread. \returns the status of the code
craton_status failed(ErrorCode code, std::string text);
craton_status not_initialised(const char* function);

/// Runs something that may throw and turns exceptions into a status: none may cross into C.
template <typename Action>
craton_status guarded(Action&& action) noexcept {
  try {
    return action();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::out_of_resources, "out of memory");
  } catch (const std::exception& error) {
    return failed(ErrorCode::system, error.what());
  }
}

/// Between craton_init and craton_finalize, else null.
job::Job* current_job() noexcept;

/// The same, for what a rank does with others. \param function in which a forked child is refused \throws
/// Error not_supported
job::Job* job_of_this_process(const char* function);

/// For craton_finalize. Collective, if there is a space; after it nothing may be done with it. \returns it,
/// to be destroyed after the job has ended \throws Error
OpenSpace* close_space();
void destroy_space(OpenSpace* space) noexcept;

}  // namespace craton::capi
