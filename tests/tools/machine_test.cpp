#include "job/machine.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace craton::job {
namespace {

/// A tree of files that stands for /proc and /sys, and goes with its scope.
class FakeRoot {
 public:
  FakeRoot() {
    std::string form = testing::TempDir() + "craton-root-XXXXXX";
    EXPECT_NE(::mkdtemp(form.data()), nullptr);
    path_ = form;
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(MachineFacts, ReadsTheKernelsFiles) {
  const FakeRoot root;
  root.write("/proc/meminfo",
             "MemTotal:       16000000 kB\nMemFree:         1000 kB\nMemAvailable:    8000000 kB\nSwapTotal: "
             " 2048 kB\n"
             "CommitLimit:     9000 kB\nCommitted_AS:    500 kB\n");
  root.write("/proc/sys/vm/max_map_count", "65530\n");
  root.write("/proc/sys/vm/overcommit_memory", "2\n");
  root.write("/proc/sys/vm/unprivileged_userfaultfd", "1\n");
  root.write("/proc/sys/kernel/yama/ptrace_scope", "3\n");
  root.write("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\nSeccomp:\t2\nSeccomp_filters:\t1\n");
  root.write("/sys/class/infiniband/mlx5_1/x", "");
  root.write("/sys/class/infiniband/mlx5_0/x", "");
  root.write("/.dockerenv", "");
  const MachineFacts facts = read_machine_facts(root.path());
  EXPECT_EQ(facts.memory_bytes, 16'000'000ULL * 1024);
  EXPECT_EQ(facts.memory_available_bytes, 8'000'000ULL * 1024);
  EXPECT_EQ(facts.swap_bytes, 2048ULL * 1024);
  EXPECT_EQ(facts.commit_limit_bytes, 9000ULL * 1024);
  EXPECT_EQ(facts.committed_bytes, 500ULL * 1024);
  EXPECT_EQ(facts.max_map_count, 65530);
  EXPECT_EQ(facts.overcommit_memory, 2);
  EXPECT_EQ(facts.userfaultfd.unprivileged_sysctl, 1);
  EXPECT_EQ(facts.ptrace_scope, 3);
  EXPECT_TRUE(facts.may_exceed_memlock) << "bit 14 is CAP_IPC_LOCK";
  EXPECT_EQ(facts.seccomp_mode, 2);
  EXPECT_EQ(facts.rdma_devices, (std::vector<std::string>{"mlx5_0", "mlx5_1"}));
  EXPECT_EQ(facts.container, "docker (/.dockerenv)");
  EXPECT_EQ(facts.shm_bytes, std::nullopt) << "no tmpfs there";
}

TEST(MachineFacts, KnowsNothingOfWhatIsNotThere) {
  const FakeRoot root;
  const MachineFacts facts = read_machine_facts(root.path());
  EXPECT_EQ(facts.max_map_count, std::nullopt);
  EXPECT_EQ(facts.ptrace_scope, std::nullopt);
  EXPECT_EQ(facts.overcommit_memory, std::nullopt);
  EXPECT_EQ(facts.core_quota, std::nullopt);
  EXPECT_EQ(facts.memory_group_limit_bytes, std::nullopt);
  EXPECT_FALSE(facts.may_exceed_memlock);
  EXPECT_EQ(facts.container, "");
  EXPECT_TRUE(facts.rdma_devices.empty());
}

TEST(MachineFacts, TheTightestGroupAboveUsCounts) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0::/outer/middle/inner\n");
  root.write("/sys/fs/cgroup/outer/cpu.max", "400000 100000\n");
  root.write("/sys/fs/cgroup/outer/middle/cpu.max", "150000 100000\n");
  root.write("/sys/fs/cgroup/outer/middle/inner/cpu.max", "max 100000\n");
  root.write("/sys/fs/cgroup/outer/memory.max", "1073741824\n");
  root.write("/sys/fs/cgroup/outer/middle/memory.max", "max\n");
  root.write("/sys/fs/cgroup/outer/middle/inner/memory.max", "2147483648\n");
  const MachineFacts facts = read_machine_facts(root.path());
  ASSERT_TRUE(facts.core_quota);
  EXPECT_DOUBLE_EQ(facts.core_quota->value, 1.5);
  EXPECT_EQ(facts.core_quota->file, root.path() + "/sys/fs/cgroup/outer/middle/cpu.max");
  ASSERT_TRUE(facts.memory_group_limit_bytes);
  EXPECT_EQ(facts.memory_group_limit_bytes->value, 1073741824U);
  EXPECT_EQ(facts.memory_group_limit_bytes->file, root.path() + "/sys/fs/cgroup/outer/memory.max");
}

TEST(MachineFacts, InAContainerTheGroupsPathMayBeTheHosts) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0::/docker/0123456789\n");
  root.write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  const MachineFacts facts = read_machine_facts(root.path());
  ASSERT_TRUE(facts.core_quota);
  EXPECT_DOUBLE_EQ(facts.core_quota->value, 0.5);
}

TEST(MachineFacts, ReadsControlGroupsOfVersionOne) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n3:cpuset:/\n1:name=systemd:/\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const MachineFacts facts = read_machine_facts(root.path());
  ASSERT_TRUE(facts.core_quota);
  EXPECT_DOUBLE_EQ(facts.core_quota->value, 3.0);
  ASSERT_TRUE(facts.memory_group_limit_bytes);
  EXPECT_EQ(facts.memory_group_limit_bytes->value, 536870912U);
}

TEST(MachineFacts, NoLimitIsNoLimit) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "5:cpu:/\n4:memory:/\n");
  root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const MachineFacts facts = read_machine_facts(root.path());
  EXPECT_EQ(facts.core_quota, std::nullopt);
  EXPECT_EQ(facts.memory_group_limit_bytes, std::nullopt);
}

TEST(MachineFacts, ProbesOfThisMachineAgreeWithWhatTheSystemSays) {
  const MachineFacts facts = read_machine_facts();
  EXPECT_EQ(facts.memfd_errno, 0) << "Craton cannot run here";
  EXPECT_EQ(facts.page_bytes, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_GE(facts.cores_allowed, 1U);
  EXPECT_GT(facts.memory_bytes, 0U);
  EXPECT_LE(facts.memory_available_bytes, facts.memory_bytes);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(facts.open_files.soft, limit.rlim_cur);
  const bool refused = facts.userfaultfd.access == UserfaultfdFacts::Access::none;
  EXPECT_EQ(refused, facts.userfaultfd.features == 0) << "a descriptor that could be had has features";
}

TEST(MachineFacts, ProbesLeaveNothingBehind) {
  const auto count_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = count_descriptors();
  read_machine_facts();
  EXPECT_EQ(count_descriptors(), before);
}

TEST(MachineFacts, FollowALimitThatWasLowered) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered{.rlim_cur = std::min<rlim_t>(before.rlim_cur, 100), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const MachineFacts facts = read_machine_facts();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(facts.open_files.soft, lowered.rlim_cur);
  EXPECT_EQ(facts.open_files.hard, before.rlim_max);
}

}  // namespace
}  // namespace craton::job
