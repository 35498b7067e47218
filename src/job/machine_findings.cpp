#include "job/machine_findings.hpp"

#include <fmt/format.h>
#include <linux/userfaultfd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace craton::job {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

// What a job needs at least, and what it needs to do well.
constexpr std::uint64_t memlock_wanted = 64 * mib;  // an RDMA transport locks its receive buffers
constexpr std::uint64_t open_files_needed = 256;
constexpr std::uint64_t open_files_wanted = 4096;  // a connection and a mapping for each of a thousand peers
constexpr std::uint64_t shm_wanted = 64 * mib;     // UCX and MPI put their segments there
constexpr std::int64_t max_map_count_default = 65'530;
constexpr std::int64_t max_map_count_wanted = 1'048'576;
constexpr std::uint64_t memory_needed = 256 * mib;

// Newer than the headers of Debian 12; the kernel's numbers never change.
constexpr std::uint64_t feature_wp_async = std::uint64_t{1} << 15;  // Linux 6.7

std::string reason(int errno_value) {
  return errno_value == 0 ? "no error" : std::strerror(errno_value);
}

std::string limit_in_words(const ResourceLimit& limit, bool in_bytes) {
  const auto words = [&](std::uint64_t value) {
    if (value == unlimited) return std::string("unlimited");
    return in_bytes ? bytes_in_words(value) : std::to_string(value);
  };
  return fmt::format("{} soft, {} hard", words(limit.soft), words(limit.hard));
}

Finding fine(std::string name, std::string seen) {
  return {.name = std::move(name), .seen = std::move(seen)};
}

Finding judge_cores(const MachineFacts& facts) {
  Finding finding =
      fine("cores", fmt::format("{} online, {} allowed", facts.cores_online, facts.cores_allowed));
  if (facts.core_quota) finding.seen += fmt::format(", quota {:.2g} cores", facts.core_quota->value);
  if (facts.core_quota && facts.core_quota->value < facts.cores_allowed) {
    finding.severity = Severity::warning;
    finding.cause = fmt::format("the control group allows {:.2g} cores ({})", facts.core_quota->value,
                                facts.core_quota->file);
    finding.meaning =
        "ranks that use more are stopped for the rest of each period, and their peers wait for them";
    finding.remedy = fmt::format(
        "run at most {} ranks here, or raise the quota: docker run --cpus={}, or for a "
        "systemd unit: systemctl set-property UNIT CPUQuota={}%",
        std::max(1, static_cast<int>(facts.core_quota->value)), facts.cores_allowed,
        facts.cores_allowed * 100);
  } else if (facts.cores_allowed < facts.cores_online) {
    finding.severity = Severity::warning;
    finding.cause = "the affinity mask of this process leaves cores out";
    finding.meaning = "the ranks of a job started from here share the cores that are left";
    finding.remedy = fmt::format("taskset -c 0-{} craton run ...", facts.cores_online - 1);
  } else if (facts.cores_allowed == 1) {
    finding.severity = Severity::warning;
    finding.cause = "there is one core";
    finding.meaning = "ranks take turns on it: everything works, nothing gets faster";
    finding.remedy = "add cores, or hosts with --host";
  }
  return finding;
}

Finding judge_memory(const MachineFacts& facts) {
  Finding finding = fine(
      "memory", fmt::format("{} in all, {} available, swap {}", bytes_in_words(facts.memory_bytes),
                            bytes_in_words(facts.memory_available_bytes), bytes_in_words(facts.swap_bytes)));
  const auto& group = facts.memory_group_limit_bytes;
  if (group) finding.seen += fmt::format(", limit {}", bytes_in_words(group->value));
  const std::uint64_t usable =
      group ? std::min(group->value, facts.memory_available_bytes) : facts.memory_available_bytes;
  if (usable < memory_needed) {
    finding.severity = Severity::problem;
    finding.cause =
        group && group->value < facts.memory_available_bytes
            ? fmt::format("the control group allows {} ({})", bytes_in_words(group->value), group->file)
            : std::string("other programs use the rest of the memory");
    finding.meaning = "ranks will be killed by the kernel when they touch their shared memory";
    finding.remedy =
        fmt::format("free memory or raise the limit until {} are available", bytes_in_words(memory_needed));
  } else if (group && group->value < facts.memory_bytes) {
    finding.severity = Severity::warning;
    finding.cause =
        fmt::format("the control group allows {} ({})", bytes_in_words(group->value), group->file);
    finding.meaning = "shared memory counts as well; a job that needs more is killed by the kernel";
    finding.remedy =
        "keep the job below it, spread it over more hosts, or raise it: docker run --memory=SIZE";
  }
  return finding;
}

