#include "job/machine.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/unique_fd.hpp"
#include "vm/mechanism.hpp"

namespace craton::job {
namespace {

// --- files
// -----------------------------------------------------------------------------------------------------

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream whole;
  whole << file.rdbuf();
  std::string text = whole.str();
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  const std::optional<std::string> text = read_text(path);
  return text ? parse_number(*text) : std::nullopt;
}

/// The value of "Name:   123 kB" in a text such as /proc/meminfo, without its unit.
std::int64_t field(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::size_t start = line.find_first_not_of(" \t", name.size() + 1);
    if (start == line.npos) return 0;
    return parse_number(std::string_view(line).substr(start)).value_or(0);
  }
  return 0;
}

// --- control groups
// --------------------------------------------------------------------------------------------

/// Where the files of a controller lie: a mount point, and the group of this process below it.
struct GroupPath {
  std::string mount;
  std::string group;  ///< "/user.slice/x", "/" or empty
  bool unified = false;
};

/// Whether "cpu,cpuacct" lists "cpu".
bool lists(const std::string& controllers, std::string_view controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

/// \param controller "cpu" or "memory"
std::vector<GroupPath> find_groups(const std::string& root, std::string_view controller) {
  std::vector<GroupPath> found;
  const std::optional<std::string> groups = read_text(root + "/proc/self/cgroup");
  if (!groups) return found;
  std::istringstream lines(*groups);
  for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/path", "0::/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      found.push_back({root + "/sys/fs/cgroup", group, true});
      found.push_back({root + "/sys/fs/cgroup/unified", group, true});
    } else if (lists(controllers, controller)) {
      found.push_back({root + "/sys/fs/cgroup/" + std::string(controller), group, false});
      found.push_back({root + "/sys/fs/cgroup/" + controllers, group, false});
    }
  }
  return found;
}

/// Calls `visit(folder, unified)` for the group of this process and every group above it. A folder that is
/// not there (in a container the path may be the host's) is visited too; its files then cannot be read.
template <typename Visit>
void for_each_group(const std::string& root, std::string_view controller, Visit visit) {
  for (const GroupPath& path : find_groups(root, controller)) {
    std::string group = path.group == "/" ? "" : path.group;
    for (;;) {
      visit(path.mount + group, path.unified);
      if (group.empty()) break;
      const std::size_t slash = group.rfind('/');
      group.resize(slash == group.npos ? 0 : slash);
    }
  }
}

std::optional<GroupLimit<double>> read_core_quota(const std::string& root) {
  std::optional<GroupLimit<double>> least;
  for_each_group(root, "cpu", [&](const std::string& folder, bool unified) {
    std::optional<std::int64_t> quota;
    std::optional<std::int64_t> period;
    const std::string file = folder + (unified ? "/cpu.max" : "/cpu.cfs_quota_us");
    if (unified) {
      const std::string text = read_text(file).value_or("max");  // "150000 100000" or "max 100000"
      quota = parse_number(text);
      const std::size_t space = text.find(' ');
      if (space != text.npos) period = parse_number(std::string_view(text).substr(space + 1));
    } else {
      quota = read_number(file);  // -1: none
      period = read_number(folder + "/cpu.cfs_period_us");
    }
    if (!quota || *quota <= 0 || !period || *period <= 0) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    if (!least || cores < least->value) least = GroupLimit<double>{cores, file};
  });
  return least;
}

std::optional<GroupLimit<std::uint64_t>> read_memory_limit(const std::string& root) {
  // Version 1 writes "no limit" as the largest multiple of the page size.
  constexpr std::int64_t none_from = std::int64_t{1} << 62;
  std::optional<GroupLimit<std::uint64_t>> least;
  for_each_group(root, "memory", [&](const std::string& folder, bool unified) {
    const std::string file = folder + (unified ? "/memory.max" : "/memory.limit_in_bytes");
    const std::optional<std::int64_t> limit = read_number(file);  // "max": no number
    if (!limit || *limit < 0 || *limit >= none_from) return;
    const auto bytes = static_cast<std::uint64_t>(*limit);
    if (!least || bytes < least->value) least = GroupLimit<std::uint64_t>{bytes, file};
  });
  return least;
}

// --- probes
// ----------------------------------------------------------------------------------------------------

std::uint64_t limit_value(rlim_t value) {
  return value == RLIM_INFINITY ? unlimited : value;
}

ResourceLimit read_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return {};
  return {limit_value(limit.rlim_cur), limit_value(limit.rlim_max)};
}

/// Whether the effective set of this process has a capability.
bool has_capability(const std::string& status, int capability) {
  const std::size_t at = status.find("CapEff:");
  if (at == status.npos) return false;
  return ((std::strtoull(status.c_str() + at + 7, nullptr, 16) >> capability) & 1) != 0;
}

