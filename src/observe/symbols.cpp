#include "observe/symbols.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/unique_fd.hpp"

extern char** environ;  // NOLINT: POSIX has it nowhere else

namespace craton::observe {

namespace {

/// What a tool prints; "" where there is no such tool.
std::string output_of(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  to.reset();
  if (error != 0) return {};
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      break;
    }
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return text;
}

/// Without its folders, and without what addr2line adds.
std::string short_line(std::string_view line) {
  line = line.substr(0, line.find(" (discriminator"));
  return std::string(line.substr(line.rfind('/') + 1));
}

bool is_known_line(std::string_view line) {
  return !line.starts_with("??") && !line.ends_with(":?") && !line.ends_with(":0");
}

bool is_of_system(std::string_view line) {
  return line.starts_with("/usr/include/") || line.starts_with("/usr/lib/");
}

/// GCC numbers functions that it has split, and local variables that are static.
std::string without_number(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const auto is_digit = [](char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; };
  if (dot != std::string_view::npos && dot != 0 && dot + 1 < name.size() &&
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dot) + 1, name.end(), is_digit))
    name = name.substr(0, dot);
  return std::string(name);
}

}  // namespace

const Module* Symbols::module_of(std::uint64_t address) const noexcept {
  const auto found = std::find_if(modules_.begin(), modules_.end(), [address](const Module& module) {
    return address >= module.begin && address < module.end;
  });
  return found == modules_.end() ? nullptr : &*found;
}

void Symbols::learn_code(const std::vector<std::uint64_t>& addresses) {
  constexpr std::size_t at_a_time = 1000;  // words of a command line
  std::map<const Module*, std::vector<std::uint64_t>> by_module;
  for (const std::uint64_t address : addresses) {
    if (address == 0 || code_.contains(address)) continue;
    const Module* const module = module_of(address);
    code_[address] = {.function = {},
                      .line = module == nullptr ? fmt::format("{:#x}", address)
                                                : fmt::format("{}+{:#x}", short_line(module->path),
                                                              address - module->base)};
    if (module != nullptr) by_module[module].push_back(address);
  }
  for (const auto& [module, wanted] : by_module) {
    for (std::size_t first = 0; first < wanted.size(); first += at_a_time) {
      const std::size_t count = std::min(at_a_time, wanted.size() - first);
      std::vector<std::string> words{"addr2line", "-C", "-f", "-i", "-a", "-e", module->path};
      for (std::size_t i = 0; i < count; ++i)
        words.push_back(fmt::format("{:#x}", wanted[first + i] - module->base));
      std::istringstream lines(output_of(std::move(words)));
      std::size_t next = first;
      CodePlace* place = nullptr;
      bool has_own_line = false;
      for (std::string function; std::getline(lines, function);) {
        if (function.starts_with("0x")) {
          if (next == first + count) break;
          place = &code_[wanted[next++]];
          has_own_line = false;
          continue;
        }
        std::string line;
        if (place == nullptr || !std::getline(lines, line)) break;
        if (function != "??") place->function = function;
        if (has_own_line || !is_known_line(line)) continue;
        has_own_line = !is_of_system(line);
        place->line = short_line(line);
      }
    }
  }
}

CodePlace Symbols::code(std::uint64_t address) const {
  const auto found = code_.find(address);
  return found == code_.end() ? CodePlace{} : found->second;
}

std::string Symbols::region(std::uint64_t function) const {
  if (function == 0) return "outside of regions";
  if (function == events::other_regions) return "other regions";
  const CodePlace place = code(function);
  std::string name = place.function;
  if (const std::size_t outlined = name.find("._omp_fn"); outlined != std::string::npos)
    name.resize(outlined);
  return name.empty() ? place.line : fmt::format("{} ({})", name, place.line);
}

const std::vector<Variable>& Symbols::variables_of(const Module& module) {
  const auto known = variables_.find(module.path);
  if (known != variables_.end()) return known->second;
  std::vector<Variable>& all = variables_[module.path];
  std::istringstream lines(output_of({"nm", "-C", "-S", "-l", "--defined-only", module.path}));
  for (std::string line; std::getline(lines, line);) {
    // 0000000000004060 0000000000000040 B counters\t/home/me/program.c:12
    Variable variable{};
    const char* const end = line.data() + line.size();
    const auto begin = std::from_chars(line.data(), end, variable.begin, 16);
    if (begin.ec != std::errc() || begin.ptr == end) continue;
    const auto bytes = std::from_chars(begin.ptr + 1, end, variable.bytes, 16);
    if (bytes.ec != std::errc() || end - bytes.ptr < 4) continue;
    constexpr std::string_view data_kinds = "BbDdGgSsVvuCc";
    if (data_kinds.find(bytes.ptr[1]) == std::string_view::npos) continue;
    const std::string_view rest(bytes.ptr + 3, static_cast<std::size_t>(end - bytes.ptr - 3));
    const std::size_t tab = rest.find('\t');
    variable.name = without_number(rest.substr(0, tab));
    if (tab != std::string_view::npos) variable.line = short_line(rest.substr(tab + 1));
    variable.begin += module.base;
    all.push_back(std::move(variable));
  }
  std::sort(all.begin(), all.end(),
            [](const Variable& one, const Variable& other) { return one.begin < other.begin; });
  return all;
}

const Variable* Symbols::variable(std::uint64_t address) {
  const Module* const module = module_of(address);
  if (module == nullptr) return nullptr;
  const std::vector<Variable>& all = variables_of(*module);
  const auto above = std::upper_bound(
      all.begin(), all.end(), address,
      [](std::uint64_t wanted, const Variable& variable) { return wanted < variable.begin; });
  if (above == all.begin()) return nullptr;
  const Variable& found = *std::prev(above);
  return address < found.begin + std::max<std::uint64_t>(found.bytes, 1) ? &found : nullptr;
}

}  // namespace craton::observe