Finding judge_overcommit(const MachineFacts& facts) {
  if (!facts.overcommit_memory) {
    Finding finding = fine("overcommit", "unknown");
    finding.severity = Severity::warning;
    finding.cause = "/proc/sys/vm/overcommit_memory cannot be read";
    finding.meaning = "nothing is known of how much memory may be reserved";
    finding.remedy = "mount -t proc proc /proc";
    return finding;
  }
  Finding finding = fine("overcommit", fmt::format("vm.overcommit_memory={}", *facts.overcommit_memory));
  if (facts.address_space_limit_bytes != unlimited) {
    finding.seen +=
        fmt::format(", address space limited to {}", bytes_in_words(facts.address_space_limit_bytes));
  }
  if (facts.reserve_errno != 0) {
    finding.severity = Severity::problem;
    finding.cause = facts.address_space_limit_bytes != unlimited
                        ? std::string("the limit of the address space (RLIMIT_AS)")
                        : fmt::format("mmap of 64 GiB of addresses failed: {}", reason(facts.reserve_errno));
    finding.meaning = "a segment's addresses cannot be reserved on every rank";
    finding.remedy = facts.address_space_limit_bytes != unlimited ? "ulimit -v unlimited"
                                                                  : "sysctl -w vm.overcommit_memory=0";
  } else if (*facts.overcommit_memory == 2) {
    finding.seen += fmt::format(", {} of {} committed", bytes_in_words(facts.committed_bytes),
                                bytes_in_words(facts.commit_limit_bytes));
    finding.severity = Severity::warning;
    finding.cause = "the kernel promises no more memory than CommitLimit in /proc/meminfo";
    finding.meaning =
        "segments count in full when they are made, not when they are touched: large ones may be refused";
    finding.remedy = "sysctl -w vm.overcommit_memory=0";
  }
  return finding;
}

Finding judge_memfd(const MachineFacts& facts) {
  if (facts.memfd_errno == 0) return fine("memfd", "made and mapped twice; both views agree");
  Finding finding = fine("memfd", fmt::format("failed: {}", reason(facts.memfd_errno)));
  finding.severity = Severity::problem;
  finding.cause = facts.seccomp_mode != 0 ? "a seccomp filter refuses memfd_create(2), or memory is short"
                                          : "memfd_create(2) or mapping what it made failed";
  finding.meaning = "regions have no memory that ranks of this node could share: no job can run here";
  finding.remedy = facts.seccomp_mode != 0
                       ? "allow memfd_create: docker run --security-opt seccomp=unconfined"
                       : "use Linux 3.17 or later; check ulimit -n and free -m";
  return finding;
}

Finding judge_shm(const MachineFacts& facts) {
  if (!facts.shm_bytes) {
    Finding finding = fine("/dev/shm", "not there");
    finding.severity = Severity::warning;
    finding.cause = "no tmpfs is mounted at /dev/shm";
    finding.meaning =
        "Craton itself does without (its memory is memfds); UCX and MPI need it between ranks of a node";
    finding.remedy = "mount -t tmpfs -o size=50% tmpfs /dev/shm";
    return finding;
  }
  const std::string size = *facts.shm_bytes == unlimited
                               ? std::string("unlimited")
                               : fmt::format("{}, {} free", bytes_in_words(*facts.shm_bytes),
                                             bytes_in_words(facts.shm_free_bytes));
  Finding finding = fine("/dev/shm", size);
  if (facts.shm_free_bytes < shm_wanted) {
    finding.severity = Severity::warning;
    finding.cause = *facts.shm_bytes <= shm_wanted ? "its size is the default of a container, or was set so"
                                                   : "files in it fill it; ls -l /dev/shm shows them";
    finding.meaning =
        "UCX and MPI may fail or die of SIGBUS between ranks of a node; Craton's shm needs none of it";
    finding.remedy = *facts.shm_bytes <= shm_wanted
                         ? "mount -o remount,size=50% /dev/shm, or docker run --shm-size=1g"
                         : "remove what is left of dead programs in /dev/shm";
  }
  return finding;
}

Finding judge_memlock(const MachineFacts& facts) {
  Finding finding = fine("memlock", limit_in_words(facts.memlock_bytes, true));
  if (facts.may_exceed_memlock) {
    finding.seen += "; CAP_IPC_LOCK lifts it";
    return finding;
  }
  const bool rdma = !facts.rdma_devices.empty();
  const std::uint64_t needed = rdma ? memlock_wanted : std::uint64_t{0};
  if (facts.memlock_bytes.soft < needed) {
    const bool may_raise = facts.memlock_bytes.hard >= needed;
    finding.severity = Severity::problem;
    finding.cause = "RLIMIT_MEMLOCK, and there is RDMA hardware, whose memory must be locked";
    finding.meaning = "ucx cannot register memory with the network card";
    finding.remedy = may_raise ? "ulimit -l unlimited"
                               : "add to /etc/security/limits.conf: * - memlock unlimited ; then log in anew";
  }
  return finding;
}

