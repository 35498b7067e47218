#include "fabric/ucx/ucx.hpp"

#if defined(CRATON_HAVE_UCX)

#include "fabric/ucx/ucp_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace craton::fabric::ucx {

namespace {

constexpr const char* library_name = "libucp.so.0";
/// The oldest version with everything that is called here, as tested.
constexpr unsigned oldest_major = 1;
constexpr unsigned oldest_minor = 13;

struct Setting {
  const char* name;
  const char* value;
  bool user_decides = false;  ///< left alone where it is set
};

// The names are those of UCX 1.13. Each is one way in which UCX changes its host.
constexpr Setting quiet_settings[] = {
    {"UCX_HANDLE_ERRORS", "none"},       // handlers of SIGSEGV, SIGBUS, ... and an alternate signal stack
    {"UCX_ERROR_SIGNALS", ""},           // the signals of those handlers
    {"UCX_DEBUG_SIGNO", "0"},            // a handler of SIGHUP
    {"UCX_MEM_EVENTS", "n"},             // watching mmap, munmap, brk, madvise, ...
    {"UCX_MEM_MMAP_HOOK_MODE", "none"},  // patching their code in libc
    {"UCX_MEM_CUDA_HOOK_MODE", "none"},  // the same for CUDA's
    {"UCX_MEM_MALLOC_HOOKS", "n"},       // replacing malloc
    {"UCX_MEM_MALLOC_RELOC", "n"},
    {"UCX_LOG_LEVEL", "error", true},  // warnings of transports that are merely not there
    {"UCX_VFS_ENABLE", "n"},           // a thread and a file system for its own inspection
};

template <typename Function>
void resolve(void* handle, const char* name, Function& function) {
  // POSIX guarantees that what dlsym returns for a function converts to a pointer to it.
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr) {
    throw Error(ErrorCode::not_supported,
                {.asked = "cannot use UCX",
                 .happened = fmt::format("{} has no function {}", library_name, name),
                 .limit = {},
                 .remedy = "install UCX 1.13 or later, or use the tcp transport"});
  }
}

UcpLibrary load() {
  const QuietEnvironment quiet;
  // NODELETE: UCX leaves threads and handlers of exit behind. LOCAL: its symbols are nobody else's business.
  void* handle = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    throw Error(ErrorCode::not_found, {.asked = "cannot load UCX",
                                       .happened = reason == nullptr ? "unknown reason" : reason,
                                       .limit = {},
                                       .remedy = "install libucx0, or use the tcp transport"});
  }
  UcpLibrary library;
#define CRATON_RESOLVE_FUNCTION(name) resolve(handle, #name, library.name);
  CRATON_UCP_FUNCTIONS(CRATON_RESOLVE_FUNCTION)
#undef CRATON_RESOLVE_FUNCTION
  library.version = library.ucp_get_version_string();
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  library.ucp_get_version(&major, &minor, &release);
  if (major != oldest_major || minor < oldest_minor) {
    throw Error(
        ErrorCode::not_supported,
        {.asked = "cannot use UCX",
         .happened = fmt::format("{} is version {}", library_name, library.version),
         .limit = fmt::format("needs {}.{} or a later {}.x", oldest_major, oldest_minor, oldest_major),
         .remedy = "install a later UCX, or use the tcp transport"});
  }
  return library;
}

}  // namespace

QuietEnvironment::QuietEnvironment() {
  for (const Setting& setting : quiet_settings) {
    const char* before = std::getenv(setting.name);
    if (setting.user_decides && before != nullptr) continue;
    saved_.push_back({setting.name, before != nullptr, before == nullptr ? "" : before});
    ::setenv(setting.name, setting.value, 1);
  }
}

QuietEnvironment::~QuietEnvironment() {
  for (const Saved& saved : saved_) {
    if (saved.was_set) {
      ::setenv(saved.name, saved.value.c_str(), 1);
    } else {
      ::unsetenv(saved.name);
    }
  }
}

const UcpLibrary& ucp_library() {
  // A loaded library belongs to the process, whoever loads it. A failed load is tried again at the next call.
  static const UcpLibrary library = load();
  return library;
}

void fail(const UcpLibrary& ucp, ErrorCode code, std::string asked, ucs_status_t status, std::string remedy) {
  throw Error(code, {.asked = std::move(asked),
                     .happened = fmt::format("UCX {}: {}", ucp.version, ucp.ucs_status_string(status)),
                     .limit = {},
                     .remedy = std::move(remedy)});
}

UcxAvailability ucx_availability() {
  try {
    return {ucp_library().version, {}};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

}  // namespace craton::fabric::ucx

#else

#include "base/error.hpp"

namespace craton::fabric::ucx {

UcxAvailability ucx_availability() {
  return {{}, "built without UCX headers"};
}

std::unique_ptr<Transport> make_ucx_transport(Rank /*rank*/, Rank /*size*/, const JobSecret& /*secret*/,
                                              TransportEvents& /*events*/, const UcxOptions& /*options*/) {
  throw Error(ErrorCode::not_supported,
              {.asked = "cannot use UCX",
               .happened = "built without UCX headers",
               .limit = {},
               .remedy = "install libucx-dev and build again, or use the tcp transport"});
}

}  // namespace craton::fabric::ucx

#endif
