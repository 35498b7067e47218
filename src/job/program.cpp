#include "job/program.hpp"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/elf_symbols.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"

// Marks every executable that joins jobs by itself, however it was linked: inspect_program() looks for it.
asm(".pushsection .note.craton, \"a\", %note\n"
    "  .balign 4\n"
    "  .long 7, 4, 1\n"
    "  .asciz \"Craton\"\n"
    "  .balign 4\n"
    "  .long 1\n"
    ".popsection\n");

namespace craton::job {

namespace {

constexpr std::string_view note_owner = "Craton";
constexpr int loader_patience_ms = 10'000;
/// What glibc calls its loader, wherever it is: other loaders know no listing and would run the program.
constexpr std::string_view glibc_loader = "ld-linux-x86-64.so.2";

/// The path of the loader that an executable names.
std::string read_loader_path(int fd, const Elf64_Phdr& header) {
  std::string path(std::min<std::size_t>(header.p_filesz, PATH_MAX), '\0');
  if (!read_at(fd, header.p_offset, path.data(), path.size())) return {};
  return path.c_str();
}

/// With more than its caller may, a program gets addresses at random, and its loader takes no libraries of
/// the caller's. Not where files give none.
std::string privileges_of(int fd) {
  struct stat status {};
  struct statvfs mount {};
  if (::fstat(fd, &status) != 0 || ::fstatvfs(fd, &mount) != 0 || (mount.f_flag & ST_NOSUID) != 0 ||
      ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
    return {};
  if ((status.st_mode & S_ISUID) != 0) return "set-user-ID";
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0) return "set-group-ID";
  const bool is_root = ::geteuid() == 0;
  return !is_root && ::fgetxattr(fd, "security.capability", nullptr, 0) > 0 ? "with capabilities" : "";
}

bool has_craton_note(int fd, const Elf64_Phdr& header) {
  constexpr std::size_t most = 4096;
  std::vector<char> notes(std::min<std::size_t>(header.p_filesz, most));
  if (!read_at(fd, header.p_offset, notes.data(), notes.size())) return false;
  const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
  for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    at += sizeof note;
    if (note.n_namesz == note_owner.size() + 1 && at + note.n_namesz <= notes.size() &&
        std::string_view(notes.data() + at, note_owner.size()) == note_owner)
      return true;
    at += padded(note.n_namesz) + padded(note.n_descsz);
  }
  return false;
}

/// What the executable's symbols for the loader tell: whether a sanitizer's runtime is in it or needed by it,
/// and whether it calls an allocator's functions that the C library has no like of.
void note_symbols(int fd, ProgramFacts& facts) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> sanitizers{
      {{"__asan_init", "address"},
       {"__hwasan_init", "hwaddress"},
       {"__msan_init", "memory"},
       {"__tsan_init", "thread"}}};
  constexpr std::array<std::string_view, 12> calls{
      "mallocx",           "rallocx",           "xallocx",     "mi_malloc_aligned",
      "mi_zalloc_aligned", "mi_calloc_aligned", "mi_zalloc",   "mi_realloc_aligned",
      "mi_malloc_small",   "mi_zalloc_small",   "mi_heap_new", "mi_heap_malloc"};
  const ElfSymbols found = read_elf_symbols(fd, {SHT_DYNSYM});
  const std::string names = read_names(fd, found);
  for (const Elf64_Sym& symbol : found.symbols) {
    if (symbol.st_name >= names.size()) continue;
    const std::string_view name = names.c_str() + symbol.st_name;
    for (const auto& [init, sanitizer] : sanitizers)
      if (name == init) facts.sanitizer = sanitizer;
    if (symbol.st_shndx == SHN_UNDEF && std::find(calls.begin(), calls.end(), name) != calls.end())
      facts.allocator_call = name;
  }
}

