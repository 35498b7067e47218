#include "omp/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "base/processors.hpp"
#include "omp/reader.hpp"

namespace craton::omp {

namespace {

using Variable = const char* (*)(const char*);
using Warn = void (*)(const std::string&);

/// Reads variables, and warns of what it cannot read.
class Variables {
 public:
  Variables(Variable variable, Warn warning) : variable_(variable), warn_(warning) {}

  /// \param read takes a whole value from a Reader, or returns nothing \returns what it read; nothing if the
  /// variable is not set or makes no sense
  template <typename Read>
  auto read(const char* name, const Read& read) const -> decltype(read(std::declval<Reader&>())) {
    const char* const text = variable_(name);
    if (text == nullptr) return {};
    Reader reader(text);
    auto value = read(reader);
    if (value && reader.is_at_end()) return value;
    warn_(fmt::format("libgomp: Invalid value for environment variable {}", name));
    return {};
  }
  std::optional<bool> read_flag(const char* name) const {
    return read(name, [](Reader& reader) -> std::optional<bool> {
      if (reader.take_word("true")) return true;
      if (reader.take_word("false")) return false;
      return std::nullopt;
    });
  }
  std::optional<std::uint32_t> read_number(const char* name, std::uint64_t least) const {
    return read(name, [least](Reader& reader) -> std::optional<std::uint32_t> {
      const auto number = reader.take_number();
      if (!number || *number < least) return std::nullopt;
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(*number, no_thread_limit));
    });
  }
  const char* text(const char* name) const { return variable_(name); }
  void say(const std::string& line) const { warn_(line); }

 private:
  Variable variable_;
  Warn warn_;
};

std::int32_t to_int(std::uint32_t number) noexcept {
  return static_cast<std::int32_t>(std::min<std::uint32_t>(number, 0x7fffffffU));
}

std::optional<std::vector<std::uint32_t>> take_list(Reader& reader) {
  std::vector<std::uint32_t> list;
  do {
    const auto number = reader.take_number();
    if (!number || *number == 0 || *number > 0x7fffffffU) return std::nullopt;
    list.push_back(static_cast<std::uint32_t>(*number));
  } while (reader.take(','));
  return list;
}

void read_schedule(const Variables& variables, Icvs& icvs) {
  const char* const text = variables.text("OMP_SCHEDULE");
  if (text == nullptr) return;
  Reader reader(text);
  const bool is_monotonic = reader.take_word("monotonic") && reader.take(':');
  const bool is_nonmonotonic = !is_monotonic && reader.take_word("nonmonotonic") && reader.take(':');
  constexpr std::array<std::pair<std::string_view, Schedule>, 4> names{{{"static", Schedule::fixed},
                                                                        {"dynamic", Schedule::dynamic},
                                                                        {"guided", Schedule::guided},
                                                                        {"auto", Schedule::automatic}}};
  for (const auto& [name, schedule] : names) {
    if (!reader.take_word(name)) continue;
    std::uint64_t chunk = schedule == Schedule::fixed ? 0 : 1;
    if (reader.take(',')) {
      const auto given = reader.take_number();
      if (!given || *given > 0x7fffffffU) break;
      if (*given != 0) chunk = *given;
    }
    if (!reader.is_at_end()) break;
    const bool marked = is_monotonic || (schedule == Schedule::fixed && !is_nonmonotonic);
    icvs.schedule = static_cast<std::uint32_t>(schedule) | (marked ? monotonic_bit : 0);
    icvs.chunk = static_cast<std::int32_t>(chunk);
    return;
  }
  variables.say("libgomp: Unknown value for environment variable OMP_SCHEDULE");
}

std::optional<std::vector<Binding>> take_bindings(Reader& reader) {
  constexpr std::array<std::pair<std::string_view, Binding>, 6> names{{{"false", Binding::none},
                                                                       {"true", Binding::any},
                                                                       {"primary", Binding::primary},
                                                                       {"master", Binding::primary},
                                                                       {"close", Binding::close},
                                                                       {"spread", Binding::spread}}};
  std::vector<Binding> list;
  do {
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const auto& name) { return reader.take_word(name.first); });
    if (found == names.end()) return std::nullopt;
    list.push_back(found->second);
  } while (reader.take(','));
  const bool is_about_levels = list.size() > 1;
  if (is_about_levels && (list[0] == Binding::none || list[0] == Binding::any)) return std::nullopt;
  return list;
}

