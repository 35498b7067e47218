#include "vm/mprotect_page_table.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "base/assert.hpp"
#include "base/line_writer.hpp"
#include "vm/access_failure.hpp"

namespace craton::vm {
namespace {

int protection(Access access, bool holds_code) noexcept {
  const int executes = holds_code ? PROT_EXEC : 0;
  switch (access) {
    case Access::none:
      return PROT_NONE;
    case Access::read:
      return PROT_READ | executes;
    case Access::write:
      return PROT_READ | PROT_WRITE | executes;
  }
  return PROT_NONE;
}

constexpr std::string_view too_many_maps =
    "choose larger blocks, or the mechanism userfaultfd, which needs no mappings, or: sysctl -w "
    "vm.max_map_count=1048576";

[[noreturn]] void fail_at_limit(const MapBudget& budget, std::string_view happened) {
  char buffer[160];
  LineWriter limit(buffer, sizeof buffer);
  limit.append("vm.max_map_count is ");
  limit.append_signed(budget.kernel_limit());
  limit.append(", segments may use ");
  limit.append_signed(budget.limit());
  limit.append(" of them and use ");
  limit.append_signed(budget.used());
  fail_access(ErrorCode::out_of_resources, "cannot protect blocks one by one with mprotect", happened,
              limit.text(), too_many_maps);
}

}  // namespace

MprotectPageTable::MprotectPageTable(const SegmentMemory& memory, MapBudget& budget)
    : ViewPageTable(memory), budget_(budget), maps_(1) {
  if (!budget_.take(1))
    fail_at_limit(budget_, "the segments of this process have too many borders between states");
}

MprotectPageTable::~MprotectPageTable() {
  budget_.give_back(maps());
}

void MprotectPageTable::set_access(std::span<const Run> runs, Access access) {
  check_process();
  for (const Run& run : runs) {
    CRATON_ASSERT_SLOW(run.first + run.count <= blocks());
    const Run same = same_access(run.first, run.first + run.count);
    if (same.count != run.count || this->access(run.first) != access) change(run, access);
  }
}

void MprotectPageTable::change(const Run& run, Access access) {
  const std::int64_t added = added_maps(run, access);
  if (added > 0) take_maps(added);
  announce_change(run);
  if (::mprotect(application_view(run.first), bytes_of(run), protection(access, holds_code())) != 0) {
    const int error = errno;
    // Nothing was changed, or some of it: what allows less than the states say is put right by a later
    // set_access, and this one is on its way to the end of the program.
    for (BlockIndex block = run.first; block < run.first + run.count; ++block)
      settle({.first = block, .count = 1}, this->access(block));
    if (added > 0) budget_.give_back(added);
    fail_at_limit(budget_, error == ENOMEM ? "the kernel allows this process no more mappings"
                                           : "mprotect failed for a reason that is none of its limits");
  }
  settle(run, access);
  maps_.fetch_add(added, std::memory_order_relaxed);
  if (added < 0) budget_.give_back(-added);
}

std::int64_t MprotectPageTable::added_maps(const Run& run, Access access) const noexcept {
  const BlockIndex end = run.first + run.count;
  std::int64_t before = 0;
  std::int64_t after = 0;
  Access previous = this->access(run.first);
  if (run.first > 0) {
    const Access left = this->access(run.first - 1);
    before += left != previous ? 1 : 0;
    after += left != access ? 1 : 0;
  }
  for (BlockIndex block = run.first + 1; block < end; ++block) {
    const Access next = this->access(block);
    before += next != previous ? 1 : 0;
    previous = next;
  }
  if (end < blocks()) {
    const Access right = this->access(end);
    before += right != previous ? 1 : 0;
    after += right != access ? 1 : 0;
  }
  return after - before;
}

void MprotectPageTable::take_maps(std::int64_t added) {
  if (budget_.take(added)) return;
  count_anew();
  if (!budget_.take(added))
    fail_at_limit(budget_, "the segments of this process have too many borders between states");
}

void MprotectPageTable::count_anew() noexcept {
  std::int64_t counted = 0;
  for (BlockIndex block = 0; block < blocks(); ++counted) block += same_access(block, blocks()).count;
  budget_.give_back(maps_.exchange(counted, std::memory_order_relaxed) - counted);
}

}  // namespace craton::vm
