/// \file
/// Code that pthread_cancel() must not unwind: its thread has locks of the runtime, or waits for an answer,
/// in functions of the C library that are cancellation points. The program's thread ends at its next one
/// after that.
#pragma once

#include <pthread.h>

namespace craton {

/// While one exists, the calling thread is not cancelled. Some nanoseconds; less where they nest.
class NoCancellation {
 public:
  NoCancellation() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  NoCancellation(const NoCancellation&) = delete;
  NoCancellation& operator=(const NoCancellation&) = delete;
  ~NoCancellation() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace craton
