#include "posix/foreign_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string_view>

#include "base/line_writer.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "vm/fault_dispatcher.hpp"
#include "vm/skipped_addresses.hpp"

namespace craton::posix {

namespace {

/// A line of /proc/<pid>/maps: 1f00-2f00 r-xp 00000000 08:01 123 /path
class MapLine {
 public:
  bool take(char next) noexcept {
    if (next == '\n') return true;
    if (length_ < text_.size()) text_[length_++] = next;
    return false;
  }
  void clear() noexcept { length_ = 0; }

  bool holds(std::uintptr_t address) const noexcept {
    std::size_t at = 0;
    const std::uintptr_t begin = number(at);
    const std::uintptr_t end = number(++at);
    // What is only reserved is nobody's memory.
    return address >= begin && address < end && text().substr(at + 1, 3) != "---";
  }
  bool is_code() const noexcept {
    const std::size_t at = text().find(' ');
    return at != std::string_view::npos && text().substr(at + 3, 1) == "x";
  }
  /// Empty where the memory has none.
  std::string_view path() const noexcept {
    const std::size_t at = text().find_first_of("/[");
    return at == std::string_view::npos ? std::string_view() : text().substr(at);
  }

 private:
  std::string_view text() const noexcept { return {text_.data(), length_}; }
  std::uintptr_t number(std::size_t& at) const noexcept {
    std::uintptr_t value = 0;
    for (; at < length_ && text_[at] != '-' && text_[at] != ' '; ++at)
      value =
          value * 16 + static_cast<std::uintptr_t>(text_[at] <= '9' ? text_[at] - '0' : text_[at] - 'a' + 10);
    return value;
  }

  std::array<char, 512> text_;
  std::size_t length_ = 0;
};

/// Finds the line of the memory map of a process that has an address. In a handler of faults: no allocation.
bool find_line(pid_t process, std::uintptr_t address, MapLine& line) noexcept {
  std::array<char, 64> name;
  LineWriter path(name.data(), name.size() - 1);
  path.append("/proc/");
  path.append_unsigned(static_cast<std::uint64_t>(process));
  path.append("/maps");
  name[path.text().size()] = '\0';
  const int file = CRATON_REAL(open)(name.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<char, 2048> buffer;
  bool found = false;
  line.clear();
  for (ssize_t bytes = 0; !found && (bytes = CRATON_REAL(read)(file, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t i = 0; !found && i < bytes; ++i) {
      if (!line.take(buffer[static_cast<std::size_t>(i)])) continue;
      found = line.holds(address);
      if (!found) line.clear();
    }
  }
  CRATON_REAL(close)(file);
  return found;
}

std::string_view remedy_of(std::string_view path, bool is_code) noexcept {
  if (path.find(".so") != std::string_view::npos)
    return "; a library that the program loads while it runs belongs to one rank: link the program with it, "
           "or "
           "name it in LD_PRELOAD\n";
  if (path.empty() && is_code)
    return "; code that the program has made itself: let each rank make its own, or run it outside of "
           "parallel "
           "regions\n";
  if (path == "[heap]") return "; use malloc or mmap instead of sbrk\n";
  return "; let the program map it itself, from its own code, or use it outside of parallel regions\n";
}

void explain(std::uintptr_t address) noexcept {
  SharedProgram& program = *shared_program();
  MapLine line;
  if (address < page_bytes || find_line(::getpid(), address, line)) return;  // not what is explained here
  for (fabric::Rank rank = 0; rank < program.fabric().size(); ++rank) {
    const pid_t process = program.process_of(rank);
    if (rank == program.rank() || process == 0 || !find_line(process, address, line)) continue;
    const std::string_view path = line.path();
    std::array<char, 1024> text;
    LineWriter message(text.data(), text.size());
    message.append("craton: rank ");
    message.append_unsigned(program.rank());
    message.append(": used memory that only rank ");
    message.append_unsigned(rank);
    message.append(" has: ");
    message.append(path.empty() ? "mapped without a file" : path);
    message.append(remedy_of(path, line.is_code()));
    static_cast<void>(write_fully(STDERR_FILENO, message.text()));
    return;
  }
  if (!vm::is_skipped(address)) return;
  // Of another node, whose processes cannot be asked from here.
  std::array<char, 256> text;
  LineWriter message(text.data(), text.size());
  message.append("craton: rank ");
  message.append_unsigned(program.rank());
  message.append(
      ": used memory that a rank of another node has for itself; name libraries that the program loads while "
      "it runs in LD_PRELOAD; ranks of one node say what it is\n");
  static_cast<void>(write_fully(STDERR_FILENO, message.text()));
}

void explain_and_die(int signal, siginfo_t* information, void* /*context*/) {
  const bool sent = information->si_code <= 0;
  if (!sent) explain(reinterpret_cast<std::uintptr_t>(information->si_addr));
  // The access is made again when this returns, and the process dies of it as it would have.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  vm::exchange_next_action(signal, &usual, nullptr);
  // Of what somebody has sent there is no access.
  if (sent) ::raise(signal);
}

struct sigaction explanation() noexcept {
  struct sigaction action {};
  action.sa_sigaction = &explain_and_die;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return action;
}

bool is_explained(int signal) noexcept {
  return signal == SIGSEGV || signal == SIGBUS;
}

}  // namespace

void explain_faults(SharedProgram& program) {
  if (program.fabric().size() == 1) return;
  const struct sigaction ours = explanation();
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction before {};
    if (vm::exchange_next_action(signal, nullptr, &before) && before.sa_handler == SIG_DFL)
      vm::exchange_next_action(signal, &ours, nullptr);
  }
}

void hide_explanation(int signal, struct sigaction& action) noexcept {
  if (!is_explained(signal) || (action.sa_flags & SA_SIGINFO) == 0 || action.sa_sigaction != &explain_and_die)
    return;
  action = {};
  action.sa_handler = SIG_DFL;
}

void put_explanation(int signal, struct sigaction& action) noexcept {
  if (!is_explained(signal) || (action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) return;
  if (shared_program()->fabric().size() > 1) action = explanation();
}

}  // namespace craton::posix
