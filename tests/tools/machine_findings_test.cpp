#include "job/machine_findings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <vector>

namespace craton::job {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t gib = std::uint64_t{1} << 30;

/// A machine on which everything is well.
MachineFacts good_machine() {
  MachineFacts facts;
  facts.host = "good";
  facts.kernel = "6.8.0";
  facts.architecture = "x86_64";
  facts.page_bytes = 4096;
  facts.memlock_bytes = {8 * mib, 8 * mib};
  facts.open_files = {1024, 1'048'576};
  facts.shm_bytes = 32 * gib;
  facts.shm_free_bytes = 31 * gib;
  facts.max_map_count = 65'530;
  facts.userfaultfd.access = UserfaultfdFacts::Access::full;
  facts.userfaultfd.features = 0x1ffff;
  facts.userfaultfd.serves_memfd = true;
  facts.userfaultfd.unprivileged_sysctl = 1;
  facts.ptrace_scope = 1;
  facts.overcommit_memory = 0;
  facts.cores_online = 16;
  facts.cores_allowed = 16;
  facts.memory_bytes = 64 * gib;
  facts.memory_available_bytes = 60 * gib;
  facts.interfaces = {{.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1"}},
                      {.name = "eth0", .up = true, .loopback = false, .addresses = {"192.0.2.7"}}};
  return facts;
}

Finding find(const std::vector<Finding>& findings, const std::string& name) {
  const auto found =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.name == name; });
  if (found == findings.end()) {
    ADD_FAILURE() << "no finding " << name;
    return {};
  }
  return *found;
}

TEST(MachineFindings, OfAGoodMachineAreAllOk) {
  const std::vector<Finding> findings = judge(good_machine());
  EXPECT_EQ(findings.size(), 12U);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.severity, Severity::ok) << finding.name << ": " << finding.cause;
    EXPECT_FALSE(finding.seen.empty()) << finding.name;
    EXPECT_TRUE(finding.remedy.empty()) << finding.name;
  }
}

