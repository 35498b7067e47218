/// \file
/// The one table of options. From it come the environment variables, the flags of `craton`, the keys of the
/// config file, `craton info --options`, the man page and docs/options.md.
///
/// To add an option: a name in `Option`, a line at the same place in `option_table`, an accessor call where
/// it is used. Everything else follows, and a test fails until docs/options.md is generated anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace craton {

/// The options, in the order of the table.
enum class Option : std::uint8_t {
  transport,
  isolate_nodes,
  spin,
  connect_timeout,
  tcp_interface,
  link_delay,
  link_bandwidth,
  ring_bytes,
  offload,
  endpoints,
  offload_workers,
  pmix_library,
  vm_mechanism,
  notice_capacity,
  parallel_releases,
  heartbeat,
  heap_bytes,
  races,
  stats,
  stats_file,
  observed_events,
  threads,
  program_heap,
  omp_locks,
  causal,
  spread_threads,
  program_libraries,
  share,
  ranks_per_node,
  host,
  launch_agent,
  timeout,
  node_timeout,
  output,
  trace,
  report,
  report_file,
};

enum class OptionType : std::uint8_t {
  flag,       ///< yes or no
  automatic,  ///< yes, no, or auto: what else is asked for decides
  integer,    ///< a whole number
  bytes,      ///< a number of bytes: 4096, 64Ki, 10M
  duration,   ///< a time with its unit, kept in nanoseconds: 20us, 1.5s
  choice,     ///< one of a few words
  text,       ///< any text
};

/// Whether options of a type have a least and a most.
constexpr bool has_limits(OptionType type) noexcept {
  return type == OptionType::integer || type == OptionType::bytes || type == OptionType::duration;
}

/// Who reads an option.
enum class OptionScope : std::uint8_t {
  rank,      ///< the runtime in every rank; the launcher passes it on through the environment
  launcher,  ///< `craton run` alone
};

/// One line of the table.
struct OptionSpec {
  Option id;
  std::string_view name;  ///< as in the flag: "link-delay"; CRATON_LINK_DELAY and link_delay follow from it
  OptionType type;
  OptionScope scope;
  std::string_view default_text;  ///< as a user would write it
  std::string_view help;          ///< one sentence, without a full stop
  std::int64_t minimum = 0;       ///< integer, bytes, duration (ns): the smallest value allowed
  std::int64_t maximum = std::numeric_limits<std::int64_t>::max();
  bool power_of_two = false;
  std::string_view choices = {};  ///< choice: the words, separated by '|'
};

namespace option_limits {
inline constexpr std::int64_t us = 1'000;
inline constexpr std::int64_t ms = 1'000 * us;
inline constexpr std::int64_t s = 1'000 * ms;
inline constexpr std::int64_t day = 86'400 * s;
inline constexpr std::int64_t kibi = 1024;
inline constexpr std::int64_t mebi = 1024 * kibi;
}  // namespace option_limits