Finding judge_max_map_count(const MachineFacts& facts) {
  if (!facts.max_map_count)
    return fine("max_map_count", "unknown (/proc/sys/vm/max_map_count cannot be read)");
  Finding finding = fine("max_map_count", std::to_string(*facts.max_map_count));
  // With userfaultfd a block's state is in its page table entry; without, each border between states is a
  // mapping.
  const bool needed = !facts.userfaultfd.serves_memfd;
  if (*facts.max_map_count < max_map_count_default ||
      (needed && *facts.max_map_count < max_map_count_wanted)) {
    finding.severity = Severity::warning;
    finding.cause = "vm.max_map_count limits the mappings of a process";
    finding.meaning =
        needed ? "without userfaultfd, protecting pages one by one splits mappings: a process dies when "
                 "about 256 MiB of 4 KiB pages alternate between states"
               : "programs with many mappings of their own die";
    finding.remedy = fmt::format("sysctl -w vm.max_map_count={}", max_map_count_wanted);
  }
  return finding;
}

Finding judge_userfaultfd(const MachineFacts& facts) {
  const UserfaultfdFacts& uffd = facts.userfaultfd;
  using Access = UserfaultfdFacts::Access;
  const std::string sysctl = uffd.unprivileged_sysctl
                                 ? fmt::format("vm.unprivileged_userfaultfd={}", *uffd.unprivileged_sysctl)
                                 : std::string("no vm.unprivileged_userfaultfd");
  if (uffd.access == Access::none) {
    Finding finding = fine("userfaultfd", fmt::format("refused: {}; {}", reason(uffd.errno_value), sysctl));
    finding.severity = Severity::warning;
    finding.cause = uffd.errno_value == ENOSYS
                        ? "the kernel was built without it, or a seccomp filter hides it"
                        : "a seccomp filter or a lack of rights refuses userfaultfd(2)";
    finding.meaning =
        "pages are protected with mprotect, which costs 5 to 20 us a page and one mapping a border";
    finding.remedy =
        facts.container.empty()
            ? "sysctl -w vm.unprivileged_userfaultfd=1, or: setfacl -m u:USER:rw /dev/userfaultfd"
            : "docker run --security-opt seccomp=PROFILE with userfaultfd allowed, or =unconfined";
    return finding;
  }
  const bool full = uffd.access == Access::full;
  Finding finding =
      fine("userfaultfd", fmt::format("{}, features {:#x}, segments are protected by {}, WP_ASYNC {}; {}",
                                      full ? "all faults" : "faults of user code only", uffd.features,
                                      uffd.serves_memfd ? "it" : "mprotect",
                                      (uffd.features & feature_wp_async) != 0 ? "there" : "missing", sysctl));
  if (!uffd.serves_memfd) {
    finding.severity = Severity::warning;
    finding.cause = fmt::format("tried out on Linux {}: {}", facts.kernel, uffd.why_not);
    finding.meaning =
        "pages are protected with mprotect, which costs 5 to 20 us a page and one mapping a border";
    finding.remedy = "use Linux 5.19 or later";
  } else if (!full) {
    finding.severity = Severity::warning;
    finding.cause = fmt::format("{} gives ordinary users faults of user code only", sysctl);
    finding.meaning =
        "a system call that touches a shared buffer fails with EFAULT, so Craton gives it another view";
    finding.remedy = "sysctl -w vm.unprivileged_userfaultfd=1, or: setfacl -m u:USER:rw /dev/userfaultfd";
  }
  return finding;
}

Finding judge_ptrace(const MachineFacts& facts) {
  const std::string scope = facts.ptrace_scope
                                ? fmt::format("kernel.yama.ptrace_scope={}", *facts.ptrace_scope)
                                : std::string("no Yama");
  Finding finding =
      fine("ptrace",
           fmt::format("{}; reading a child's memory {}", scope,
                       facts.read_child_errno == 0 ? "works" : "fails: " + reason(facts.read_child_errno)));
  const bool attached_refused = facts.ptrace_scope && *facts.ptrace_scope >= 2;
  if (facts.read_child_errno != 0 || attached_refused) {
    finding.severity = Severity::warning;
    finding.cause = attached_refused ? "Yama allows tracing to administrators only"
                                     : "a seccomp filter or the kernel's configuration";
    finding.meaning =
        "debuggers cannot attach to ranks, and UCX copies between ranks of a node through /dev/shm; "
        "Craton's shm is not affected";
    finding.remedy =
        attached_refused ? "sysctl -w kernel.yama.ptrace_scope=1" : "docker run --cap-add=SYS_PTRACE";
  }
  return finding;
}