/// One thing that is wrong, and what must be found: exactly that, with a remedy that holds the words.
struct Case {
  const char* name;
  std::function<void(MachineFacts&)> spoil;
  const char* finding;
  Severity severity;
  const char* cause;
  const char* remedy;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class SpoiltMachine : public testing::TestWithParam<Case> {};

TEST_P(SpoiltMachine, GivesThatFindingAndNoOther) {
  MachineFacts facts = good_machine();
  GetParam().spoil(facts);
  const std::vector<Finding> findings = judge(facts);
  for (const Finding& finding : findings) {
    if (finding.name != GetParam().finding) {
      EXPECT_EQ(finding.severity, Severity::ok) << finding.name << ": " << finding.cause;
    }
  }
  const Finding finding = find(findings, GetParam().finding);
  EXPECT_EQ(finding.severity, GetParam().severity) << finding.seen;
  EXPECT_NE(finding.cause.find(GetParam().cause), std::string::npos) << finding.cause;
  EXPECT_NE(finding.remedy.find(GetParam().remedy), std::string::npos) << finding.remedy;
  EXPECT_FALSE(finding.meaning.empty());
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(, SpoiltMachine, testing::Values(
  Case{"one_core", [](MachineFacts& f) { f.cores_online = f.cores_allowed = 1; }, "cores", Severity::warning, "one core", "add cores"},
  Case{"affinity", [](MachineFacts& f) { f.cores_allowed = 3; }, "cores", Severity::warning, "affinity", "taskset -c 0-15"},
  Case{"core_quota", [](MachineFacts& f) { f.core_quota = {2.5, "/x/cpu.max"}; }, "cores", Severity::warning, "2.5 cores (/x/cpu.max)", "at most 2 ranks"},
  Case{"tiny_quota", [](MachineFacts& f) { f.core_quota = {0.5, "/x/cpu.max"}; }, "cores", Severity::warning, "0.5 cores", "at most 1 ranks"},
  Case{"no_memory_left", [](MachineFacts& f) { f.memory_available_bytes = 100 * mib; }, "memory", Severity::problem, "other programs", "256 MiB"},
  Case{"tiny_memory_group", [](MachineFacts& f) { f.memory_group_limit_bytes = {100 * mib, "/x/memory.max"}; }, "memory", Severity::problem, "100 MiB (/x/memory.max)", "raise the limit"},
  Case{"memory_group", [](MachineFacts& f) { f.memory_group_limit_bytes = {4 * gib, "/x/memory.max"}; }, "memory", Severity::warning, "4 GiB (/x/memory.max)", "docker run --memory"},
  Case{"strict_overcommit", [](MachineFacts& f) { f.overcommit_memory = 2; f.commit_limit_bytes = 3 * gib; }, "overcommit", Severity::warning, "CommitLimit", "sysctl -w vm.overcommit_memory=0"},
  Case{"overcommit_unknown", [](MachineFacts& f) { f.overcommit_memory.reset(); }, "overcommit", Severity::warning, "cannot be read", "mount"},
  Case{"address_space", [](MachineFacts& f) { f.reserve_errno = ENOMEM; f.address_space_limit_bytes = gib; }, "overcommit", Severity::problem, "RLIMIT_AS", "ulimit -v unlimited"},
  Case{"reservation", [](MachineFacts& f) { f.reserve_errno = ENOMEM; }, "overcommit", Severity::problem, "Cannot allocate memory", "sysctl -w vm.overcommit_memory=0"},
  Case{"memfd", [](MachineFacts& f) { f.memfd_errno = ENOSYS; }, "memfd", Severity::problem, "memfd_create", "Linux 3.17"},
  Case{"no_shm", [](MachineFacts& f) { f.shm_bytes.reset(); f.shm_free_bytes = 0; }, "/dev/shm", Severity::warning, "no tmpfs", "mount -t tmpfs"},
  Case{"container_shm", [](MachineFacts& f) { f.shm_bytes = f.shm_free_bytes = 63 * mib; }, "/dev/shm", Severity::warning, "default of a container", "--shm-size=1g"},
  Case{"full_shm", [](MachineFacts& f) { f.shm_free_bytes = mib; }, "/dev/shm", Severity::warning, "files in it", "remove"},
  Case{"memlock_rdma", [](MachineFacts& f) { f.rdma_devices = {"mlx5_0"}; f.memlock_bytes = {64 * 1024, 64 * 1024}; }, "memlock", Severity::problem, "RLIMIT_MEMLOCK", "limits.conf"},
  Case{"memlock_soft", [](MachineFacts& f) { f.rdma_devices = {"mlx5_0"}; f.memlock_bytes = {64 * 1024, unlimited}; }, "memlock", Severity::problem, "RLIMIT_MEMLOCK", "ulimit -l unlimited"},
  Case{"few_maps", [](MachineFacts& f) { f.max_map_count = 10'000; }, "max_map_count", Severity::warning, "vm.max_map_count", "sysctl -w vm.max_map_count="},
  Case{"user_faults_only", [](MachineFacts& f) { f.userfaultfd.access = UserfaultfdFacts::Access::user_mode_only; f.userfaultfd.unprivileged_sysctl = 0; f.userfaultfd.errno_value = EPERM; }, "userfaultfd", Severity::warning, "vm.unprivileged_userfaultfd=0", "sysctl -w vm.unprivileged_userfaultfd=1"},
  Case{"ptrace_scope", [](MachineFacts& f) { f.ptrace_scope = 2; }, "ptrace", Severity::warning, "Yama", "sysctl -w kernel.yama.ptrace_scope=1"},
  Case{"ptrace_refused", [](MachineFacts& f) { f.read_child_errno = EPERM; }, "ptrace", Severity::warning, "seccomp", "SYS_PTRACE"},
  Case{"few_files", [](MachineFacts& f) { f.open_files = {64, 128}; }, "open files", Severity::problem, "RLIMIT_NOFILE", "limits.conf"},
  Case{"few_files_soft", [](MachineFacts& f) { f.open_files = {64, 65'536}; }, "open files", Severity::problem, "RLIMIT_NOFILE", "ulimit -n $(ulimit -Hn)"},
  Case{"files_for_small_jobs", [](MachineFacts& f) { f.open_files = {1024, 1024}; }, "open files", Severity::warning, "RLIMIT_NOFILE", "limits.conf"},
  Case{"no_network", [](MachineFacts& f) { f.interfaces.clear(); }, "network", Severity::problem, "no interface", "ip link set lo up"},
  Case{"loopback_only", [](MachineFacts& f) { f.interfaces.pop_back(); }, "network", Severity::warning, "but loopback", "ip link set INTERFACE up"},
  Case{"network_down", [](MachineFacts& f) { f.interfaces[1].up = false; }, "network", Severity::warning, "but loopback", "ip link set INTERFACE up"},
  Case{"no_address", [](MachineFacts& f) { f.interfaces[1].addresses.clear(); }, "network", Severity::warning, "but loopback", "ip address add"},
  Case{"loopback_down", [](MachineFacts& f) { f.interfaces[0].up = false; }, "network", Severity::warning, "loopback is down", "ip link set lo up"}),
  [](const testing::TestParamInfo<Case>& spoilt) { return std::string(spoilt.param.name); });
// clang-format on

TEST(MachineFindings, WithoutUserfaultfdTheMapCountMattersMore) {
  MachineFacts facts = good_machine();
  facts.userfaultfd = {};
  facts.userfaultfd.errno_value = EPERM;
  const std::vector<Finding> findings = judge(facts);
  EXPECT_EQ(find(findings, "userfaultfd").severity, Severity::warning);
  EXPECT_NE(find(findings, "userfaultfd").seen.find("Operation not permitted"), std::string::npos);
  EXPECT_EQ(find(findings, "max_map_count").severity, Severity::warning) << "65,530 maps do for 256 MiB only";
  facts.max_map_count = 1'048'576;
  EXPECT_EQ(find(judge(facts), "max_map_count").severity, Severity::ok);
}

TEST(MachineFindings, InAContainerTheRemedyIsTheContainers) {
  MachineFacts facts = good_machine();
  facts.userfaultfd = {};
  facts.userfaultfd.errno_value = ENOSYS;
  facts.container = "docker (/.dockerenv)";
  EXPECT_NE(find(judge(facts), "userfaultfd").remedy.find("--security-opt seccomp"), std::string::npos);
  facts.memfd_errno = EPERM;
  facts.seccomp_mode = 2;
  EXPECT_NE(find(judge(facts), "memfd").remedy.find("--security-opt seccomp"), std::string::npos);
}

TEST(MachineFindings, AKernelWithoutMinorFaultsOnSharedMemoryIsToldApart) {
  MachineFacts facts = good_machine();
  facts.userfaultfd.serves_memfd = false;
  facts.userfaultfd.why_not = "the kernel lacks minor faults";
  facts.kernel = "5.10.0";
  const Finding finding = find(judge(facts), "userfaultfd");
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_NE(finding.cause.find("Linux 5.10.0: the kernel lacks"), std::string::npos) << finding.cause;
}

TEST(MachineFindings, WithoutRdmaOrWithTheCapabilityMemlockMayBeSmall) {
  MachineFacts facts = good_machine();
  facts.memlock_bytes = {0, 0};
  EXPECT_EQ(find(judge(facts), "memlock").severity, Severity::ok);
  facts.rdma_devices = {"mlx5_0"};
  facts.may_exceed_memlock = true;
  EXPECT_EQ(find(judge(facts), "memlock").severity, Severity::ok);
}

TEST(MachineFindings, HaveTheSameNamesOnEveryMachine) {
  const auto names = [](const std::vector<Finding>& findings) {
    std::vector<std::string> list;
    for (const Finding& finding : findings) list.push_back(finding.name);
    return list;
  };
  EXPECT_EQ(names(judge(MachineFacts{})), names(judge(good_machine())));
}

TEST(BytesInWords, ReadWell) {
  EXPECT_EQ(bytes_in_words(0), "0 B");
  EXPECT_EQ(bytes_in_words(1023), "1023 B");
  EXPECT_EQ(bytes_in_words(64 * 1024), "64 KiB");
  EXPECT_EQ(bytes_in_words(gib + gib / 2), "1.5 GiB");
  EXPECT_EQ(bytes_in_words(2048 * gib), "2 TiB");
  EXPECT_EQ(bytes_in_words(unlimited), "unlimited");
}

}  // namespace
}  // namespace craton::job
