// Semaphores that have names. What the C library maps of one belongs to one process, so:
//
//     all ranks on one node   ──▶ the same file mapped on all of them, at one address: it is still the
//                                 semaphore that other processes open by the name
//     several nodes           ──▶ of one that the program makes, a semaphore in the shared heap, which
//                                 other processes do not see. One that was there before is the rank's
//
// All ranks know which there are, and how often they are open: who opens one again gets the same.
#include <fcntl.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/cancellation.hpp"
#include "base/kept_errno.hpp"
#include "base/line_writer.hpp"
#include "base/unique_fd.hpp"
#include "posix/allocation.hpp"
#include "posix/everywhere.hpp"
#include "posix/mappings.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

namespace {

using What = SemaphoreChange::What;

/// As the C library names its file.
std::string file_of(const char* name) {
  return "/dev/shm/sem." + std::string(name + std::strspn(name, "/"));
}

/// 0: there is none.
std::uint64_t inode_of(const std::string& file) noexcept {
  struct stat status {};
  return CRATON_REAL(stat)(file.c_str(), &status) == 0 ? status.st_ino : 0;
}

struct NamedSemaphore {
  sem_t* semaphore;
  std::uint64_t inode;  ///< of the file; 0: in the shared heap
  std::string file;     ///< empty: unlinked
  int opens;
};

/// On all ranks the same, but for the moment of a change.
class NamedSemaphores {
 public:
  /// \param inode a file that has the name now
  sem_t* find(const std::string& file, std::uint64_t inode) {
    const std::lock_guard lock(lock_);
    const auto at = std::find_if(all_.begin(), all_.end(), [&](const NamedSemaphore& each) {
      return each.file == file && each.inode == inode;
    });
    return at == all_.end() ? nullptr : at->semaphore;
  }
  std::optional<NamedSemaphore> find(const sem_t* semaphore) {
    const std::lock_guard lock(lock_);
    const auto at = find_here(semaphore);
    return at == all_.end() ? std::nullopt : std::optional(*at);
  }
  void change(const SemaphoreChange& change, const char* file) {
    const std::lock_guard lock(lock_);
    if (change.what == What::made) {
      all_.push_back({.semaphore = change.semaphore, .inode = change.inode, .file = file, .opens = 1});
      return;
    }
    const auto at = find_here(change.semaphore);
    if (at == all_.end()) return;
    if (change.what == What::opened) ++at->opens;
    if (change.what == What::closed) --at->opens;
    if (change.what == What::unlinked) at->file.clear();
    if (at->opens == 0 && is_unreachable(*at)) all_.erase(at);
  }

 private:
  /// When nobody has it open any more: of a file the next one who wants it maps it anew.
  static bool is_unreachable(const NamedSemaphore& semaphore) noexcept {
    return semaphore.inode != 0 || semaphore.file.empty();
  }
  std::vector<NamedSemaphore>::iterator find_here(const sem_t* semaphore) {
    return std::find_if(all_.begin(), all_.end(),
                        [&](const NamedSemaphore& each) { return each.semaphore == semaphore; });
  }

  std::mutex lock_;
  std::vector<NamedSemaphore> all_;
};

NamedSemaphores& known() {
  static auto* const semaphores = new NamedSemaphores;  // to the end of the process
  return *semaphores;
}

void change_everywhere(const SemaphoreChange& change, const std::string& file = {}) {
  known().change(change, file.c_str());
  if (Everywhere* const others = everywhere_now()) others->make(Everywhere::Kind::semaphore, change, {file});
}

bool is_on_one_node(SharedProgram& program) {
  const fabric::Fabric& fabric = program.fabric();
  for (fabric::Rank rank = 1; rank < fabric.size(); ++rank)
    if (fabric.node_of(rank) != fabric.node_of(0)) return false;
  return true;
}

void say_that_it_is_ours(SharedProgram& program, const char* name, const char* why) {
  static_cast<void>(
      write_fully(STDERR_FILENO,
                  fmt::format("craton: only rank {} has the semaphore \"{}\" that it got by sem_open(): {}; "
                              "use sem_init for what threads share\n",
                              program.rank(), name, why)));
}

/// What sem_open() is called with.
struct Opening {
  const char* name;
  int flags;
  mode_t mode;
  unsigned value;