Finding judge_open_files(const MachineFacts& facts) {
  const ResourceLimit& limit = facts.open_files;
  Finding finding = fine("open files", limit_in_words(limit, false));
  if (limit.hard < open_files_needed) {
    finding.severity = Severity::problem;
    finding.cause = "RLIMIT_NOFILE";
    finding.meaning =
        "a rank needs a descriptor for each peer and each region of a neighbour, and runs out of them";
    finding.remedy = "add to /etc/security/limits.conf: * - nofile 65536 ; then log in anew";
  } else if (limit.soft < open_files_needed) {
    finding.severity = Severity::problem;
    finding.cause = "RLIMIT_NOFILE";
    finding.meaning =
        "a rank needs a descriptor for each peer and each region of a neighbour, and runs out of them";
    finding.remedy = "ulimit -n $(ulimit -Hn)";
  } else if (limit.hard < open_files_wanted) {
    finding.severity = Severity::warning;
    finding.cause = "RLIMIT_NOFILE";
    finding.meaning = fmt::format("jobs of more than about {} ranks run out of descriptors", limit.hard / 4);
    finding.remedy = "add to /etc/security/limits.conf: * - nofile 65536 ; then log in anew";
  }
  return finding;
}

Finding judge_network(const MachineFacts& facts) {
  std::string seen;
  bool loopback_usable = false;
  bool network_usable = false;
  for (const NetworkInterface& interface : facts.interfaces) {
    const bool usable = interface.up && !interface.addresses.empty();
    (interface.loopback ? loopback_usable : network_usable) |= usable;
    const std::string state = !interface.up                 ? "down"
                              : interface.addresses.empty() ? "no address"
                                                            : interface.addresses.front();
    seen += fmt::format("{}{} {}", seen.empty() ? "" : ", ", interface.name, state);
  }
  for (const std::string& device : facts.rdma_devices) seen += fmt::format(", RDMA {}", device);
  Finding finding = fine("network", seen.empty() ? "no interface" : seen);
  if (!loopback_usable && !network_usable) {
    finding.severity = Severity::problem;
    finding.cause = "no interface is up and has an address";
    finding.meaning = "tcp cannot be used, not even between ranks of this machine";
    finding.remedy = "ip link set lo up";
  } else if (!network_usable) {
    finding.severity = Severity::warning;
    finding.cause = "no interface but loopback is up and has an address";
    finding.meaning = "jobs can run on this machine, but not together with others";
    finding.remedy = "ip link set INTERFACE up && ip address add ADDRESS/24 dev INTERFACE";
  } else if (!loopback_usable) {
    finding.severity = Severity::warning;
    finding.cause = "loopback is down";
    finding.meaning = "ranks of this machine that talk tcp go through a network interface";
    finding.remedy = "ip link set lo up";
  }
  return finding;
}

Finding judge_confinement(const MachineFacts& facts) {
  const char* modes[] = {"no seccomp", "seccomp strict", "a seccomp filter"};
  const int mode = std::clamp(facts.seccomp_mode, 0, 2);
  Finding finding =
      fine("confinement", fmt::format("{}; {}", modes[mode],
                                      facts.container.empty() ? "no sign of a container" : facts.container));
  if (mode != 0) {
    finding.cause = "what the filter refuses shows in the findings above";
  }
  return finding;
}

}  // namespace

const char* name_of(Severity severity) noexcept {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::warning:
      return "warning";
    case Severity::problem:
      return "problem";
  }
  return "unknown";
}

std::string bytes_in_words(std::uint64_t bytes) {
  if (bytes == unlimited) return "unlimited";
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  // One digit after the point where it says something: 1.5 GiB, 64 KiB.
  const bool whole = std::fabs(value - std::round(value)) < 0.05 || value >= 100;
  return whole ? fmt::format("{:.0f} {}", value, units[unit]) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::vector<Finding> judge(const MachineFacts& facts) {
  return {judge_cores(facts),  judge_memory(facts),     judge_overcommit(facts),    judge_memfd(facts),
          judge_shm(facts),    judge_memlock(facts),    judge_max_map_count(facts), judge_userfaultfd(facts),
          judge_ptrace(facts), judge_open_files(facts), judge_network(facts),       judge_confinement(facts)};
}

}  // namespace craton::job
