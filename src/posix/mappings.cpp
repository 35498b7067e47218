// Memory that the program maps itself. What the kernel gives belongs to one process, so:
//
//     no file, or a private copy of one   ──▶ of the shared heap, zero or with what the file has
//     a file, shared or only to be read, and segments of System V
//                                         ──▶ mapped on all ranks of a node, at the same address
//     code, MAP_FIXED, devices, addresses that are only reserved (PROT_NONE), and what system libraries map:
//     as it is, for the rank that maps it
//
// A file on ranks of several nodes has no one memory. It stays with the rank that maps it, as does one that
// another rank has no room for; who touches it elsewhere ends the job with a line that says so
// (foreign_memory.cpp).
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/kept_errno.hpp"
#include "base/line_writer.hpp"
#include "base/unique_fd.hpp"
#include "posix/descriptors.hpp"
#include "posix/everywhere.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/mappings.hpp"
#include "posix/monitor.hpp"
#include "posix/pages.hpp"
#include "posix/remote_files.hpp"

namespace craton::posix {

namespace {

void* failed_with(int error) noexcept {
  errno = error;
  return MAP_FAILED;
}

// ---- What the program may have (setrlimit)

/// Of this rank, of what the kernel has mapped for the program.
std::atomic<std::uint64_t> kernel_bytes{0};

/// For the program's own code.
void* map_by_kernel(const SharedProgram& program, void* wished, std::size_t bytes, int protection, int flags,
                    int fd, off64_t offset) noexcept {
  // What takes the place of something else adds nothing.
  const bool counts = (flags & MAP_FIXED) == 0;
  const std::uint64_t whole = page_up(bytes);
  if (counts && kernel_bytes.load() + whole > program.address_limit()) return failed_with(ENOMEM);
  void* const got = CRATON_REAL(mmap64)(wished, bytes, protection, flags, fd, offset);
  if (counts && got != MAP_FAILED) kernel_bytes.fetch_add(whole);
  return got;
}

int unmap_by_kernel(const void* caller, void* begin, std::size_t bytes) noexcept {
  const int result = CRATON_REAL(munmap)(begin, bytes);
  const SharedProgram* const program = shared_program();
  if (result != 0 || program == nullptr || !program->is_own_code(caller)) return result;
  std::uint64_t before = kernel_bytes.load();
  while (
      !kernel_bytes.compare_exchange_weak(before, before - std::min<std::uint64_t>(before, page_up(bytes)))) {
  }
  return 0;
}

// ---- From the shared heap

/// Of a mapping, in the heap before its first page.
struct Mapping {
  std::uint64_t is_one;  ///< mapping_mark, mixed with its own address
  std::uint64_t bytes;   ///< whole pages
  std::uint64_t left;    ///< of them, not unmapped yet
};
constexpr std::uint64_t mapping_mark = 0x70616d206e757263;

struct FoundMapping {
  Mapping* mapping;
  std::byte* first;       ///< page
  std::byte* allocation;  ///< what the heap knows it by
};

std::uint64_t mark_of(const Mapping* mapping) noexcept {
  return mapping_mark ^ reinterpret_cast<std::uintptr_t>(mapping);
}

Mapping* mapping_before(std::byte* first) noexcept {
  return reinterpret_cast<Mapping*>(first) - 1;
}

std::byte* first_page(std::byte* allocation) noexcept {
  return reinterpret_cast<std::byte*>(
      page_up(reinterpret_cast<std::uintptr_t>(allocation) + sizeof(Mapping)));
}

/// The mapping that an address lies in; none where it is no heap's, or only allocated.
std::optional<FoundMapping> find_mapping(SharedProgram& program, const void* address) {
  space::Heap* const heap = program.heap_of(address);
  if (heap == nullptr) return std::nullopt;
  const auto found = heap->find(address);
  if (!found.has_value() || found->bytes < page_bytes + sizeof(Mapping)) return std::nullopt;
  std::byte* const first = first_page(found->begin);
  Mapping* const mapping = mapping_before(first);
  if (address < first || mapping->is_one != mark_of(mapping)) return std::nullopt;
  return FoundMapping{.mapping = mapping, .first = first, .allocation = found->begin};
}

/// \returns MAP_FAILED, with errno, where the heap has no room
void* map_from_heap(SharedProgram& program, std::size_t bytes) {
  const std::size_t whole = page_up(bytes);
  if (bytes == 0) return failed_with(EINVAL);
  if (whole < bytes || whole > SIZE_MAX / 2) return failed_with(ENOMEM);
  space::Heap::Fresh fresh{};
  try {
    fresh = program.allocate(whole + page_bytes + sizeof(Mapping));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_resources) throw;
    return failed_with(ENOMEM);
  }
  std::byte* const first = first_page(static_cast<std::byte*>(fresh.begin));
  if (!fresh.is_zero) std::memset(first, 0, whole);
  Mapping* const mapping = mapping_before(first);
  *mapping = {.is_one = mark_of(mapping), .bytes = whole, .left = whole};
  return first;
}

void unmap_from_heap(SharedProgram& program, const FoundMapping& found, std::byte* begin, std::size_t bytes) {
  const std::uint64_t room = static_cast<std::uint64_t>(found.first + found.mapping->bytes - begin);
  const std::uint64_t gone = std::min<std::uint64_t>(page_up(bytes), room);
  bool is_last = false;
  const auto count = [&] {
    found.mapping->left -= std::min(gone, found.mapping->left);
    is_last = found.mapping->left == 0;
    if (is_last) found.mapping->is_one = 0;
  };
  Monitor* const others = monitor();
  others == nullptr ? count() : others->inside(found.mapping, count);
  if (is_last) program.heap_of(found.allocation)->free(found.allocation);
}

/// What a file has, as far as it goes: the rest of its last page is zero. \returns false, with errno
bool fill_from_file(std::byte* to, std::size_t bytes, int fd, off64_t offset) {
  PrivateBuffer piece(piece_bytes);
  if (piece.data() == nullptr) return false;
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = CRATON_REAL(pread64)(fd, piece.data(), std::min(piece_bytes, bytes - done),
                                             offset + static_cast<off64_t>(done));
    if (got == 0) return true;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    std::memcpy(to + done, piece.data(), static_cast<std::size_t>(got));
    done += static_cast<std::size_t>(got);
  }
  return true;
}