/// A mapping that ends with its scope.
class Mapping {
 public:
  Mapping(std::size_t bytes, int protection, int flags, int fd) noexcept
      : address_(::mmap(nullptr, bytes, protection, flags, fd, 0)), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (*this) ::munmap(address_, bytes_);
  }
  explicit operator bool() const noexcept { return address_ != MAP_FAILED; }
  void* address() const noexcept { return address_; }

 private:
  void* address_;
  std::size_t bytes_;
};

UniqueFd make_memfd(std::uint64_t bytes) {
  UniqueFd fd(::memfd_create("craton-probe", MFD_CLOEXEC));
  if (fd && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    const int reason = errno;
    fd.reset();
    errno = reason;
  }
  return fd;
}

int probe_memfd(std::uint64_t page_bytes) {
  const UniqueFd fd = make_memfd(page_bytes);
  if (!fd) return errno;
  const Mapping system_view(page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get());
  if (!system_view) return errno;
  const Mapping application_view(page_bytes, PROT_READ, MAP_SHARED, fd.get());
  if (!application_view) return errno;
  *static_cast<volatile char*>(system_view.address()) = 7;
  return *static_cast<volatile char*>(application_view.address()) == 7 ? 0 : EIO;
}

/// Address space alone: what overcommit and RLIMIT_AS decide about.
int probe_reservation() {
  constexpr std::size_t bytes = std::size_t{64} << 30;
  const Mapping reserved(bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  return reserved ? 0 : errno;
}

UniqueFd open_userfaultfd(UserfaultfdFacts& facts) {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  UniqueFd fd(static_cast<int>(::syscall(SYS_userfaultfd, flags)));
  if (fd) {
    facts.access = UserfaultfdFacts::Access::full;
    return fd;
  }
  facts.errno_value = errno;
#ifdef USERFAULTFD_IOC_NEW
  // Since Linux 6.1 the permissions of a device file may grant what the system call refuses.
  const UniqueFd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (device) {
    fd.reset(::ioctl(device.get(), USERFAULTFD_IOC_NEW, flags));
    if (fd) {
      facts.access = UserfaultfdFacts::Access::full;
      return fd;
    }
  }
#endif
  fd.reset(static_cast<int>(::syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY)));
  if (fd) facts.access = UserfaultfdFacts::Access::user_mode_only;
  return fd;
}

UserfaultfdFacts probe_userfaultfd(const std::string& root) {
  UserfaultfdFacts facts;
  facts.unprivileged_sysctl = read_number(root + "/proc/sys/vm/unprivileged_userfaultfd");
  const UniqueFd fd = open_userfaultfd(facts);
  if (!fd) return facts;
  uffdio_api api{};
  api.api = UFFD_API;  // features 0: the kernel answers with all that it has
  if (::ioctl(fd.get(), UFFDIO_API, &api) != 0) {
    facts.access = UserfaultfdFacts::Access::none;
    facts.errno_value = errno;
    return facts;
  }
  facts.features = api.features;

  // Whether segments can use it is asked of those who do.
  const vm::Mechanisms mechanisms = vm::probe();
  facts.serves_memfd = mechanisms.userfaultfd;
  facts.why_not = mechanisms.why_not;
  return facts;
}

/// Reads a word of a child of ours with process_vm_readv, which is what UCX's cma transport does between
/// siblings.
int probe_read_child() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  UniqueFd child_end(ends[0]);
  UniqueFd parent_end(ends[1]);
  static const int word = 7;
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    // Lives until the parent closes its end, or is gone.
    parent_end.reset();
    pollfd until_closed{.fd = child_end.get(), .events = POLLIN, .revents = 0};
    constexpr int limit_ms = 5'000;
    ::poll(&until_closed, 1, limit_ms);
    ::_exit(0);
  }
  int copy = 0;
  const iovec local{.iov_base = &copy, .iov_len = sizeof copy};
  const iovec remote{.iov_base = const_cast<int*>(&word), .iov_len = sizeof word};
  const ssize_t got = ::process_vm_readv(child, &local, 1, &remote, 1, 0);
  const int result = got == static_cast<ssize_t>(sizeof copy) && copy == word ? 0 : (got < 0 ? errno : EIO);
  parent_end.reset();
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return result;
}

unsigned count_allowed_cores() {
  // The mask of a machine with more CPUs than cpu_set_t holds needs a larger set.
  for (std::size_t cpus = CPU_SETSIZE; cpus <= std::size_t{1} << 20; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(cpus),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    if (set == nullptr) return 0;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    if (::sched_getaffinity(0, bytes, set.get()) == 0)
      return static_cast<unsigned>(CPU_COUNT_S(bytes, set.get()));
    if (errno != EINVAL) return 0;
  }
  return 0;
}

