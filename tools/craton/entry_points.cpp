#include "entry_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace craton::tools {

// By the version scripts that libcraton-run.so is linked with, so that this cannot say what is not so.
extern const std::string_view libgomp_map;
extern const std::string_view libgomp_absent_map;
extern const std::string_view libomp_map;
extern const std::string_view libomp_absent_map;

namespace {

struct Note {
  std::string_view prefix;  ///< of names, or of nodes
  std::string_view text;
};
constexpr std::array<Note, 24> notes{{
    {"GOACC_", "OpenACC: build the program with -fopenmp"},
    {"OACC_", "OpenACC: build the program with -fopenmp"},
    {"GOMP_PLUGIN_", "for plug-ins of libgomp, which drive devices; there are none"},
    {"GOMP_target", "there are no devices: regions run on the host, nothing is mapped"},
    {"GOMP_offload_", "there are no devices: their code is left alone"},
    {"GOMP_teams", "teams run one after the other"},
    {"GOMP_taskyield", "does nothing, as OpenMP allows"},
    {"omp_get_num_places", "there are no places: threads are bound by who starts the ranks"},
    {"omp_get_partition_", "there are no places: threads are bound by who starts the ranks"},
    {"omp_get_place_", "there are no places: threads are bound by who starts the ranks"},
    {"omp_get_num_devices", "there are no devices"},
    {"omp_target_associate_ptr", "there are no devices"},
    {"omp_target_disassociate_ptr", "there are no devices"},
    {"omp_pause_resource", "frees nothing: threads stay"},
    {"omp_get_num_procs", "ranks times --threads"},
    {"omp_get_max_threads", "of all ranks"},
    {"omp_get_thread_limit", "each rank has a part of it for regions inside of others"},
    {"omp_init_allocator", "all memory is the shared heap's, whatever the traits ask for; none is pinned"},
    {"__kmpc_atomic_", "atomic among such calls, not beside instructions"},
    {"__kmpc_omp_taskyield", "does nothing, as OpenMP allows"},
    {"__kmpc_push_proc_bind", "there are no places: threads are bound by who starts the ranks"},
    {"__kmpc_fork_teams", "teams run one after the other"},
    {"__kmpc_omp_target_task_alloc", "there are no devices: regions run on the host"},
    {"kmp_set_", "remembered at most: threads, stacks and waits are chosen by OMP_ variables"},
}};
/// Of what libomp has and this runtime has not.
constexpr std::array<Note, 12> libomp_absent_notes{{
    {"__kmpc_proxy_task_completed", "for plug-ins of libomp, which drive devices; there are none"},
    {"__kmpc_threadprivate", "only without thread-local storage: leave out -fnoopenmp-use-tls"},
    {"__kmpc_", "clang does not call it since version 11"},
    {"omp_get_interop_", "there are no devices"},
    {"omp_get_num_interop_", "there are no devices"},
    {"omp_", "a variable of other compilers: clang has the number itself"},
    {"ompc_", "another compiler's name of the omp_ routine"},
    {"ompt_", "there are no tools"},
    {"kmp_threadprivate_", "libomp's own"},
    {"kmp_", "there are no places, and nothing of libomp's to look into"},
    {"kmpc_", "there are no places"},
    {"", "libomp's own"},
}};

/// The node of all that libomp exports.
constexpr std::string_view libomp_node = "VERSION";

std::string_view note_of(const EntryPoint& entry) noexcept {
  if (!entry.is_there && entry.node == libomp_node) {
    return std::find_if(libomp_absent_notes.begin(), libomp_absent_notes.end(),
                        [&](const Note& note) { return entry.name.starts_with(note.prefix); })
        ->text;
  }
  const auto* const found = std::find_if(notes.begin(), notes.end(), [&](const Note& note) {
    return entry.name.starts_with(note.prefix) || entry.node.starts_with(note.prefix);
  });
  return found != notes.end() ? found->text : std::string_view();
}

/// \param map lines of "NODE {", "name;", "global:", "local: *;" and "} NODE;"
void append_entries(std::vector<EntryPoint>& entries, std::string_view map, bool is_there) {
  std::string_view node;
  while (!map.empty()) {
    std::string_view line = map.substr(0, map.find('\n'));
    map.remove_prefix(std::min(line.size() + 1, map.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.ends_with(" {")) {
      node = line.substr(0, line.size() - 2);
    } else if (!node.empty() && line.ends_with(';') && line.find_first_of(" }") == std::string_view::npos) {
      EntryPoint entry{
          .node = node, .name = line.substr(0, line.size() - 1), .is_there = is_there, .note = {}};
      entry.note = note_of(entry);
      entries.push_back(entry);
    }
  }
}

}  // namespace

std::vector<EntryPoint> entry_points() {
  std::vector<EntryPoint> entries;
  append_entries(entries, libgomp_map, true);
  append_entries(entries, libgomp_absent_map, false);
  append_entries(entries, libomp_map, true);
  append_entries(entries, libomp_absent_map, false);
  return entries;
}

std::string entry_points_as_text() {
  std::string text;
  struct Sum {
    std::size_t all = 0;
    std::size_t there = 0;
  };
  Sum libgomp;
  Sum libomp;
  for (const EntryPoint& entry : entry_points()) {
    Sum& sum = entry.node == libomp_node ? libomp : libgomp;
    ++sum.all;
    sum.there += entry.is_there ? 1 : 0;
    text += fmt::format("{:<16}{:<48}{:<3}{}{}\n", entry.node, entry.name, entry.is_there ? "yes" : "no",
                        entry.note.empty() ? "" : "  ", entry.note);
  }
  return text + fmt::format("{} of {} names that libgomp 12 exports\n", libgomp.there, libgomp.all) +
         fmt::format("{} of {} names that libomp 14 exports, or clang 15 and 16 call\n", libomp.there,
                     libomp.all);
}

}  // namespace craton::tools
