#include "base/error.hpp"

#include <cerrno>
#include <system_error>
#include <utility>

namespace craton {

std::string_view name_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::out_of_resources:
      return "out_of_resources";
    case ErrorCode::not_supported:
      return "not_supported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::permission:
      return "permission";
    case ErrorCode::peer_lost:
      return "peer_lost";
    case ErrorCode::timed_out:
      return "timed_out";
    case ErrorCode::protocol:
      return "protocol";
    case ErrorCode::system:
      return "system";
    case ErrorCode::not_initialised:
      return "not_initialised";
  }
  return "unknown";
}

namespace {

std::string one_line(const ErrorParts& parts) {
  std::string line = parts.asked;
  line += ": ";
  line += parts.happened;
  if (!parts.limit.empty()) line += " (" + parts.limit + ")";
  if (!parts.remedy.empty()) line += "; " + parts.remedy;
  return line;
}

ErrorCode code_of_errno(int errno_value) {
  switch (errno_value) {
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EFBIG:
    case EAGAIN:
    case ENOBUFS:
      return ErrorCode::out_of_resources;
    case EINVAL:
      return ErrorCode::invalid_argument;
    case ENOENT:
    case ENXIO:
    case ENODEV:
      return ErrorCode::not_found;
    case EACCES:
    case EPERM:
      return ErrorCode::permission;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::not_supported;
    case ETIMEDOUT:
      return ErrorCode::timed_out;
    case EPIPE:
    case ECONNRESET:
      return ErrorCode::peer_lost;
    default:
      return ErrorCode::system;
  }
}

}  // namespace

Error::Error(ErrorCode code, ErrorParts parts)
    : code_(code), parts_(std::move(parts)), line_(one_line(parts_)) {}

Error Error::from_errno(std::string asked, int errno_value, std::string limit, std::string remedy) {
  return Error(code_of_errno(errno_value), {.asked = std::move(asked),
                                            .happened = std::generic_category().message(errno_value),
                                            .limit = std::move(limit),
                                            .remedy = std::move(remedy)});
}

}  // namespace craton
