#include "space/owned_segment.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/events.hpp"
#include "base/scope_exit.hpp"
#include "base/signal_section.hpp"
#include "coherence/block_lock.hpp"
#include "fabric/batch.hpp"
#include "fabric/lost_peer.hpp"
#include "vm/fault_state.hpp"

namespace craton::space {

namespace {

constexpr std::uint32_t first_trust = 8;
constexpr std::uint32_t most_trust = 1024;

}  // namespace

OwnedSegment::OwnedSegment(fabric::Fabric& fabric, const std::string& name, vm::AddressRange range,
                           std::size_t part_bytes, fabric::RegionId region, vm::Mechanism mechanism,
                           const vm::Mechanisms& mechanisms, vm::MapBudget& budget, vm::Contents contents)
    : fabric_(fabric),
      part_bytes_(part_bytes),
      region_(region),
      processors_do_atomics_(fabric.capabilities(fabric.rank()).atomic_domain == fabric::AtomicDomain::cpu),
      memory_(name, std::move(range), block_bytes, contents),
      twins_("craton twins", memory_.bytes()),
      pages_(vm::make_page_table(mechanism, mechanisms, memory_, budget)),
      caught_(*pages_, faults_, static_cast<int>(fabric.rank())),
      copies_(memory_.blocks()) {
  CRATON_ASSERT(memory_.bytes() == part_bytes * fabric.size());
  fabric_.register_region(region_, memory_.region_memory());
  map_parts();
}

OwnedSegment::~OwnedSegment() = default;

void OwnedSegment::close() {
  fabric_.unregister_region(region_);
}

/// The own part, and those of neighbours, take the place of the guarded view.
void OwnedSegment::map_parts() {
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank) {
    const std::byte* const there = fabric_.direct(rank, region_);
    if (there == nullptr) continue;
    // An old size of 0 maps the same memory once more.
    void* const from = const_cast<std::byte*>(there) + rank * part_bytes_;
    void* const got = ::mremap(from, 0, part_bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, part(rank));
    const bool is_mapped = got != MAP_FAILED && ::madvise(got, part_bytes_, MADV_DONTFORK) == 0;
    constexpr int everything = PROT_READ | PROT_WRITE | PROT_EXEC;
    if (!is_mapped || (memory_.holds_code() && ::mprotect(got, part_bytes_, everything) != 0)) {
      throw Error::from_errno(fmt::format("cannot map {} bytes of the stacks of rank {}", part_bytes_, rank),
                              errno, "sysctl vm.max_map_count; ulimit -v", "raise the limit that is hit");
    }
  }
}

void OwnedSegment::wait(fabric::Completion& completion) {
  coherence::wait_for(fabric_, completion);
}

// ---- Copies

void OwnedSegment::Faults::fault(vm::BlockIndex block, bool write) {
  if (segment_.owner(block) == segment_.fabric_.rank()) {
    if (segment_.closed_page_handler_ != nullptr)
      segment_.closed_page_handler_(segment_.closed_page_context_, segment_.data() + block * block_bytes);
    vm::refuse_fault("its owner has closed this page");
  }
  const vm::FaultRecord* const record = vm::thread_faults().current;
  const events::Span span(write ? events::Kind::write_fault : events::Kind::read_fault,
                          record != nullptr ? record->address : nullptr,
                          record != nullptr ? record->instruction : nullptr);
  try {
    const std::lock_guard lock(segment_.lock_);
    segment_.open(block, write);
  } catch (const Error& error) {
    fabric::wait_for_the_end_if_lost(error);
    vm::refuse_fault(error.what());
  }
}

/// With the lock.
void OwnedSegment::open(std::uint64_t block, bool write) {
  Copy& copy = copies_[block];
  if (copy.access == vm::Access::none) {
    // Seen before the bytes are asked for: who acquires and sees none comes before them.
    cached_count_.store(cached_.size() + 1);
    fabric::Completion completion;
    fabric_.get(copy_of(block), {.rank = owner(block), .region = region_, .offset = block * block_bytes},
                block_bytes, completion);
    wait(completion);
    // Dropped to see whether it is used: it is.
    copy.trust = copy.trust == 0 ? first_trust : std::min(copy.trust * 2, most_trust);
    copy.refreshes = 0;
    cached_.push_back(block);
  }
  if (!write) {
    if (copy.access == vm::Access::none) {
      copy.access = vm::Access::read;
      pages_->set_access(block, vm::Access::read);
    }
    return;
  }
  if (copy.access == vm::Access::write) return;
  std::memcpy(twin_of(block), copy_of(block), block_bytes);
  copy.access = vm::Access::write;
  dirty_.fetch_add(1, std::memory_order_acq_rel);
  pages_->set_access(block, vm::Access::write);
}