// ---- Files, on all ranks of a node

/// Free in usual processes: above the space and the streams, below what the kernel places on any rank (see
/// vm/skipped_addresses.hpp). Each rank has a part to choose addresses from, which are never used again.
constexpr std::uintptr_t files_begin = 0x6a0000000000;
constexpr std::uintptr_t files_end = 0x6f0000000000;
std::atomic<std::uintptr_t> files_used{0};

}  // namespace

bool is_of_all(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= files_begin && at < files_end;
}

namespace {

/// \returns 0 where this rank has no addresses left
std::uintptr_t choose_address(SharedProgram& program, std::size_t bytes) noexcept {
  const std::uintptr_t part = page_down((files_end - files_begin) / program.fabric().size());
  // A page between two, so that who runs over the end of one does not get into the next.
  const std::uintptr_t taken = page_up(bytes) + page_bytes;
  const std::uintptr_t at = files_used.fetch_add(taken);
  if (taken > part || at > part - taken) return 0;
  return files_begin + program.rank() * part + at;
}

bool map_file(const MapChange& change, int fd) noexcept {
  void* const wished = reinterpret_cast<void*>(change.begin);
  void* const got = CRATON_REAL(mmap64)(wished, change.bytes, change.protection,
                                        change.flags | MAP_FIXED_NOREPLACE, fd, change.offset);
  if (got == wished) return true;
  if (got != MAP_FAILED) CRATON_REAL(munmap)(got, change.bytes);
  return false;
}

}  // namespace

void* map_everywhere(SharedProgram& program, std::size_t bytes, int protection, int flags, int descriptor,
                     off64_t offset) {
  Everywhere* const others = everywhere_now();
  const std::uintptr_t begin = choose_address(program, bytes);
  if (others == nullptr || begin == 0) return nullptr;
  const MapChange change{.begin = begin,
                         .bytes = page_up(bytes),
                         .offset = offset,
                         .node = program.fabric().node_of(program.rank()),
                         .process = ::getpid(),
                         .descriptor = descriptor,
                         .protection = protection,
                         .flags = flags};
  if (!map_file(change, descriptor)) return nullptr;
  if (others->make(Everywhere::Kind::map, &change, sizeof change)) return reinterpret_cast<void*>(begin);
  others->make(Everywhere::Kind::unmap, &change, sizeof change);
  unmap_as_told(change);
  return nullptr;
}

