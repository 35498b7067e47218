/// \file
/// Errors: every one says what was asked, what happened, and where there is one, the limit and the remedy.
/// Invariant: an Error is made where its cause is first known, and passed on unchanged.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace craton {

/// Kinds of failure that a caller may want to tell apart. The C API's status codes have the same order.
enum class ErrorCode : std::uint8_t {
  invalid_argument = 1,  ///< what was asked makes no sense: a bad flag, a rank out of range
  out_of_resources,      ///< memory, descriptors, maps, a limit of the system
  not_supported,         ///< this kernel, machine or build cannot do it
  not_found,             ///< a file, host, library or symbol is not there
  permission,            ///< the system refused it
  peer_lost,             ///< a rank that was needed has died
  timed_out,             ///< a time limit passed
  protocol,              ///< a peer sent what it must not send
  system,                ///< any other failure of a system call
  not_initialised,       ///< craton_init has not been called, or craton_finalize has
};

/// The name of a code, as in `invalid_argument`.
std::string_view name_of(ErrorCode code) noexcept;

/// The parts of a message. Only `asked` and `happened` are always there.
struct ErrorParts {
  std::string asked;     ///< "cannot map 64 GiB of shared memory"
  std::string happened;  ///< "the limit of /dev/shm is 2 GiB"
  std::string limit;     ///< how to see the limit: "df /dev/shm"
  std::string remedy;    ///< "run with --memory=file or raise it"
};

/// The exception of all rooms. Thrown on normal paths only, never on fault or signal paths, where a status is
/// returned. `what()` is one line: `asked: happened (limit); remedy`.
class Error : public std::exception {
 public:
  Error(ErrorCode code, ErrorParts parts);

  /// An Error from a failed system call: `happened` is the text of `errno_value`, the code follows from it.
  /// \param asked what could not be done
  /// \param errno_value the value of errno after the call
  static Error from_errno(std::string asked, int errno_value, std::string limit = {},
                          std::string remedy = {});

  ErrorCode code() const noexcept { return code_; }
  const ErrorParts& parts() const noexcept { return parts_; }
  const char* what() const noexcept override { return line_.c_str(); }

 private:
  ErrorCode code_;
  ErrorParts parts_;
  std::string line_;
};

}  // namespace craton
