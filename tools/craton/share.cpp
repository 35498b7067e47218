// How `craton run` makes ranks of a program that knows nothing of them.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "commands.hpp"
#include "fabric/shm/control_memory.hpp"
#include "job/machine.hpp"
#include "job/machine_findings.hpp"
#include "job/placement.hpp"
#include "job/program.hpp"
#include "omp/settings.hpp"
#include "posix/needs.hpp"
#include "vm/mechanism.hpp"

namespace craton::tools {

namespace {

/// Of --program-heap.
constexpr auto least_heap_bytes = static_cast<std::uint64_t>(spec_of(Option::program_heap).minimum);

[[noreturn]] void refuse(const std::string& program, std::string happened, std::string remedy) {
  throw Error(ErrorCode::not_supported, {.asked = "cannot share the memory of " + program,
                                         .happened = std::move(happened),
                                         .limit = {},
                                         .remedy = std::move(remedy)});
}

/// Of the runtime: beside the command, in the build tree and where it was installed.
std::string preloaded_library(const std::string& name) {
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string command(path.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  const std::string prefix = command.substr(0, command.rfind('/')) + "/../";
  for (const char* const folder : {CRATON_LIBRARY_FOLDER, "lib"}) {
    const std::string library = prefix + folder + "/" + name;
    if (::access(library.c_str(), R_OK) != 0) continue;
    const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(library.c_str(), nullptr), &std::free);
    if (resolved != nullptr) return resolved.get();
  }
  throw Error(ErrorCode::not_supported, {.asked = "cannot share the memory of a program",
                                         .happened = name + " is not beside this command",
                                         .limit = {},
                                         .remedy = "install all of Craton"});
}

void check(const job::ProgramFacts& facts) {
  const std::string as_it_is = "; --share=no starts it on every rank as it is";
  if (!facts.damage.empty()) refuse(facts.path, facts.damage, "build it anew" + as_it_is);
  if (!facts.is_elf)
    refuse(facts.path, "it is no executable but a script", "name the program that it starts" + as_it_is);
  if (!facts.is_x86_64)
    refuse(facts.path, "it is not a 64-bit x86 program", "build it with gcc -m64" + as_it_is);
  if (facts.loader.empty())
    refuse(facts.path, "it is linked statically",
           "link it without -static, so that the loader can give it a library" + as_it_is);
  if (!facts.missing.empty()) {
    refuse(facts.path, "the loader does not find " + facts.missing.front(),
           "install it, or set LD_LIBRARY_PATH");
  }
  if (facts.uses_openacc)
    refuse(facts.path, "it uses OpenACC, which Craton does not have",
           "build it without -fopenacc" + as_it_is);
  if (!facts.sanitizer.empty())
    refuse(facts.path, "it is built for a sanitizer, whose runtime wants to be what Craton is to a program",
           "build it without -fsanitize=" + facts.sanitizer + as_it_is);
  if (!facts.allocator_call.empty())
    refuse(facts.path, "it calls " + facts.allocator_call + ", whose memory ranks would not share",
           "let it call malloc, which every allocator has" + as_it_is);
  if (!facts.openmp.empty() && facts.openmp != "libgomp.so.1" && facts.openmp != "libomp.so.5") {
    refuse(facts.path,
           "it was built for " + facts.openmp +
               ", and Craton stands in for GCC's libgomp.so.1 and LLVM's libomp.so.5 only",
           "build it with gcc, g++, gfortran or clang -fopenmp");
  }
}

/// What a rank's processes may have of something. \param resource as in getrlimit(2)
std::uint64_t limit_of(__rlimit_resource_t resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return job::unlimited;
  return limit.rlim_cur;
}

fabric::Rank most_on_a_host(const std::vector<job::Placement>& placements) {
  std::map<std::string, fabric::Rank> ranks;
  for (const job::Placement& place : placements)
    ranks[job::is_this_host(place.host) ? job::this_host_name() : place.host] += place.rank_count;
  fabric::Rank most = 0;
  for (const auto& [host, count] : ranks) most = std::max(most, count);
  return most;
}

posix::SharedJob job_of(const Options& options, const std::vector<job::Placement>& placements) {
  posix::SharedJob job{.ranks = 0, .heap_bytes = 0, .stack_bytes = 0};
  for (const job::Placement& place : placements) job.ranks += place.rank_count;
  if (!options.flag(Option::isolate_nodes)) job.neighbours = most_on_a_host(placements);
  return job;
}

/// Open files of all processes of a host together.
std::uint64_t files_of_a_host() {
  std::uint64_t most = 0;
  return std::ifstream("/proc/sys/fs/file-max") >> most ? most : job::unlimited;
}

/// Of each segment, on this host; other hosts are most likely the same.
unsigned guard_files(const Options& options) {
  if (options.text(Option::vm_mechanism) == vm::name_of(vm::Mechanism::mprotect)) return 0;
  const vm::Mechanisms there = vm::probe();
  return there.userfaultfd ? 1U + (there.abilities.vector_zap ? 1U : 0U) : 0U;
}

[[noreturn]] void refuse_size(const posix::SharedJob& job, std::string happened, std::string limit,
                              std::string remedy) {
  const std::string on_one_host =
      job.neighbours == job.ranks ? "of one host" : fmt::format("with {} on one host", job.neighbours);
  throw Error(
      ErrorCode::out_of_resources,
      {.asked = fmt::format("cannot share the memory of a program among {} ranks {}", job.ranks, on_one_host),
       .happened = std::move(happened),
       .limit = std::move(limit),
       .remedy = std::move(remedy)});
}

/// What would bring a job's addresses below what a process can have.
std::string address_remedy(posix::SharedJob job) {
  while (job.heap_bytes / 2 >= least_heap_bytes) {
    job.heap_bytes /= 2;
    if (job.address_bytes() <= posix::process_address_bytes)
      return fmt::format("--program-heap={}Mi would fit; or start fewer ranks on a host",
                         job.heap_bytes >> 20U);
  }
  return "start fewer ranks on a host; lower ulimit -s, OMP_STACKSIZE and --program-heap";
}

/// The ranks have the limits of this process, those on other hosts most likely the same.
void check_limits(const posix::SharedJob& job) {
  const auto each_would_need = [&](std::uint64_t have) {
    return fmt::format("each would need {} of addresses, and may have {}",
                       job::bytes_in_words(job.address_bytes()), job::bytes_in_words(have));
  };
  if (job.address_bytes() > posix::process_address_bytes) {
    refuse_size(job, each_would_need(posix::process_address_bytes),
                fmt::format("--program-heap {}, {} of stacks a rank", job::bytes_in_words(job.heap_bytes),
                            job::bytes_in_words(job.stack_bytes)),
                address_remedy(job));
  }
  if (const std::uint64_t addresses = limit_of(RLIMIT_AS); job.address_bytes() > addresses)
    refuse_size(job, each_would_need(addresses), "ulimit -v",
                "ulimit -v unlimited: addresses cost no memory");
  if (const std::uint64_t file = limit_of(RLIMIT_FSIZE); job.file_bytes() > file) {
    refuse_size(job,
                fmt::format("each needs a file in memory of {}, and may have {}",
                            job::bytes_in_words(job.file_bytes()), job::bytes_in_words(file)),
                "ulimit -f", "ulimit -f unlimited, or lower --program-heap");
  }
}

}  // namespace

Sharing inspect_command(const Options& options, const std::string& program, bool several_ranks) {
  const std::string& share = options.text(Option::share);
  if (share == "no") return Sharing::nothing;
  const std::string path = job::find_program(program, job::program_path()).path;
  if (path.empty()) return Sharing::nothing;  // whoever starts it says so
  const job::ProgramFacts facts = job::inspect_program(path);
  if (facts.uses_craton) {
    if (share == "yes") refuse(path, "it uses Craton's own interface", "leave --share out");
    return Sharing::own_interface;
  }
  check(facts);
  if (share == "yes" || !facts.openmp.empty() || options.flag(Option::spread_threads)) {
    if (!facts.has_glibc_loader())
      refuse(path, "its loader is " + facts.loader + ", not glibc's",
             "build it for glibc; --share=no starts it on every rank as it is");
    if (!facts.privileges.empty())
      refuse(path,
             "it is " + facts.privileges +
                 ", so that the kernel gives each rank other addresses and its loader no library of ours",
             "take a copy that is not (cp makes one); --share=no starts it on every rank as it is");
    return Sharing::program_memory;
  }
  if (several_ranks) {
    write_fully(
        STDERR_FILENO,
        fmt::format("craton run: {} needs no OpenMP library: it runs once, on rank 0; --share=no starts it "
                    "on every rank, --spread-threads runs the threads that it starts over all\n",
                    path));
  }
  return Sharing::one_rank;
}

void check_ranks(const Options& options, const std::vector<job::Placement>& placements, Sharing sharing) {
  posix::SharedJob job = job_of(options, placements);
  job.shares_program = sharing == Sharing::program_memory;
  job.guard_files = guard_files(options);
  const fabric::Rank here = most_on_a_host(placements);
  const auto refuse_number = [&](std::string happened, std::string limit) {
    throw Error(ErrorCode::out_of_resources, {.asked = fmt::format("cannot run {} ranks on one host", here),
                                              .happened = std::move(happened),
                                              .limit = std::move(limit),
                                              .remedy = "start fewer, or name more hosts with --host"});
  };
  if (job.neighbours > fabric::shm::max_neighbours)
    refuse_number(fmt::format("at most {} ranks share the memory of a host", fabric::shm::max_neighbours),
                  {});
  if (const std::uint64_t files = limit_of(RLIMIT_NOFILE); job.open_files() > files)
    refuse_number(fmt::format("each needs at least {} open files, and may have {}", job.open_files(), files),
                  "ulimit -n");
  if (const std::uint64_t files = files_of_a_host(); here * job.open_files() > files)
    refuse_number(fmt::format("together they need at least {} open files, and the host allows {}",
                              here * job.open_files(), files),
                  "sysctl fs.file-max");
}

void share_program(const Options& options, job::LaunchRequest& launch) {
  // Of the size of stacks; places are the ranks' own business.
  const auto settings = omp::Settings::parse(
      1, omp::Topology({}), [](const char* name) -> const char* { return std::getenv(name); },
      [](const std::string&) {});
  posix::SharedJob job = job_of(options, launch.placements);
  job.heap_bytes = options.bytes(Option::program_heap);
  job.stack_bytes = posix::stack_sizes(settings.stack_bytes).part_bytes();
  check_limits(job);
  const char* const others = std::getenv("LD_PRELOAD");
  const auto set = [&](const char* name, std::string value) {
    launch.environment.emplace_back(name, std::move(value));
  };
  set(job::shared_variable, "1");
  set("LD_PRELOAD", preloaded_library("libcraton-run.so") + ":" + preloaded_library("libcraton-libomp.so") +
                        (others == nullptr ? "" : std::string(":") + others));
  set("LD_BIND_NOW", "1");
  // A program of one process of MPI's: Open MPI would fork a daemon for it, which is refused.
  const char* const alone = "OMPI_MCA_ess_singleton_isolated";
  if (std::getenv(alone) == nullptr) set(alone, "1");
}

}  // namespace craton::tools
