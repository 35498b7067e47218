/// \file
/// What this machine and its limits are: facts only, read from the kernel and probed where a file does not
/// tell the truth. What they mean for Craton is judged in machine_findings.hpp.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace craton::job {

inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// A resource limit of this process, see getrlimit(2).
struct ResourceLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

/// What userfaultfd(2) really does here.
struct UserfaultfdFacts {
  /// How a descriptor could be had: it sees kernel accesses too, or those of user code only, or not at all.
  enum class Access { full, user_mode_only, none };
  Access access = Access::none;
  int errno_value = 0;                              ///< why there is none, or why it is not full
  std::uint64_t features = 0;                       ///< as UFFDIO_API reports them
  bool serves_memfd = false;                        ///< segments can be protected by it
  std::string why_not;                              ///< where they cannot
  std::optional<std::int64_t> unprivileged_sysctl;  ///< vm.unprivileged_userfaultfd
};

struct NetworkInterface {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::vector<std::string> addresses;  ///< IPv4 and IPv6, as text
};

/// A limit of a control group and the file that sets it.
template <typename Value>
struct GroupLimit {
  Value value;
  std::string file;
};

struct MachineFacts {
  std::string host;
  std::string kernel;        ///< "6.1.0-18-amd64"
  std::string architecture;  ///< "x86_64"
  std::uint64_t page_bytes = 0;

  ResourceLimit memlock_bytes;
  ResourceLimit open_files;
  bool may_exceed_memlock = false;  ///< CAP_IPC_LOCK

  std::optional<std::uint64_t> shm_bytes;  ///< size of /dev/shm; none: it is not mounted
  std::uint64_t shm_free_bytes = 0;

  int memfd_errno = 0;  ///< 0: a memfd could be made, sized and mapped shared twice, and both views agree
  std::optional<std::int64_t> max_map_count;
  UserfaultfdFacts userfaultfd;

  std::optional<std::int64_t> ptrace_scope;  ///< kernel.yama.ptrace_scope; none: no Yama
  int read_child_errno = 0;                  ///< 0: process_vm_readv of a child of ours works

  std::optional<std::int64_t> overcommit_memory;  ///< vm.overcommit_memory
  std::uint64_t commit_limit_bytes = 0;
  std::uint64_t committed_bytes = 0;
  int reserve_errno = 0;  ///< 0: 64 GiB of addresses could be reserved without memory behind them

  unsigned cores_online = 0;
  unsigned cores_allowed = 0;  ///< by the affinity mask
  std::optional<GroupLimit<double>> core_quota;

  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_available_bytes = 0;
  std::uint64_t swap_bytes = 0;
  std::optional<GroupLimit<std::uint64_t>> memory_group_limit_bytes;
  std::uint64_t address_space_limit_bytes = unlimited;  ///< RLIMIT_AS

  std::vector<NetworkInterface> interfaces;
  std::vector<std::string> rdma_devices;  ///< names in /sys/class/infiniband

  std::string container;  ///< what hints at one: "docker (/.dockerenv)"; empty: nothing does
  int seccomp_mode = 0;   ///< of this process: 0 none, 1 strict, 2 filter
};

/// Reads and probes. Takes some milliseconds; forks a child for the ptrace probe, so not for use inside
/// ranks. \param root where /proc, /sys and the container marks are looked up; tests give a tree of their
/// own. The probes
///        of system calls are of the running kernel in any case.
MachineFacts read_machine_facts(const std::string& root = "");

}  // namespace craton::job
