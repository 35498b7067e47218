/// \file
/// The job of somebody else's launcher (mpirun, srun) as a Bootstrap, through PMIx. The library is loaded at
/// run time.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "fabric/bootstrap.hpp"

namespace craton::job {

/// A Bootstrap that can also end the job, which no launcher of ours would do here.
class PmixBootstrap : public fabric::Bootstrap {
 public:
  /// True if the environment says that a PMIx server started this process.
  static bool present() noexcept;

  /// Loads the library, connects to the server, and agrees on the secret of the job: rank 0 makes it and
  /// publishes it to the other ranks. Collective; blocks. \param library name or path of libpmix.so.2 \param
  /// timeout_ns for each exchange \throws Error not_found, not_supported, timed_out, system
  static std::unique_ptr<PmixBootstrap> connect(const std::string& library, TimeNs timeout_ns);

  /// Asks the server to end every process of the job; returns if it did not end this one. Any thread.
  virtual void abort(int exit_code, const std::string& why) noexcept = 0;
};

}  // namespace craton::job