/// With the lock; of a copy without writes.
void OwnedSegment::drop(std::uint64_t block) {
  copies_[block].access = vm::Access::none;
  pages_->set_access(block, vm::Access::none);
}

// ---- Fences

void OwnedSegment::before_release() {
  const SignalSection section;
  if (!has_writes()) return;
  const std::lock_guard lock(lock_);
  put_writes();
}

/// With the lock: what was written here goes to the owners, byte by byte, since they write other bytes at the
/// same time.
void OwnedSegment::put_writes() {
  if (!has_writes()) return;
  std::size_t closed = 0;
  fabric::Completion completion;
  for (const std::uint64_t block : cached_) {
    Copy& copy = copies_[block];
    if (copy.access != vm::Access::write) continue;
    pages_->set_access(block, vm::Access::read);
    copy.access = vm::Access::read;
    ++closed;
    const std::byte* const now = copy_of(block);
    const std::byte* const before = twin_of(block);
    for (std::size_t first = 0; first < block_bytes;) {
      if (now[first] == before[first]) {
        ++first;
        continue;
      }
      std::size_t end = first + 1;
      while (end < block_bytes && now[end] != before[end]) ++end;
      fabric_.put({.rank = owner(block), .region = region_, .offset = block * block_bytes + first},
                  now + first, end - first, completion);
      first = end;
    }
  }
  wait(completion);
  // Not before they are there: a thread that releases meanwhile waits for the lock.
  dirty_.fetch_sub(closed, std::memory_order_acq_rel);
}

void OwnedSegment::after_acquire(FunctionRef<void()> meanwhile) {
  const SignalSection section;
  if (cached_count_.load() == 0) return meanwhile();
  const std::lock_guard lock(lock_);
  put_writes();
  fabric::Completion completion;
  // What comes is written into the copies, also where `meanwhile` fails.
  const ScopeExit arrived([&]() noexcept { static_cast<void>(fabric_.wait(completion)); });
  const fabric::Batch together;  // with what `meanwhile` asks of the same ranks
  std::size_t kept = 0;
  for (const std::uint64_t block : cached_) {
    Copy& copy = copies_[block];
    if (copy.refreshes == copy.trust) {
      drop(block);
      continue;
    }
    ++copy.refreshes;
    cached_[kept++] = block;
    fabric_.get(copy_of(block), {.rank = owner(block), .region = region_, .offset = block * block_bytes},
                block_bytes, completion);
  }
  cached_.resize(kept);
  cached_count_.store(kept, std::memory_order_release);
  meanwhile();
  wait(completion);
}

// ---- Atomic instructions

bool OwnedSegment::is_mapped(const void* address) const noexcept {
  return processors_do_atomics_ && fabric_.direct(owner_of(address), region_) != nullptr;
}

void OwnedSegment::run_atomic(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction) {
  const SignalSection section;
  if (is_mapped(address)) return instruction(address);
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(address) - data());
  const std::uint64_t block = offset / block_bytes;
  const fabric::Rank rank = owner(block);
  const std::uint64_t word = offset / 8 * 8;
  if (offset + bytes > word + 8) {
    throw Error(ErrorCode::not_supported,
                {.asked = fmt::format("cannot use {} bytes at {} atomically", bytes, address),
                 .happened = processors_do_atomics_
                                 ? "they lie on a stack of another node, and not in one word of 8 bytes"
                                 : "they lie on a stack, and not in one word of 8 bytes, which is what this "
                                   "network can do",
                 .limit = {},
                 .remedy = "put the variable into global or allocated memory"});
  }
  const fabric::RemoteAddress there{.rank = rank, .region = region_, .offset = word};
  {
    const std::lock_guard lock(lock_);
    put_writes();
  }
  std::uint64_t expected = 0;
  fabric::Completion got;
  fabric_.get(&expected, there, sizeof expected, got);
  wait(got);
  for (;;) {
    alignas(8) std::uint64_t value = expected;
    instruction(reinterpret_cast<std::byte*>(&value) + (offset - word));
    std::uint64_t previous = 0;
    fabric::Completion exchanged;
    fabric_.compare_exchange(there, expected, value, &previous, exchanged);
    wait(exchanged);
    if (previous == expected) break;
    expected = previous;
  }
  // What this thread loads next must not be older.
  const std::lock_guard lock(lock_);
  put_writes();
  const auto at = std::find(cached_.begin(), cached_.end(), block);
  if (at == cached_.end()) return;
  drop(block);
  cached_.erase(at);
  cached_count_.store(cached_.size(), std::memory_order_release);
}

}  // namespace craton::space