/// What glibc's loader prints when it is told to list instead of to run: lines like "\tlibm.so.6 =>
/// /lib/libm.so.6 (0x7f)", then those of versions, like "\tlibm.so.6 (GLIBC_2.29) => /lib/libm.so.6". Called
/// by itself, since it would run a set-user-ID program.
std::string loader_listing(const std::string& loader, const std::string& path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error::from_errno("cannot ask the loader about " + path, errno, "ulimit -n");
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw Error::from_errno("cannot ask the loader about " + path, errno, "ulimit -u");
  if (child == 0) {
    ::dup2(to.get(), STDOUT_FILENO);
    ::dup2(to.get(), STDERR_FILENO);
    ::setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
    ::setenv("LD_VERBOSE", "1", 1);
    ::unsetenv("LD_PRELOAD");
    const std::array<char*, 3> arguments{const_cast<char*>(loader.c_str()), const_cast<char*>(path.c_str()),
                                         nullptr};
    ::execv(loader.c_str(), arguments.data());
    ::_exit(127);
  }
  to.reset();
  std::string text;
  std::array<char, 4096> piece;
  for (;;) {
    pollfd wait{.fd = from.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, loader_patience_ms) <= 0) {
      ::kill(child, SIGKILL);
      break;
    }
    const ssize_t bytes = ::read(from.get(), piece.data(), piece.size());
    if (bytes <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  ::waitpid(child, nullptr, 0);
  return text;
}

void note_libraries(const std::string& listing, ProgramFacts& facts) {
  for (std::size_t begin = 0; begin < listing.size();) {
    const std::size_t end = std::min(listing.find('\n', begin), listing.size());
    std::string_view line(listing.data() + begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (line.front() == '\t' || line.front() == ' ')) line.remove_prefix(1);
    const std::string_view name = line.substr(0, line.find(' '));
    if (line.find("=> not found") != std::string_view::npos) facts.missing.emplace_back(name);
    if (line.find("(GOACC_") != std::string_view::npos) facts.uses_openacc = true;
    for (const std::string_view openmp : {"libgomp.so", "libomp.so", "libiomp5.so"}) {
      if (name.starts_with(openmp)) facts.openmp = name;
    }
    if (name.starts_with("libcraton.so")) facts.uses_craton = true;
  }
}

}  // namespace

FoundProgram find_program(const std::string& name, std::string_view path) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else {
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find(':', begin), path.size());
      const std::string_view directory = path.substr(begin, end - begin);
      candidates.push_back(std::string(directory.empty() ? "." : directory) + "/" + name);
      begin = end + 1;
    }
  }
  FoundProgram found{.path = {}, .errno_value = ENOENT};
  if (name.empty()) return found;
  for (const std::string& candidate : candidates) {
    struct stat status {};
    if (::stat(candidate.c_str(), &status) != 0) {
      if (candidates.size() == 1) found.errno_value = errno;
    } else if (S_ISDIR(status.st_mode)) {
      found.errno_value = EISDIR;
    } else if (::faccessat(AT_FDCWD, candidate.c_str(), X_OK, AT_EACCESS) == 0) {
      return {.path = candidate, .errno_value = 0};
    } else {
      found.errno_value = errno;
    }
  }
  return found;
}

bool ProgramFacts::has_glibc_loader() const {
  return loader.substr(loader.rfind('/') + 1) == glibc_loader;
}

std::string_view program_path() noexcept {
  const char* const path = std::getenv("PATH");
  return path != nullptr ? path : "/bin:/usr/bin";
}

ProgramFacts inspect_program(const std::string& path) {
  ProgramFacts facts;
  facts.path = path;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw Error::from_errno("cannot read " + path, errno);
  Elf64_Ehdr header{};
  const ssize_t bytes = ::pread(fd.get(), &header, sizeof header, 0);
  if (bytes == 0) facts.damage = "it is empty";
  if (bytes < SELFMAG || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return facts;
  facts.is_elf = true;
  const bool is_64_bit = bytes > EI_CLASS && header.e_ident[EI_CLASS] == ELFCLASS64;
  const std::size_t header_bytes = bytes <= EI_CLASS || is_64_bit ? sizeof header : sizeof(Elf32_Ehdr);
  if (static_cast<std::size_t>(bytes) < header_bytes) facts.damage = "it ends within its ELF header";
  if (!is_64_bit || !facts.damage.empty()) return facts;
  facts.privileges = privileges_of(fd.get());
  facts.is_x86_64 = header.e_machine == EM_X86_64;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_at(fd.get(), header.e_phoff + std::uint64_t{i} * header.e_phentsize, &part, sizeof part)) break;
    if (part.p_type == PT_INTERP) facts.loader = read_loader_path(fd.get(), part);
    if (part.p_type == PT_NOTE && has_craton_note(fd.get(), part)) facts.uses_craton = true;
  }
  if (facts.is_x86_64 && facts.has_glibc_loader()) {
    note_symbols(fd.get(), facts);
    note_libraries(loader_listing(facts.loader, path), facts);
  }
  return facts;
}

}  // namespace craton::job
