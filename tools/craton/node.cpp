// `craton _node`: the daemon of one host. Its standard input and output are the pipes to the launcher;
// `--input` is the number of a descriptor that rank 0 reads.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "commands.hpp"
#include "job/node.hpp"

namespace craton::tools {

int node_main(int input) {
  UniqueFd given(input);
  if (given) static_cast<void>(::fcntl(given.get(), F_SETFD, FD_CLOEXEC));
  // Moved out of the way, so that neither a rank nor a stray print can reach them.
  UniqueFd from_launcher(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd to_launcher(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!from_launcher || !to_launcher || !nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 ||
      ::dup2(nothing.get(), STDOUT_FILENO) < 0) {
    throw Error::from_errno("cannot set up the node daemon", errno, {},
                            "it is started by craton run, not by hand");
  }
  const SteadyClock clock;
  return job::Node(clock, std::move(from_launcher), std::move(to_launcher), std::move(given)).run();
}

}  // namespace craton::tools