/// Where threads may be bound, and whether they are. Places that are given bind, unless it is said that
/// nothing does; where threads are bound and no places are given, each processor is one.
void read_places(const Variables& variables, const Topology& topology, Settings& settings) {
  const auto bindings = variables.read("OMP_PROC_BIND", take_bindings);
  if (bindings) settings.bindings = *bindings;
  settings.icvs.bind = bindings ? bindings->front() : Binding::none;
  const bool is_off = bindings && bindings->front() == Binding::none;
  auto list = variables.read("OMP_PLACES", [&](Reader& reader) { return take_places(reader, topology); });
  if (!list) {
    list = variables.read("GOMP_CPU_AFFINITY",
                          [&](Reader& reader) { return take_cpu_affinity(reader, topology); });
  }
  if (is_off) return;
  if (list && list->places.empty()) {
    variables.say("libgomp: None of the places contain usable logical CPUs");
    list = std::nullopt;
  } else if (list && list->places.size() < list->asked_for) {
    variables.say(
        fmt::format("libgomp: Number of places reduced from {} to {} because some places didn't "
                    "contain any usable logical CPUs",
                    list->asked_for, list->places.size()));
  }
  if (list && settings.icvs.bind == Binding::none) settings.icvs.bind = Binding::any;
  if (list) {
    settings.places = std::move(list->places);
  } else if (settings.icvs.bind != Binding::none) {
    settings.places = topology.places(PlaceKind::threads);
  }
}

std::optional<std::size_t> take_bytes(Reader& reader) {
  const auto number = reader.take_number();
  if (!number) return std::nullopt;
  unsigned shift = 10;  // without a unit: KiB
  constexpr std::array<std::pair<std::string_view, unsigned>, 4> units{
      {{"b", 0}, {"k", 10}, {"m", 20}, {"g", 30}}};
  for (const auto& [unit, bits] : units) {
    if (!reader.take_word(unit)) continue;
    shift = bits;
    break;
  }
  if (*number > ~std::uint64_t{0} >> shift) return std::nullopt;
  return *number << shift;
}

/// By their numbers, from 1.
constexpr std::array<const char*, 8> allocators{
    "omp_default_mem_alloc", "omp_large_cap_mem_alloc", "omp_const_mem_alloc", "omp_high_bw_mem_alloc",
    "omp_low_lat_mem_alloc", "omp_cgroup_mem_alloc",    "omp_pteam_mem_alloc", "omp_thread_mem_alloc"};

const char* text_of(bool flag) noexcept {
  return flag ? "TRUE" : "FALSE";
}

}  // namespace

Settings Settings::parse(std::uint32_t threads_a_rank, const Topology& topology, Variable variable,
                         Warn warn) {
  const Variables variables(variable, warn);
  Settings settings;
  settings.threads_a_rank = threads_a_rank;
  settings.threads = variables.read("OMP_NUM_THREADS", take_list).value_or(std::vector<std::uint32_t>());
  Icvs& icvs = settings.icvs;
  read_schedule(variables, icvs);
  icvs.dynamic = variables.read_flag("OMP_DYNAMIC").value_or(false);
  read_places(variables, topology, settings);
  // A list for inner levels says that they are wanted.
  if (settings.threads.size() > 1 || settings.bindings.size() > 1)
    icvs.max_active_levels = active_levels_at_most;
  const auto nested = variables.read_flag("OMP_NESTED");
  if (nested) icvs.max_active_levels = *nested ? active_levels_at_most : 1;
  if (const auto levels = variables.read_number("OMP_MAX_ACTIVE_LEVELS", 0))
    icvs.max_active_levels = std::min(*levels, active_levels_at_most);
  icvs.thread_limit = variables.read_number("OMP_THREAD_LIMIT", 1).value_or(no_thread_limit);
  icvs.default_device = to_int(variables.read_number("OMP_DEFAULT_DEVICE", 0).value_or(0));
  settings.stack_bytes = variables.read("OMP_STACKSIZE", take_bytes).value_or(0);
  if (settings.stack_bytes == 0)
    settings.stack_bytes = variables.read("GOMP_STACKSIZE", take_bytes).value_or(0);
  settings.max_task_priority = to_int(variables.read_number("OMP_MAX_TASK_PRIORITY", 0).value_or(0));
  settings.teams = to_int(variables.read_number("OMP_NUM_TEAMS", 1).value_or(0));
  settings.teams_thread_limit = to_int(variables.read_number("OMP_TEAMS_THREAD_LIMIT", 1).value_or(0));
  settings.cancellation = variables.read_flag("OMP_CANCELLATION").value_or(false);
  icvs.default_allocator = variables
                               .read("OMP_ALLOCATOR",
                                     [](Reader& reader) -> std::optional<std::uint64_t> {
                                       for (std::size_t i = 0; i < allocators.size(); ++i) {
                                         if (reader.take_word(allocators[i])) return i + 1;
                                       }
                                       return std::nullopt;
                                     })
                               .value_or(1);
  settings.display_affinity = variables.read_flag("OMP_DISPLAY_AFFINITY").value_or(false);
  if (const char* const format = variables.text("OMP_AFFINITY_FORMAT")) settings.affinity_format = format;
  settings.wait_policy = variables
                             .read("OMP_WAIT_POLICY",
                                   [](Reader& reader) -> std::optional<WaitPolicy> {
                                     if (reader.take_word("active")) return WaitPolicy::active;
                                     if (reader.take_word("passive")) return WaitPolicy::passive;
                                     return std::nullopt;
                                   })
                             .value_or(WaitPolicy::undefined);
  settings.display = variables
                         .read("OMP_DISPLAY_ENV",
                               [](Reader& reader) -> std::optional<Display> {
                                 if (reader.take_word("true") || reader.take_word("1")) return Display::yes;
                                 if (reader.take_word("false") || reader.take_word("0")) return Display::no;
                                 if (reader.take_word("verbose")) return Display::verbose;
                                 return std::nullopt;
                               })
                         .value_or(Display::no);
  return settings;
}