namespace {

/// On all ranks, where all have it.
int unmap_file(const void* caller, void* begin, std::size_t bytes) noexcept {
  if (!is_of_all(begin)) return unmap_by_kernel(caller, begin, bytes);
  const int result = CRATON_REAL(munmap)(begin, bytes);
  Everywhere* const others = everywhere_now();
  if (result != 0 || others == nullptr) return result;
  MapChange change{};
  change.begin = reinterpret_cast<std::uintptr_t>(begin);
  change.bytes = page_up(bytes);
  others->make(Everywhere::Kind::unmap, &change, sizeof change);
  return 0;
}

// ---- Whose

/// What the program maps, not libraries of the system for themselves.
SharedProgram* mapping_program(const void* caller) noexcept {
  SharedProgram* const program = shared_program();
  if (program == nullptr || program->fabric().size() == 1) return nullptr;
  return program->is_own_code(caller) ? program : nullptr;
}

/// Nobody can change the file, nor what is mapped of it, by these: then a copy is as good.
/// \param status of the descriptor, as F_GETFL has it
bool is_only_read(std::int64_t status, int protection) noexcept {
  return (protection & PROT_WRITE) == 0 && (status & O_ACCMODE) == O_RDONLY;
}

/// Memory of the heap, and what is to be there. \param fill (to) \returns false, with errno
template <typename Fill>
void* map_copy(SharedProgram& program, std::size_t bytes, Fill fill) {
  void* const memory = map_from_heap(program, bytes);
  if (memory == MAP_FAILED || fill(static_cast<std::byte*>(memory))) return memory;
  const int error = errno;
  unmap_from_heap(program, *find_mapping(program, memory), static_cast<std::byte*>(memory), bytes);
  return failed_with(error);
}

/// A file of rank 0's, on another node. \returns null where a copy would not be as good
void* map_far(SharedProgram& program, std::size_t bytes, int protection, int flags, int fd, off64_t offset) {
  RemoteFile file(fd);
  struct stat status {};
  if (file.status(&status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const bool is_shared = (flags & MAP_TYPE) != MAP_PRIVATE;
  if (is_shared && !is_only_read(file.call(ForwardedCall::control_file, F_GETFL), protection)) return nullptr;
  return map_copy(program, bytes, [&](std::byte* to) {
    const auto put = [to](const std::byte* from, std::size_t count, std::size_t done) {
      std::memcpy(to + done, from, count);
    };
    return file.read(bytes, offset, put) >= 0;
  });
}

void* map(SharedProgram& program, std::size_t bytes, int protection, int flags, int fd, off64_t offset) {
  const bool is_file = (flags & MAP_ANONYMOUS) == 0;
  const bool is_shared = (flags & MAP_TYPE) != MAP_PRIVATE;
  if (is_file && RemoteFile::is_one(fd)) {
    void* const copy = map_far(program, bytes, protection, flags, fd, offset);
    if (copy != nullptr) return copy;
  }
  const int here = is_file ? descriptor_here(fd, "mmap") : -1;
  const auto as_it_is = [&] {
    return map_by_kernel(program, nullptr, bytes, protection, flags, here, offset);
  };
  struct stat status {};
  // Devices are memory of their own kind; the kernel names the error of what is no file at all.
  if (is_file && (::fstat(here, &status) != 0 || !S_ISREG(status.st_mode))) return as_it_is();
  if (is_file && (is_shared || (protection & PROT_WRITE) == 0)) {
    void* const everywhere = map_everywhere(program, bytes, protection, flags, here, offset);
    if (everywhere != nullptr) return everywhere;
    if (is_shared && !is_only_read(CRATON_REAL(fcntl64)(here, F_GETFL), protection)) return as_it_is();
  }
  const auto fill = [&](std::byte* to) { return !is_file || fill_from_file(to, bytes, here, offset); };
  void* const memory = map_copy(program, bytes, fill);
  return memory == MAP_FAILED && !program.is_memory_limited() ? as_it_is() : memory;
}

/// Instead of shared memory. That must stay what it is, and can be made new where it is to be zero.
void* map_over(void* wished, std::size_t bytes, int protection, int flags) noexcept {
  if ((flags & MAP_ANONYMOUS) != 0 && (protection & PROT_EXEC) == 0) {
    std::memset(wished, 0, page_up(bytes));
    return wished;
  }
  static_cast<void>(write_fully(
      STDERR_FILENO,
      "craton: mmap(MAP_FIXED) of a file or of code is refused: memory that ranks share is there; "
      "let mmap choose the address\n"));
  return failed_with(EINVAL);
}

/// Whether the kernel would take them, whatever is mapped.
bool are_valid(int flags, off64_t offset) noexcept {
  const int type = flags & MAP_TYPE;
  const bool is_file = (flags & MAP_ANONYMOUS) == 0;
  const bool is_type = type == MAP_PRIVATE || type == MAP_SHARED || (is_file && type == MAP_SHARED_VALIDATE);
  return is_type && static_cast<std::uintptr_t>(offset) % page_bytes == 0;
}

void* map_for(const void* caller, void* wished, std::size_t bytes, int protection, int flags, int fd,
              off64_t offset) noexcept {
  SharedProgram* const program = mapping_program(caller);
  if (program != nullptr && !are_valid(flags, offset)) return failed_with(EINVAL);
  constexpr int kernels = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_STACK | MAP_32BIT;
  if (program != nullptr && (flags & MAP_FIXED) != 0 && program->space().find(wished) != nullptr)
    return map_over(wished, bytes, protection, flags);
  const bool is_data = (protection & PROT_EXEC) == 0 && protection != PROT_NONE;
  if (program == nullptr || (flags & kernels) != 0 || !is_data) {
    const SharedProgram* const own = shared_program();
    return own != nullptr && own->is_own_code(caller)
               ? map_by_kernel(*own, wished, bytes, protection, flags, fd, offset)
               : CRATON_REAL(mmap64)(wished, bytes, protection, flags, fd, offset);
  }
  return guarded(*program, [&] { return map(*program, bytes, protection, flags, fd, offset); });
}

}  // namespace

bool map_as_told(const MapChange& change, std::uint64_t own_node) noexcept {
  if (change.node != own_node) return false;
  // A descriptor of its own for the same file, also where that has no name any more.
  const std::string name = fmt::format("/proc/{}/fd/{}", change.process, change.descriptor);
  const bool writes = (change.protection & PROT_WRITE) != 0;
  const UniqueFd file(CRATON_REAL(open)(name.c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC));
  return file && map_file(change, file.get());
}

namespace {

bool attach_here(const MapChange& change) noexcept {
  void* const wished = reinterpret_cast<void*>(change.begin);
  // The kernel refuses addresses that are in use.
  return CRATON_REAL(shmat)(change.descriptor, wished, change.flags) == wished;
}

/// \returns null where that goes to the kernel as it is
void* attach(const void* caller, int segment, int flags) noexcept {
  const KeptErrno kept;
  SharedProgram* const program = mapping_program(caller);
  Everywhere* const others = everywhere_now();
  shmid_ds status{};
  if (program == nullptr || others == nullptr || ::shmctl(segment, IPC_STAT, &status) != 0) return nullptr;
  MapChange change{};
  change.begin = choose_address(*program, status.shm_segsz);
  change.node = program->fabric().node_of(program->rank());
  change.descriptor = segment;
  change.flags = flags;
  if (change.begin == 0 || !attach_here(change)) return nullptr;
  if (!others->make(Everywhere::Kind::attach, &change, sizeof change)) {
    others->make(Everywhere::Kind::detach, &change, sizeof change);
    static_cast<void>(write_fully(
        STDERR_FILENO, fmt::format("craton: only rank {} has the memory that it got by shmat(): not "
                                   "all ranks can attach it, as those of one node do; use malloc "
                                   "or mmap for what threads share\n",
                                   program->rank())));
  }
  return reinterpret_cast<void*>(change.begin);
}

int detach(const void* begin) noexcept {
  const int result = CRATON_REAL(shmdt)(begin);
  Everywhere* const others = everywhere_now();
  MapChange change{};
  change.begin = reinterpret_cast<std::uintptr_t>(begin);
  if (result != 0 || others == nullptr || !is_of_all(begin)) return result;
  others->make(Everywhere::Kind::detach, &change, sizeof change);
  return 0;
}

}  // namespace

bool attach_as_told(const MapChange& change, std::uint64_t own_node) noexcept {
  return change.node == own_node && attach_here(change);
}

bool detach_as_told(const MapChange& change) noexcept {
  return CRATON_REAL(shmdt)(reinterpret_cast<const void*>(change.begin)) == 0;
}

bool unmap_as_told(const MapChange& change) noexcept {
  return CRATON_REAL(munmap)(reinterpret_cast<void*>(change.begin), change.bytes) == 0;
}

}  // namespace craton::posix

using craton::posix::FoundMapping;
using craton::posix::shared_program;
using craton::posix::SharedProgram;

extern "C" {

[[gnu::visibility("default")]] void* mmap(void* wished, std::size_t bytes, int protection, int flags, int fd,
                                          off_t offset) {
  return craton::posix::map_for(__builtin_return_address(0), wished, bytes, protection, flags, fd, offset);
}
[[gnu::visibility("default")]] void* mmap64(void* wished, std::size_t bytes, int protection, int flags,
                                            int fd, off64_t offset) {
  return craton::posix::map_for(__builtin_return_address(0), wished, bytes, protection, flags, fd, offset);
}

[[gnu::visibility("default")]] void* shmat(int segment, const void* wished, int flags) {
  void* const attached =
      wished == nullptr ? craton::posix::attach(__builtin_return_address(0), segment, flags) : nullptr;
  return attached != nullptr ? attached : CRATON_REAL(shmat)(segment, wished, flags);
}

[[gnu::visibility("default")]] int shmdt(const void* begin) {
  return craton::posix::detach(begin);
}

[[gnu::visibility("default")]] int munmap(void* begin, std::size_t bytes) {
  SharedProgram* const program = shared_program();
  if (program == nullptr) return CRATON_REAL(munmap)(begin, bytes);
  if (program->heap_of(begin) == nullptr)
    return craton::posix::unmap_file(__builtin_return_address(0), begin, bytes);
  return craton::posix::guarded(*program, [&] {
    const std::optional<FoundMapping> found = craton::posix::find_mapping(*program, begin);
    if (!found.has_value() || bytes == 0 ||
        reinterpret_cast<std::uintptr_t>(begin) % craton::posix::page_bytes != 0) {
      errno = EINVAL;
      return -1;
    }
    craton::posix::unmap_from_heap(*program, *found, static_cast<std::byte*>(begin), bytes);
    return 0;
  });
}

[[gnu::visibility("default")]] void* mremap(void* begin, std::size_t before, std::size_t after, int flags,
                                            ...) {
  va_list more;
  va_start(more, flags);
  void* const wished = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  SharedProgram* const program = shared_program();
  if (program == nullptr || program->heap_of(begin) == nullptr)
    return CRATON_REAL(mremap)(begin, before, after, flags, wished);
  return craton::posix::guarded(*program, [&]() -> void* {
    const std::optional<FoundMapping> found = craton::posix::find_mapping(*program, begin);
    if (!found.has_value() || (flags & ~MREMAP_MAYMOVE) != 0 || after == 0)
      return craton::posix::failed_with(EINVAL);
    auto* const old = static_cast<std::byte*>(begin);
    const std::size_t had = craton::posix::page_up(before);
    const std::size_t wanted = craton::posix::page_up(after);
    if (wanted <= had) {
      if (wanted < had) craton::posix::unmap_from_heap(*program, *found, old + wanted, had - wanted);
      return begin;
    }
    if ((flags & MREMAP_MAYMOVE) == 0) return craton::posix::failed_with(ENOMEM);
    void* const moved = craton::posix::map_from_heap(*program, after);
    if (moved == MAP_FAILED) return moved;
    std::memcpy(moved, begin, before);
    craton::posix::unmap_from_heap(*program, *found, old, before);
    return moved;
  });
}

/// Shared memory has files behind it, so what the kernel would make zero is made zero here.
[[gnu::visibility("default")]] int madvise(void* begin, std::size_t bytes, int advice) {
  SharedProgram* const program = shared_program();
  if (program == nullptr || program->space().find(begin) == nullptr)
    return CRATON_REAL(madvise)(begin, bytes, advice);
  // Of no bytes at all the kernel says what is wrong with the rest.
  if (CRATON_REAL(madvise)(begin, 0, advice) != 0) return -1;
  if (advice == MADV_DONTNEED) std::memset(begin, 0, craton::posix::page_up(bytes));
  if (advice == MADV_REMOVE) {
    errno = EINVAL;  // as of all memory without a file
    return -1;
  }
  return 0;
}

/// The protection of shared memory is the protocol's. What the program forbids itself there stays allowed.
[[gnu::visibility("default")]] int mprotect(void* begin, std::size_t bytes, int protection) {
  SharedProgram* const program = shared_program();
  if (program == nullptr || program->space().find(begin) == nullptr)
    return CRATON_REAL(mprotect)(begin, bytes, protection);
  if ((protection & PROT_EXEC) == 0) return 0;
  static_cast<void>(craton::write_fully(STDERR_FILENO,
                                        "craton: mprotect() is refused: memory that ranks share holds no "
                                        "code; what is mapped with PROT_EXEC at once does, for the rank that "
                                        "maps it\n"));
  errno = EACCES;
  return -1;
}

}  // extern "C"