std::string address_text(const sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  // memcpy and not a cast: a sockaddr promises less alignment than the types that it stands for
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (address.sa_family == AF_INET) {
    std::memcpy(&v4, &address, sizeof v4);
    bytes = &v4.sin_addr;
  } else {
    std::memcpy(&v6, &address, sizeof v6);
    bytes = &v6.sin6_addr;
  }
  return ::inet_ntop(address.sa_family, bytes, text.data(), text.size()) != nullptr ? text.data() : "";
}

std::vector<NetworkInterface> read_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::vector<NetworkInterface> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    auto found = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const NetworkInterface& known) { return known.name == entry->ifa_name; });
    if (found == interfaces.end()) {
      interfaces.push_back({.name = entry->ifa_name,
                            .up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0,
                            .loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                            .addresses = {}});
      found = std::prev(interfaces.end());
    }
    const sockaddr* address = entry->ifa_addr;
    if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) continue;
    found->addresses.push_back(address_text(*address));
  }
  return interfaces;
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return names;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string find_container(const std::string& root) {
  const auto exists = [&](const char* path) { return ::access((root + path).c_str(), F_OK) == 0; };
  if (exists("/.dockerenv")) return "docker (/.dockerenv)";
  if (exists("/run/.containerenv")) return "podman (/run/.containerenv)";
  if (exists("/.singularity.d")) return "singularity (/.singularity.d)";
  const std::optional<std::string> manager = read_text(root + "/run/systemd/container");
  if (manager && !manager->empty()) return *manager + " (/run/systemd/container)";
  if (const std::optional<std::string> groups = read_text(root + "/proc/1/cgroup")) {
    for (const char* mark : {"docker", "kubepods", "lxc", "libpod"}) {
      if (groups->find(mark) != groups->npos) return std::string(mark) + " (/proc/1/cgroup)";
    }
  }
  return {};
}

void read_memory(const std::string& root, MachineFacts& facts) {
  const std::string meminfo = read_text(root + "/proc/meminfo").value_or("");
  const auto bytes = [&](std::string_view name) {
    return static_cast<std::uint64_t>(field(meminfo, name)) * 1024;
  };
  facts.memory_bytes = bytes("MemTotal");
  facts.memory_available_bytes = bytes("MemAvailable");
  facts.swap_bytes = bytes("SwapTotal");
  facts.commit_limit_bytes = bytes("CommitLimit");
  facts.committed_bytes = bytes("Committed_AS");
}

}  // namespace

MachineFacts read_machine_facts(const std::string& root) {
  MachineFacts facts;
  utsname system{};
  ::uname(&system);
  facts.host = system.nodename;
  facts.kernel = system.release;
  facts.architecture = system.machine;
  facts.page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

  const std::string status = read_text(root + "/proc/self/status").value_or("");
  facts.memlock_bytes = read_limit(RLIMIT_MEMLOCK);
  facts.open_files = read_limit(RLIMIT_NOFILE);
  facts.address_space_limit_bytes = read_limit(RLIMIT_AS).soft;
  facts.may_exceed_memlock = has_capability(status, CAP_IPC_LOCK);
  facts.seccomp_mode = static_cast<int>(field(status, "Seccomp"));

  struct statfs shm {};
  constexpr long tmpfs_magic = 0x01021994;
  if (::statfs((root + "/dev/shm").c_str(), &shm) == 0 && shm.f_type == tmpfs_magic) {
    const auto block_bytes = static_cast<std::uint64_t>(shm.f_bsize);
    facts.shm_bytes = shm.f_blocks == 0 ? unlimited : shm.f_blocks * block_bytes;
    facts.shm_free_bytes = shm.f_blocks == 0 ? unlimited : shm.f_bavail * block_bytes;
  }
  facts.memfd_errno = probe_memfd(facts.page_bytes);
  facts.max_map_count = read_number(root + "/proc/sys/vm/max_map_count");
  facts.userfaultfd = probe_userfaultfd(root);
  facts.ptrace_scope = read_number(root + "/proc/sys/kernel/yama/ptrace_scope");
  facts.read_child_errno = probe_read_child();
  facts.overcommit_memory = read_number(root + "/proc/sys/vm/overcommit_memory");
  facts.reserve_errno = probe_reservation();
  read_memory(root, facts);

  facts.cores_online = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  facts.cores_allowed = count_allowed_cores();
  facts.core_quota = read_core_quota(root);
  facts.memory_group_limit_bytes = read_memory_limit(root);
  facts.interfaces = read_interfaces();
  facts.rdma_devices = list_folder(root + "/sys/class/infiniband");
  facts.container = find_container(root);
  return facts;
}

}  // namespace craton::job