  sem_t* here() const noexcept { return CRATON_REAL(sem_open)(name, flags, mode, value); }
  bool must_make_it() const noexcept { return (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0; }
};

sem_t* open_on_node(SharedProgram& program, const Opening& opening) {
  const std::string file = file_of(opening.name);
  sem_t* const here = opening.here();
  if (here == SEM_FAILED) return here;
  const KeptErrno kept;
  const std::uint64_t inode = inode_of(file);
  sem_t* result = known().find(file, inode);
  if (result != nullptr) {
    change_everywhere({.what = What::opened, .semaphore = result});
  } else {
    const UniqueFd mapped(CRATON_REAL(open)(file.c_str(), O_RDWR | O_CLOEXEC));
    result = mapped ? static_cast<sem_t*>(map_everywhere(program, page_bytes, PROT_READ | PROT_WRITE,
                                                         MAP_SHARED, mapped.get(), 0))
                    : nullptr;
    if (result == nullptr) {
      say_that_it_is_ours(program, opening.name, "the others cannot map it");
      return here;
    }
    change_everywhere({.what = What::made, .semaphore = result, .inode = inode}, file);
  }
  CRATON_REAL(sem_close)(here);
  return result;
}

sem_t* open_over_nodes(SharedProgram& program, const Opening& opening) {
  const std::string file = file_of(opening.name);
  if (sem_t* const there = known().find(file, 0)) {
    if (opening.must_make_it()) {
      errno = EEXIST;
      return SEM_FAILED;
    }
    change_everywhere({.what = What::opened, .semaphore = there});
    return there;
  }
  const bool was_there = inode_of(file) != 0;
  sem_t* const here = opening.here();
  if (here == SEM_FAILED) return here;
  const KeptErrno kept;
  auto* const shared = was_there ? nullptr : static_cast<sem_t*>(craton_program_malloc(sizeof(sem_t)));
  if (shared == nullptr) {
    say_that_it_is_ours(program, opening.name,
                        was_there ? "it was there before, on one of the nodes" : "there is no memory");
    return here;
  }
  ::sem_init(shared, 0, opening.value);
  // From here on the name is the program's alone.
  CRATON_REAL(sem_close)(here);
  CRATON_REAL(sem_unlink)(opening.name);
  change_everywhere({.what = What::made, .semaphore = shared}, file);
  return shared;
}

sem_t* open_semaphore(const Opening& opening) {
  SharedProgram* const program = shared_program();
  if (program == nullptr || everywhere_now() == nullptr || opening.name == nullptr) return opening.here();
  const NoCancellation uncancelled;
  return guarded(*program, [&] {
    sem_t* result = SEM_FAILED;
    in_one_order([&] {
      result =
          is_on_one_node(*program) ? open_on_node(*program, opening) : open_over_nodes(*program, opening);
    });
    return result;
  });
}

int close_semaphore(sem_t* semaphore) {
  if (shared_program() == nullptr || !known().find(semaphore).has_value())
    return CRATON_REAL(sem_close)(semaphore);
  const KeptErrno kept;
  in_one_order([&] {
    const std::optional<NamedSemaphore> open = known().find(semaphore);
    if (!open.has_value()) return;
    change_everywhere({.what = What::closed, .semaphore = semaphore});
    if (known().find(semaphore).has_value()) return;
    if (open->inode != 0) {
      ::munmap(semaphore, page_bytes);
    } else {
      craton_program_free(semaphore);
    }
  });
  return 0;
}

int unlink_semaphore(const char* name) {
  SharedProgram* const program = shared_program();
  if (program == nullptr) return CRATON_REAL(sem_unlink)(name);
  const NoCancellation uncancelled;
  int result = 0;
  in_one_order([&] {
    const std::string file = file_of(name);
    const std::uint64_t inode = is_on_one_node(*program) ? inode_of(file) : 0;
    sem_t* const semaphore = known().find(file, inode);
    // Over nodes there is no file of it.
    if (semaphore == nullptr || inode != 0) result = CRATON_REAL(sem_unlink)(name);
    if (semaphore == nullptr || result != 0) return;
    const KeptErrno kept;
    const bool is_open = known().find(semaphore)->opens != 0;
    change_everywhere({.what = What::unlinked, .semaphore = semaphore});
    if (!is_open) craton_program_free(semaphore);
  });
  return result;
}

}  // namespace

void set_semaphore_as_told(const std::byte* change) {
  SemaphoreChange head{};
  std::memcpy(&head, change, sizeof head);
  known().change(head, reinterpret_cast<const char*>(change + sizeof head));
}

}  // namespace craton::posix

extern "C" {

[[gnu::visibility("default")]] sem_t* sem_open(const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const bool creates = (flags & O_CREAT) != 0;
  const mode_t mode = creates ? va_arg(more, mode_t) : 0;
  const unsigned value = creates ? va_arg(more, unsigned) : 0;
  va_end(more);
  return craton::posix::open_semaphore({.name = name, .flags = flags, .mode = mode, .value = value});
}

[[gnu::visibility("default")]] int sem_close(sem_t* semaphore) {
  return craton::posix::close_semaphore(semaphore);
}

[[gnu::visibility("default")]] int sem_unlink(const char* name) {
  return craton::posix::unlink_semaphore(name);
}

}  // extern "C"
