#include "fabric/region_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace craton::fabric {

namespace {

std::size_t whole_pages(std::size_t bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

std::byte* map_shared(int memfd, std::size_t bytes, const char* asked) {
  void* address =
      ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    throw Error::from_errno(
        fmt::format("{} of {} bytes", asked, bytes), error,
        "grep -i commit /proc/meminfo; sysctl vm.overcommit_memory vm.max_map_count; ulimit -v",
        "ask for less or raise the limit that is hit");
  }
  return static_cast<std::byte*>(address);
}

thread_local bool in_process_regions = false;

/// Zeros of which nobody else knows. Exactly so many bytes, so that the address sanitizer sees what is
/// beyond.
std::shared_ptr<std::byte> process_memory(std::size_t bytes) {
  constexpr std::size_t large_bytes = std::size_t{64} << 10U;  // rather zeroed page by page, when touched
  if (bytes >= large_bytes) {
    void* const address = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    return {static_cast<std::byte*>(address),
            [bytes](std::byte* data) { ::munmap(data, whole_pages(bytes)); }};
  }
  constexpr std::align_val_t line{64};
  auto* const address = static_cast<std::byte*>(::operator new(bytes, line));
  std::memset(address, 0, bytes);
  return {address, [](std::byte* data) { ::operator delete(data, line); }};
}

}  // namespace

ProcessRegions::ProcessRegions() noexcept : outer_(std::exchange(in_process_regions, true)) {}
ProcessRegions::~ProcessRegions() {
  in_process_regions = outer_;
}

RegionMemory::RegionMemory(const std::string& name, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) {
    throw Error(ErrorCode::invalid_argument, {.asked = "cannot make region memory \"" + name + "\"",
                                              .happened = "its size is 0 bytes",
                                              .limit = {},
                                              .remedy = "ask for at least 1 byte"});
  }
  if (in_process_regions) {
    data_ = process_memory(bytes);
    return;
  }
  // The kernel takes up to 249 bytes; a segment of a program's data has its library's name, of up to 255.
  constexpr std::size_t name_bytes_most = 240;
  fd_.reset(::memfd_create(name.substr(0, name_bytes_most).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd_)
    throw Error::from_errno("cannot create a memfd for region memory \"" + name + "\"", errno, "ulimit -n");
  // Beyond the limit ftruncate() sends a signal that ends the process.
  rlimit limit{};
  const bool is_allowed = ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || whole_pages(bytes) <= limit.rlim_cur;
  if (!is_allowed || ::ftruncate(fd_.get(), static_cast<off_t>(whole_pages(bytes))) != 0) {
    const int error = is_allowed ? errno : EFBIG;
    throw Error::from_errno(fmt::format("cannot size region memory \"{}\" to {} bytes", name, bytes), error,
                            "free -b; sysctl vm.overcommit_memory; ulimit -f", "ask for less");
  }
  // A neighbour that shrank the file would make our accesses fault; nobody can after this seal.
  ::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  data_ = {map_shared(fd_.get(), bytes, "cannot map region memory"),
           [bytes](std::byte* data) { ::munmap(data, whole_pages(bytes)); }};
}

RegionMemory::RegionMemory(RegionMemory&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::move(other.data_)), bytes_(std::exchange(other.bytes_, 0)) {}

PeerMapping::PeerMapping(UniqueFd memfd, std::size_t bytes) : bytes_(bytes) {
  struct stat status {};
  if (::fstat(memfd.get(), &status) != 0)
    throw Error::from_errno("cannot look at a neighbour's memory", errno);
  if (static_cast<std::uint64_t>(status.st_size) < bytes) {
    throw Error(ErrorCode::protocol, {.asked = "cannot map a neighbour's memory",
                                      .happened = fmt::format("it announced {} bytes and passed a file of {}",
                                                              bytes, status.st_size),
                                      .limit = {},
                                      .remedy = {}});
  }
  data_ = map_shared(memfd.get(), bytes, "cannot map a neighbour's memory");
}

PeerMapping::PeerMapping(PeerMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PeerMapping& PeerMapping::operator=(PeerMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PeerMapping::~PeerMapping() {
  if (data_ != nullptr) ::munmap(data_, whole_pages(bytes_));
}

}  // namespace craton::fabric
