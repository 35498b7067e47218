/// \file
/// Places and affinity (places.hpp).
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "omp/api/api.hpp"
#include "omp/team.hpp"

namespace craton::omp::api {

namespace {

std::string affinity_format() {
  std::array<char, affinity_format_bytes> chosen{};
  if (runtime() != nullptr)
    runtime()->read_words(chosen.data(), offsetof(Words, affinity_format), chosen.size());
  chosen.back() = '\0';
  return chosen.front() != '\0' ? std::string(chosen.data() + 1) : settings().affinity_format;
}

/// For all threads of the program. What is too long loses its end.
void choose_affinity_format(std::string_view format) {
  if (runtime() == nullptr) return;
  std::array<char, affinity_format_bytes> chosen{};
  chosen.front() = '\1';
  std::copy_n(format.data(), std::min(format.size(), chosen.size() - 2), chosen.data() + 1);
  runtime()->write_words(offsetof(Words, affinity_format), chosen.data(), chosen.size());
}

std::string cpus_text() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::string text;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &set)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(last + 1), &set)) ++last;
    if (!text.empty()) text += ',';
    text += last > cpu ? fmt::format("{}-{}", cpu, last) : fmt::format("{}", cpu);
    cpu = last;
  }
  return text;
}

struct Field {
  char letter;
  std::string_view name;
};
constexpr std::array<Field, 11> fields{{{'t', "team_num"},
                                        {'T', "num_teams"},
                                        {'L', "nesting_level"},
                                        {'n', "thread_num"},
                                        {'N', "num_threads"},
                                        {'a', "ancestor_tnum"},
                                        {'H', "host"},
                                        {'P', "process_id"},
                                        {'i', "native_thread_id"},
                                        {'A', "thread_affinity"},
                                        {'%', "%"}}};

std::string value_of(char letter) {
  const TeamState& state = self().state;
  switch (letter) {
    case 't':
      return fmt::format("{}", state.league.number);
    case 'T':
      return fmt::format("{}", state.league.count);
    case 'L':
      return fmt::format("{}", state.level);
    case 'n':
      return fmt::format("{}", state.number);
    case 'N':
      return fmt::format("{}", state.team != nullptr ? state.team->size() : 1);
    case 'a':
      return state.team != nullptr ? fmt::format("{}", state.team->outer().number) : "-1";
    case 'H': {
      std::array<char, 256> name{};
      return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
    }
    case 'P':
      return fmt::format("{}", ::getpid());
    case 'i':
      return fmt::format("{:#x}", ::pthread_self());
    case 'A':
      return cpus_text();
    default:
      return "%";
  }
}

/// Writes out a format: %[[0].][width]letter or %[[0].][width]{name}; a dot aligns to the right.
std::string expand(std::string_view format) {
  std::string text;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      text += format[at];
      continue;
    }
    ++at;
    const bool zeros = format[at] == '0' && at + 1 < format.size() && format[at + 1] == '.';
    if (zeros) ++at;
    const bool right = format[at] == '.';
    if (right) ++at;
    std::size_t width = 0;
    for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at)
      width = std::min<std::size_t>(width * 10 + static_cast<std::size_t>(format[at] - '0'), 4096);
    if (at == format.size()) break;
    char letter = format[at];
    if (letter == '{') {
      const std::size_t close = std::min(format.find('}', at), format.size());
      const std::string_view name = format.substr(at + 1, close - at - 1);
      const auto found =
          std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
      letter = found != fields.end() ? found->letter : '?';
      at = close;
    }
    const bool known =
        std::any_of(fields.begin(), fields.end(), [&](const Field& field) { return field.letter == letter; });
    const std::string value = known ? value_of(letter) : "undefined";
    const std::size_t fill = width > value.size() ? width - value.size() : 0;
    if (right && zeros && letter != 'H' && letter != 'A') {
      // Zeros go behind what a number begins with.
      const std::size_t head = value[0] == '-' ? 1 : value.substr(0, 2) == "0x" ? 2 : 0;
      text += value.substr(0, head) + std::string(fill, '0') + value.substr(head);
      continue;
    }
    if (right) text.append(fill, ' ');
    text += value;
    if (!right) text.append(fill, ' ');
  }
  return text;
}

std::string expand_or_default(const char* format, std::size_t bytes) {
  return expand(bytes != 0 ? std::string(format, bytes) : affinity_format());
}

const std::vector<Place>& places() {
  return settings().places;
}
/// Of one that is not there: no processors.
const Place& place_at(std::int64_t place) {
  static const Place none;
  if (place < 0 || static_cast<std::uint64_t>(place) >= places().size()) return none;
  return places()[static_cast<std::size_t>(place)];
}
Seat seat() {
  return runtime() != nullptr ? runtime()->seat_of(self().state) : Seat{};
}
template <typename Number>
void list_partition(Number* numbers) {
  const Seat own = seat();
  std::iota(numbers, numbers + own.count, static_cast<Number>(own.first));
}

}  // namespace

