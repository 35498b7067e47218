/// \file
/// The UCX library as loaded at run time: its functions as pointers, never linked against, so that Craton
/// runs where there is no UCX. Needs UCX's headers; include it only where CRATON_HAVE_UCX is defined.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace craton::fabric::ucx {

// Every function that Craton calls. One list, so that none is declared and not resolved.
#define CRATON_UCP_FUNCTIONS(apply)                                                                         \
  apply(ucp_get_version) apply(ucp_get_version_string) apply(ucp_config_read) apply(ucp_config_modify)      \
      apply(ucp_config_release) apply(ucp_init_version) apply(ucp_cleanup) apply(ucp_context_print_info)    \
          apply(ucp_worker_create) apply(ucp_worker_destroy) apply(ucp_worker_get_address)                  \
              apply(ucp_worker_release_address) apply(ucp_worker_get_efd) apply(ucp_worker_arm)             \
                  apply(ucp_worker_signal) apply(ucp_worker_progress) apply(ucp_worker_set_am_recv_handler) \
                      apply(ucp_ep_create) apply(ucp_ep_close_nbx) apply(ucp_ep_flush_nbx)                  \
                          apply(ucp_ep_rkey_unpack) apply(ucp_rkey_destroy) apply(ucp_rkey_pack)            \
                              apply(ucp_rkey_buffer_release) apply(ucp_mem_map) apply(ucp_mem_unmap)        \
                                  apply(ucp_put_nbx) apply(ucp_get_nbx) apply(ucp_atomic_op_nbx)            \
                                      apply(ucp_am_send_nbx) apply(ucp_request_free)                        \
                                          apply(ucs_status_string)

/// The functions, under their own names: `library.ucp_put_nbx(...)`.
struct UcpLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member takes none
#define CRATON_DECLARE_FUNCTION(name) decltype(&::name) name = nullptr;
  CRATON_UCP_FUNCTIONS(CRATON_DECLARE_FUNCTION)
#undef CRATON_DECLARE_FUNCTION
  std::string version;
};

/// Sets the variables that keep UCX from touching the process (signal handlers, memory hooks) and puts back
/// what was there. UCX reads them while it is loaded and again when a context is made, so both happen inside
/// one of these.
class QuietEnvironment {
 public:
  QuietEnvironment();
  ~QuietEnvironment();
  QuietEnvironment(const QuietEnvironment&) = delete;
  QuietEnvironment& operator=(const QuietEnvironment&) = delete;

 private:
  struct Saved {
    const char* name;
    bool was_set;
    std::string value;
  };
  std::vector<Saved> saved_;
};

/// The library, loaded on the first call and kept until the process ends: UCX cannot be unloaded safely.
/// \throws Error not_found, not_supported
const UcpLibrary& ucp_library();

/// Throws an Error that says what UCX answered.
[[noreturn]] void fail(const UcpLibrary& ucp, ErrorCode code, std::string asked, ucs_status_t status,
                       std::string remedy);

}  // namespace craton::fabric::ucx