// clang-format off
inline constexpr std::array option_table = {
  OptionSpec{.id = Option::transport, .name = "transport", .type = OptionType::choice, .scope = OptionScope::rank,
             .default_text = "auto",
             .help = "How nodes talk: auto takes ucx where there is RDMA, else tcp; shm allows one node only",
             .choices = "auto|shm|tcp|ucx"},
  OptionSpec{.id = Option::isolate_nodes, .name = "isolate-nodes", .type = OptionType::flag, .scope = OptionScope::rank,
             .default_text = "no",
             .help = "Treats every rank as a node of its own, so that ranks of one host talk through the network"},
  OptionSpec{.id = Option::spin, .name = "spin", .type = OptionType::duration, .scope = OptionScope::rank,
             .default_text = "20us",
             .help = "How long a wait polls before it sleeps; a tenth of it on a host with more ranks than processors; at barriers of threads that "
                     "have a processor each five times as long",
             .minimum = 0, .maximum = 10 * option_limits::ms},
  OptionSpec{.id = Option::connect_timeout, .name = "connect-timeout", .type = OptionType::duration, .scope = OptionScope::rank,
             .default_text = "30s",
             .help = "How long ranks may take to find and reach each other at the start",
             .minimum = 10 * option_limits::ms, .maximum = option_limits::day},
  OptionSpec{.id = Option::tcp_interface, .name = "tcp-interface", .type = OptionType::text, .scope = OptionScope::rank,
             .default_text = "",
             .help = "The network interface, or the address, that tcp uses; empty: chosen by itself"},
  OptionSpec{.id = Option::link_delay, .name = "link-delay", .type = OptionType::duration, .scope = OptionScope::rank,
             .default_text = "0s",
             .help = "A one-way delay added to every tcp link, to try out a slower network",
             .minimum = 0, .maximum = 10 * option_limits::s},
  OptionSpec{.id = Option::link_bandwidth, .name = "link-bandwidth", .type = OptionType::bytes, .scope = OptionScope::rank,
             .default_text = "0",
             .help = "Bytes a second that a tcp link carries at most, to try out a slower network; 0: no limit"},
  OptionSpec{.id = Option::ring_bytes, .name = "ring-bytes", .type = OptionType::bytes, .scope = OptionScope::rank,
             .default_text = "64Ki",
             .help = "The size of a message ring in shared memory, one for each ordered pair of ranks of a node",
             .minimum = 16 * option_limits::kibi, .maximum = 16 * option_limits::mebi, .power_of_two = true},
  OptionSpec{.id = Option::offload, .name = "offload", .type = OptionType::choice, .scope = OptionScope::rank,
             .default_text = "direct",
             .help = "Who issues operations between nodes: direct the thread that wants them, dynamic executors that run "
                     "only while there is work, static ones that take a core for each endpoint",
             .choices = "direct|static|dynamic"},
  OptionSpec{.id = Option::endpoints, .name = "endpoints", .type = OptionType::integer, .scope = OptionScope::rank,
             .default_text = "1",
             .help = "How many connections each pair of nodes spreads its operations over",
             .minimum = 1, .maximum = 16},
  OptionSpec{.id = Option::offload_workers, .name = "offload-workers", .type = OptionType::integer, .scope = OptionScope::rank,
             .default_text = "1",
             .help = "The threads that run the executors of --offload=dynamic",
             .minimum = 1, .maximum = 16},
  OptionSpec{.id = Option::pmix_library, .name = "pmix-library", .type = OptionType::text, .scope = OptionScope::rank,
             .default_text = "libpmix.so.2",
             .help = "The PMIx library that is loaded under mpirun or srun"},
  OptionSpec{.id = Option::vm_mechanism, .name = "vm-mechanism", .type = OptionType::choice, .scope = OptionScope::rank,
             .default_text = "auto",
             .help = "How accesses to the coherent space are caught; auto takes userfaultfd where it works",
             .choices = "auto|userfaultfd|mprotect"},
  OptionSpec{.id = Option::notice_capacity, .name = "notice-capacity", .type = OptionType::integer, .scope = OptionScope::rank,
             .default_text = "1024",
             .help = "How many write notices an acquire is told at most, and a barrier 16 times as many; what is left out costs leases their time",
             .minimum = 1, .maximum = 65536},
  OptionSpec{.id = Option::parallel_releases, .name = "parallel-releases", .type = OptionType::integer, .scope = OptionScope::rank,
             .default_text = "16",
             .help = "How many blocks a release takes over from other ranks at a time",
             .minimum = 1, .maximum = 256},
  OptionSpec{.id = Option::heartbeat, .name = "heartbeat", .type = OptionType::duration, .scope = OptionScope::rank,
             .default_text = "5ms",
             .help = "How often a rank that does not synchronise publishes and acquires all the same, for programs that spin on "
                     "plain variables; 0: never",
             .minimum = 0, .maximum = 60'000'000'000},
  OptionSpec{.id = Option::heap_bytes, .name = "heap-bytes", .type = OptionType::bytes, .scope = OptionScope::rank,
             .default_text = "1Gi",
             .help = "The size of the shared heap of craton_alloc; costs memory only where it is used",
             .minimum = 64 * option_limits::kibi, .maximum = 512 * 1024 * option_limits::mebi},
  OptionSpec{.id = Option::races, .name = "races", .type = OptionType::choice, .scope = OptionScope::rank,
             .default_text = "ignore",
             .help = "What happens when two ranks have written different values to the same bytes, unordered: report says "
                     "so at the end, once a place, abort ends the rank at once",
             .choices = "ignore|report|abort"},
  OptionSpec{.id = Option::stats, .name = "stats", .type = OptionType::choice, .scope = OptionScope::rank,
             .default_text = "none",
             .help = "Counters of the coherent space by rank and by segment and, under craton run, the time of each region, at "
                     "the end",
             .choices = "none|text|json"},
  OptionSpec{.id = Option::stats_file, .name = "stats-file", .type = OptionType::text, .scope = OptionScope::rank,
             .default_text = "",
             .help = "The file that --stats writes; empty: standard error"},
  OptionSpec{.id = Option::observed_events, .name = "observed-events", .type = OptionType::integer, .scope = OptionScope::launcher,
             .default_text = "262144",
             .help = "How many events of a thread --trace and --report keep; later ones are counted as lost",
             .minimum = 1, .maximum = 16777216},
  OptionSpec{.id = Option::threads, .name = "threads", .type = OptionType::integer, .scope = OptionScope::rank,
             .default_text = "0",
             .help = "Threads of a shared program on each rank; 0: the rank's share of its host's processors, of those that it may use",
             .minimum = 0, .maximum = 512},
  OptionSpec{.id = Option::program_heap, .name = "program-heap", .type = OptionType::bytes, .scope = OptionScope::rank,
             .default_text = "256Gi",
             .help = "How much a shared program may allocate on all ranks together; costs memory only where it is used",
             .minimum = 64 * option_limits::mebi, .maximum = 512 * 1024 * option_limits::mebi},
  OptionSpec{.id = Option::omp_locks, .name = "omp-locks", .type = OptionType::integer, .scope = OptionScope::rank,
             .default_text = "1048576",
             .help = "How many OpenMP locks a shared program may have at a time, beside its critical sections",
             .minimum = 1024, .maximum = 64 * 1024 * 1024},
  OptionSpec{.id = Option::causal, .name = "causal", .type = OptionType::automatic, .scope = OptionScope::rank,
             .default_text = "auto",
             .help = "Data, then a flag, by plain stores without a flush, is right in the heap and in the data of shared "
                     "programs; releases and faults cost more, the more ranks there are; auto: with --spread-threads"},
  OptionSpec{.id = Option::spread_threads, .name = "spread-threads", .type = OptionType::flag, .scope = OptionScope::rank,
             .default_text = "no",
             .help = "Threads that a shared program starts itself (pthread_create, std::thread) run on all ranks, each on the "
                     "one that has the fewest; a program without OpenMP is shared for that"},
  OptionSpec{.id = Option::program_libraries, .name = "program-libraries", .type = OptionType::text, .scope = OptionScope::rank,
             .default_text = "",
             .help = "Libraries of the system whose data and threads are a shared program's as those of its own libraries are, "
                     "separated by commas: names as liblzma or liblzma.so.5, and folders as /usr/lib/ncbi-blast+/ with all in them"},
  OptionSpec{.id = Option::share, .name = "share", .type = OptionType::choice, .scope = OptionScope::launcher,
             .default_text = "auto",
             .help = "Whether one program runs over the memory of all ranks (yes), or a program of its own on each (no); auto "
                     "shares what needs an OpenMP library, leaves what uses Craton's interface alone, and runs all else once",
             .choices = "auto|yes|no"},
  OptionSpec{.id = Option::ranks_per_node, .name = "ranks-per-node", .type = OptionType::integer, .scope = OptionScope::launcher,
             .default_text = "0",
             .help = "The most ranks that a host is given; 0: as many as an even spread needs",
             .minimum = 0, .maximum = 4096},
  OptionSpec{.id = Option::host, .name = "host", .type = OptionType::text, .scope = OptionScope::launcher,
             .default_text = "",
             .help = "The hosts to run on, separated by commas; empty: this one"},
  OptionSpec{.id = Option::launch_agent, .name = "launch-agent", .type = OptionType::text, .scope = OptionScope::launcher,
             .default_text = "ssh",
             .help = "The command that starts a program on another host, called as: agent host program arguments"},
  OptionSpec{.id = Option::timeout, .name = "timeout", .type = OptionType::duration, .scope = OptionScope::launcher,
             .default_text = "0s",
             .help = "Ends a job that has run this long, and says where its ranks were; 0: never",
             .minimum = 0, .maximum = 366 * option_limits::day},
  OptionSpec{.id = Option::node_timeout, .name = "node-timeout", .type = OptionType::duration, .scope = OptionScope::launcher,
             .default_text = "20s",
             .help = "Ends a job when another host has not answered for this long; 0: never",
             .minimum = 0, .maximum = option_limits::day},
  OptionSpec{.id = Option::output, .name = "output", .type = OptionType::choice, .scope = OptionScope::launcher,
             .default_text = "raw",
             .help = "Output of ranks: raw as it comes, prefix with the rank before each line, ordered by rank as well",
             .choices = "raw|prefix|ordered"},
  OptionSpec{.id = Option::trace, .name = "trace", .type = OptionType::text, .scope = OptionScope::launcher,
             .default_text = "",
             .help = "The file that gets all regions, faults, fences and transfers of all threads, for ui.perfetto.dev; empty: none"},
  OptionSpec{.id = Option::report, .name = "report", .type = OptionType::choice, .scope = OptionScope::launcher,
             .default_text = "none",
             .help = "What is told at the end: sharing names the variables that ranks share, and what they cost",
             .choices = "none|sharing"},
  OptionSpec{.id = Option::report_file, .name = "report-file", .type = OptionType::text, .scope = OptionScope::launcher,
             .default_text = "",
             .help = "The file that --report writes, as one web page if its name ends in .html; empty: standard error"},
};
// clang-format on

inline constexpr std::size_t option_count = option_table.size();

/// The line of an option.
constexpr const OptionSpec& spec_of(Option option) noexcept {
  return option_table[static_cast<std::size_t>(option)];
}

namespace option_check {
constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < option_count; ++i) {
    if (static_cast<std::size_t>(option_table[i].id) != i) return false;
  }
  return true;
}
static_assert(in_enum_order(), "option_table must list the options in the order of the enum");
static_assert(static_cast<std::size_t>(Option::report_file) + 1 == option_count,
              "an option has no line in option_table");
}  // namespace option_check

}  // namespace craton
