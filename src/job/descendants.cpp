#include "job/descendants.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace craton::job {

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

std::string content_of(const std::string& path) {
  std::string content;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  ssize_t count = 0;
  while (file && (count = ::read(file.get(), buffer.data(), buffer.size())) > 0) {
    content.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return content;
}

bool is_zombie(pid_t pid) {
  // "pid (name) state ...", where the name may hold anything, also ')'.
  const std::string stat = content_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() || stat[name_end + 2] == 'Z' ||
         stat[name_end + 2] == 'X';
}

void append_children(pid_t parent, std::vector<pid_t>& found) {
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task";
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(tasks.c_str()));
  if (!directory) return;  // it has ended
  while (const dirent* entry = ::readdir(directory.get())) {
    if (entry->d_name[0] == '.') continue;
    const std::string children = content_of(tasks + "/" + entry->d_name + "/children");
    const char* at = children.data();
    const char* const end = at + children.size();
    while (at < end) {
      pid_t pid = 0;
      const auto [next, error] = std::from_chars(at, end, pid);
      if (error == std::errc() && pid > 0) found.push_back(pid);
      at = next + 1;
    }
  }
}

}  // namespace

void adopt_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    throw Error::from_errno("cannot become the parent of orphaned processes", errno);
  }
}

std::vector<pid_t> live_descendants() {
  std::vector<pid_t> found;
  append_children(::getpid(), found);
  for (std::size_t i = 0; i < found.size(); ++i) append_children(found[i], found);
  std::erase_if(found, is_zombie);
  return found;
}

}  // namespace craton::job