Settings Settings::from_environment(std::uint32_t threads_a_rank, fabric::Rank rank) {
  const auto get = [](const char* name) -> const char* { return std::getenv(name); };
  const Topology topology(processors());
  if (rank != 0) return parse(threads_a_rank, topology, get, [](const std::string&) {});
  return parse(threads_a_rank, topology, get, [](const std::string& line) {
    static_cast<void>(std::fprintf(stderr, "\n%s\n", line.c_str()));
  });
}

std::string Settings::text(std::uint32_t default_threads, bool verbose) const {
  constexpr std::array<const char*, 5> binding_names{"FALSE", "TRUE", "MASTER", "CLOSE", "SPREAD"};
  std::string binding = binding_names[static_cast<std::size_t>(icvs.bind)];
  for (std::size_t i = 1; i < bindings.size(); ++i)
    binding += fmt::format(",{}", binding_names[static_cast<std::size_t>(bindings[i])]);
  std::string number_of_threads = fmt::format("{}", threads.empty() ? default_threads : threads[0]);
  for (std::size_t i = 1; i < threads.size(); ++i) number_of_threads += fmt::format(",{}", threads[i]);
  const auto schedule = static_cast<Schedule>(icvs.schedule & ~monotonic_bit);
  const bool is_monotonic = (icvs.schedule & monotonic_bit) != 0;
  std::string schedule_text;
  std::int32_t usual_chunk = 1;
  switch (schedule) {
    case Schedule::fixed:
      schedule_text = is_monotonic ? "STATIC" : "NONMONOTONIC:STATIC";
      usual_chunk = 0;
      break;
    case Schedule::dynamic:
      schedule_text = is_monotonic ? "MONOTONIC:DYNAMIC" : "DYNAMIC";
      break;
    case Schedule::guided:
      schedule_text = is_monotonic ? "MONOTONIC:GUIDED" : "GUIDED";
      break;
    default:
      schedule_text = "AUTO";
      usual_chunk = icvs.chunk;
  }
  if (icvs.chunk != usual_chunk) schedule_text += fmt::format(",{}", icvs.chunk);
  std::string lines = "\nOPENMP DISPLAY ENVIRONMENT BEGIN\n";
  const auto add = [&lines](const char* name, const auto& value) {
    lines += fmt::format("  {} = '{}'\n", name, value);
  };
  add("_OPENMP", "201511");
  add("OMP_DYNAMIC", text_of(icvs.dynamic));
  add("OMP_NESTED", text_of(icvs.max_active_levels > 1));
  add("OMP_NUM_THREADS", number_of_threads);
  add("OMP_SCHEDULE", schedule_text);
  add("OMP_PROC_BIND", binding);
  add("OMP_PLACES", text_of(places));
  add("OMP_STACKSIZE", stack_bytes);
  add("OMP_WAIT_POLICY", wait_policy == WaitPolicy::active ? "ACTIVE" : "PASSIVE");
  add("OMP_THREAD_LIMIT", icvs.thread_limit);
  add("OMP_MAX_ACTIVE_LEVELS", icvs.max_active_levels);
  add("OMP_NUM_TEAMS", teams);
  add("OMP_TEAMS_THREAD_LIMIT", teams_thread_limit);
  add("OMP_CANCELLATION", text_of(cancellation));
  add("OMP_DEFAULT_DEVICE", icvs.default_device);
  add("OMP_MAX_TASK_PRIORITY", max_task_priority);
  add("OMP_DISPLAY_AFFINITY", text_of(display_affinity));
  add("OMP_AFFINITY_FORMAT", affinity_format);
  add("OMP_ALLOCATOR", allocators[icvs.default_allocator - 1]);
  add("OMP_TARGET_OFFLOAD", "DEFAULT");
  if (verbose) {
    add("GOMP_CPU_AFFINITY", "");
    add("GOMP_STACKSIZE", stack_bytes);
    // What libgomp would spin: here threads wait in their own way.
    constexpr std::array<const char*, 3> spins{"300000", "30000000000", "0"};
    add("GOMP_SPINCOUNT", spins[static_cast<std::size_t>(wait_policy)]);
  }
  return lines + "OPENMP DISPLAY ENVIRONMENT END\n";
}

}  // namespace craton::omp