// Of the node; the part of this rank is what its initial partition is.

CRATON_OMP int omp_get_num_places() {
  return static_cast<int>(places().size());
}
CRATON_OMP int omp_get_place_num_procs(int place) {
  return static_cast<int>(place_at(place).size());
}
CRATON_OMP void omp_get_place_proc_ids(int place, int* ids) {
  std::copy(place_at(place).begin(), place_at(place).end(), ids);
}
CRATON_OMP int omp_get_place_num() {
  return seat().count != 0 ? static_cast<int>(seat().place) : -1;
}
CRATON_OMP int omp_get_partition_num_places() {
  return static_cast<int>(seat().count);
}
CRATON_OMP void omp_get_partition_place_nums(int* places) {
  list_partition(places);
}

CRATON_OMP void omp_set_affinity_format(const char* format) {
  choose_affinity_format(format);
}
/// \returns the length of the format; copies what there is room for
CRATON_OMP std::size_t omp_get_affinity_format(char* buffer, std::size_t bytes) {
  const std::string format = affinity_format();
  if (bytes == 0) return format.size();
  const std::size_t copied = std::min(bytes - 1, format.size());
  std::copy_n(format.data(), copied, buffer);
  buffer[copied] = '\0';
  return format.size();
}
CRATON_OMP void omp_display_affinity(const char* format) {
  const std::string line = expand_or_default(format, format != nullptr ? std::strlen(format) : 0) + "\n";
  static_cast<void>(std::fputs(line.c_str(), stderr));
}
CRATON_OMP std::size_t omp_capture_affinity(char* buffer, std::size_t bytes, const char* format) {
  const std::string text = expand_or_default(format, format != nullptr ? std::strlen(format) : 0);
  if (bytes == 0) return text.size();
  const std::size_t copied = std::min(bytes - 1, text.size());
  std::copy_n(text.data(), copied, buffer);
  buffer[copied] = '\0';
  return text.size();
}

// ---- Fortran: texts have a length and are filled up with spaces

CRATON_OMP std::int32_t omp_get_num_places_() {
  return omp_get_num_places();
}
CRATON_OMP std::int32_t omp_get_place_num_procs_(const std::int32_t* place) {
  return omp_get_place_num_procs(*place);
}
CRATON_OMP std::int32_t omp_get_place_num_procs_8_(const std::int64_t* place) {
  return omp_get_place_num_procs(to_int(*place));
}
CRATON_OMP void omp_get_place_proc_ids_(const std::int32_t* place, std::int32_t* ids) {
  std::copy(place_at(*place).begin(), place_at(*place).end(), ids);
}
CRATON_OMP void omp_get_place_proc_ids_8_(const std::int64_t* place, std::int64_t* ids) {
  std::copy(place_at(*place).begin(), place_at(*place).end(), ids);
}
CRATON_OMP std::int32_t omp_get_place_num_() {
  return omp_get_place_num();
}
CRATON_OMP std::int32_t omp_get_partition_num_places_() {
  return omp_get_partition_num_places();
}
CRATON_OMP void omp_get_partition_place_nums_(std::int32_t* places) {
  list_partition(places);
}
CRATON_OMP void omp_get_partition_place_nums_8_(std::int64_t* places) {
  list_partition(places);
}

CRATON_OMP void omp_set_affinity_format_(const char* format, std::size_t bytes) {
  choose_affinity_format({format, bytes});
}
CRATON_OMP std::int32_t omp_get_affinity_format_(char* buffer, std::size_t bytes) {
  const std::string format = affinity_format();
  const std::size_t copied = std::min(bytes, format.size());
  std::copy_n(format.data(), copied, buffer);
  std::fill_n(buffer + copied, bytes - copied, ' ');
  return static_cast<std::int32_t>(format.size());
}
CRATON_OMP void omp_display_affinity_(const char* format, std::size_t bytes) {
  const std::string line = expand_or_default(format, bytes) + "\n";
  static_cast<void>(std::fputs(line.c_str(), stderr));
}
CRATON_OMP std::int32_t omp_capture_affinity_(char* buffer, const char* format, std::size_t bytes,
                                              std::size_t format_bytes) {
  const std::string text = expand_or_default(format, format_bytes);
  const std::size_t copied = std::min(bytes, text.size());
  std::copy_n(text.data(), copied, buffer);
  std::fill_n(buffer + copied, bytes - copied, ' ');
  return static_cast<std::int32_t>(text.size());
}

}  // namespace craton::omp::api
