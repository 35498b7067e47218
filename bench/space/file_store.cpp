#include "space/file_store.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"

namespace craton::bench {
namespace {

constexpr mode_t only_ours = 0600;

std::string folder() {
  const char* const wanted = std::getenv("TMPDIR");
  // Not /tmp, which is memory on many machines.
  return wanted != nullptr && *wanted != '\0' ? wanted : "/var/tmp";
}

}  // namespace

FileStore::FileStore(std::uint64_t blocks, std::size_t block_bytes) : block_bytes_(block_bytes) {
  const std::string where = folder();
  constexpr int flags = O_TMPFILE | O_RDWR | O_CLOEXEC;
  file_.reset(::open(where.c_str(), flags | O_DIRECT, only_ours));
  is_direct_ = static_cast<bool>(file_);
  if (!file_) file_.reset(::open(where.c_str(), flags, only_ours));
  if (!file_) throw Error::from_errno("cannot make a file in " + where, errno, {}, "set TMPDIR");
  // Zero bytes that are really there: blocks that the file system still has to find room for cost more.
  const fabric::RegionMemory zeroes("craton bench store", block_bytes);
  for (std::uint64_t block = 0; block < blocks; ++block) write(block, zeroes.data());
}

void FileStore::read(std::uint64_t block, std::byte* to) {
  if (::pread(file_.get(), to, block_bytes_, static_cast<off_t>(block * block_bytes_)) !=
      static_cast<ssize_t>(block_bytes_)) {
    throw Error::from_errno("cannot read a block of the store", errno);
  }
}

void FileStore::write(std::uint64_t block, const std::byte* from) {
  if (::pwrite(file_.get(), from, block_bytes_, static_cast<off_t>(block * block_bytes_)) !=
          static_cast<ssize_t>(block_bytes_) ||
      ::fdatasync(file_.get()) != 0) {
    throw Error::from_errno("cannot write a block of the store", errno);
  }
  writes_.fetch_add(1);
}

}  // namespace craton::bench
