/// \file
/// UCX as a transport, for networks with RDMA. UCX is loaded at run time: nothing here needs its headers, and
/// a build without them says so when it is asked for UCX.
///
/// Over RDMA, get, put and atomics are UCX's, executed by the network card. Elsewhere (tcp, shared memory)
/// UCX would emulate them; there Craton serves them itself over UCX's messages, because the emulation of
/// UCX 1.13 aborts a rank when one that was writing to it dies.
///
/// What is protected: messages and served operations carry a proof of the job's secret (frame_proof.hpp).
/// Operations that the network card executes carry none, as always with RDMA: keep such a network to those
/// who are trusted.
#pragma once

#include <memory>
#include <string>

#include "fabric/bootstrap.hpp"
#include "fabric/transport.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::ucx {

struct UcxOptions {
  std::string
      transports;  ///< as UCX_TLS: "tcp", "rc,tcp", "posix,sysv"; empty: the environment's, else UCX's choice
  std::string devices;  ///< as UCX_NET_DEVICES: "mlx5_0:1"; empty: the environment's, else all
  /// For tests: use UCX's own get, put and atomics also where it emulates them. The same on all ranks.
  bool ucx_emulation = false;
};

struct UcxAvailability {
  std::string version;         ///< of the library that would be used; empty if there is none
  std::string reason_why_not;  ///< empty if it can be used
  bool available() const noexcept { return reason_why_not.empty(); }
};

/// Whether UCX can be used here. Loads it on the first call; later calls cost nothing. Any thread, but the
/// first call sets environment variables for a moment, so no other thread may change or read the environment
/// then.
UcxAvailability ucx_availability();

/// Makes a rank's transport over UCX. Must not be destroyed on a thread that is inside its poll().
/// \param events outlives the transport
/// \throws Error not_supported (built without UCX headers), not_found (no library, no such transport or
/// device),
///         out_of_resources
std::unique_ptr<Transport> make_ucx_transport(Rank rank, Rank size, const JobSecret& secret,
                                              TransportEvents& events, const UcxOptions& options);

}  // namespace craton::fabric::ucx
