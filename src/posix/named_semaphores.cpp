// Semaphores that have names. What the C library maps of one belongs to one process, so:
//
//     all ranks on one node   ──▶ the same file mapped on all of them, at one address: it is still the
//                                 semaphore that other processes open by the name
//     several nodes           ──▶ of one that the program makes, a semaphore in the shared heap, which
//                                 other processes do not see. One that was there before is the rank's
#include <fcntl.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

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

/// As the C library names its file.
std::string file_of(const char* name) {
  return "/dev/shm/sem." + std::string(name + std::strspn(name, "/"));
}

/// Those in the shared heap, by their files; on all ranks the same, but for the moment of a change.
class SharedSemaphores {
 public:
  sem_t* find(const std::string& file) {
    const std::lock_guard lock(lock_);
    const auto at = by_file_.find(file);
    return at == by_file_.end() ? nullptr : at->second;
  }
  /// \param semaphore null: there is none any more
  void set(const std::string& file, sem_t* semaphore) {
    const std::lock_guard lock(lock_);
    if (semaphore == nullptr) {
      by_file_.erase(file);
    } else {
      by_file_[file] = semaphore;
    }
  }

 private:
  std::mutex lock_;
  std::map<std::string, sem_t*> by_file_;
};

SharedSemaphores& shared_semaphores() {
  static auto* const semaphores = new SharedSemaphores;  // to the end of the process
  return *semaphores;
}

void set_everywhere(const std::string& file, sem_t* semaphore) {
  shared_semaphores().set(file, semaphore);
  std::array<std::byte, change_bytes_most> message;
  const SemaphoreChange change{.semaphore = semaphore};
  const std::size_t bytes = sizeof change + file.size() + 1;
  if (bytes > message.size()) return;  // the C library takes no such name
  std::memcpy(message.data(), &change, sizeof change);
  std::memcpy(message.data() + sizeof change, file.c_str(), file.size() + 1);
  if (Everywhere* const others = everywhere_now())
    others->make(Everywhere::Kind::semaphore, message.data(), bytes);
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
};

sem_t* open_on_node(SharedProgram& program, const Opening& opening) {
  sem_t* const here = opening.here();
  if (here == SEM_FAILED) return here;
  const KeptErrno kept;
  const UniqueFd file(CRATON_REAL(open)(file_of(opening.name).c_str(), O_RDWR | O_CLOEXEC));
  void* const shared =
      file ? map_everywhere(program, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : nullptr;
  if (shared == nullptr) {
    say_that_it_is_ours(program, opening.name, "the others cannot map it");
    return here;
  }
  CRATON_REAL(sem_close)(here);
  return static_cast<sem_t*>(shared);
}

sem_t* open_over_nodes(SharedProgram& program, const Opening& opening) {
  const std::string file = file_of(opening.name);
  sem_t* result = SEM_FAILED;
  in_one_order([&] {
    if (sem_t* const known = shared_semaphores().find(file)) {
      const bool must_be_new = (opening.flags & O_CREAT) != 0 && (opening.flags & O_EXCL) != 0;
      if (must_be_new) errno = EEXIST;
      result = must_be_new ? SEM_FAILED : known;
      return;
    }
    const bool is_there = ::access(file.c_str(), F_OK) == 0;
    result = opening.here();
    if (result == SEM_FAILED) return;
    if (is_there)
      return say_that_it_is_ours(program, opening.name, "it was there before, on one of the nodes");
    auto* const shared = static_cast<sem_t*>(craton_program_malloc(sizeof(sem_t)));
    if (shared == nullptr) return say_that_it_is_ours(program, opening.name, "there is no memory");
    ::sem_init(shared, 0, opening.value);
    // From here on the name is the program's alone.
    CRATON_REAL(sem_close)(result);
    CRATON_REAL(sem_unlink)(opening.name);
    set_everywhere(file, shared);
    result = shared;
  });
  return result;
}

/// \returns whether it was one in the shared heap
bool unlink_over_nodes(const std::string& file) {
  bool was_there = false;
  in_one_order([&] {
    was_there = shared_semaphores().find(file) != nullptr;
    if (was_there) set_everywhere(file, nullptr);
  });
  return was_there;
}

sem_t* open_semaphore(const Opening& opening) {
  SharedProgram* const program = shared_program();
  if (program == nullptr || everywhere_now() == nullptr || opening.name == nullptr) return opening.here();
  return guarded(*program, [&] {
    return is_on_one_node(*program) ? open_on_node(*program, opening) : open_over_nodes(*program, opening);
  });
}

}  // namespace

void set_semaphore_as_told(const std::byte* change) {
  SemaphoreChange head{};
  std::memcpy(&head, change, sizeof head);
  shared_semaphores().set(reinterpret_cast<const char*>(change + sizeof head), head.semaphore);
}

}  // namespace craton::posix

using craton::posix::shared_program;

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
  if (craton::posix::is_of_all(semaphore)) return ::munmap(semaphore, craton::posix::page_bytes);
  // Of the shared heap: others may have it by the same name.
  if (shared_program() != nullptr && shared_program()->is_shared(semaphore)) return 0;
  return CRATON_REAL(sem_close)(semaphore);
}

[[gnu::visibility("default")]] int sem_unlink(const char* name) {
  if (shared_program() != nullptr && craton::posix::unlink_over_nodes(craton::posix::file_of(name))) return 0;
  return CRATON_REAL(sem_unlink)(name);
}

}  // extern "C"
