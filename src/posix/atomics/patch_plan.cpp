#include "posix/atomics/patch_plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "posix/atomics/readers.hpp"
#include "posix/atomics/reduction.hpp"
#include "posix/atomics/site_code.hpp"

namespace craton::posix {
namespace {

/// Instructions before a site that a run may begin with.
constexpr std::size_t before_most = 4;
/// Instructions before a compare-exchange among which its load is looked for.
constexpr std::size_t load_before_most = 12;
constexpr std::uintptr_t function_alignment = 16;
constexpr std::uintptr_t instruction_bytes_most = 15;

bool can_be_moved(const Site& site) noexcept {
  return site.problem == nullptr && SiteCode::can_jump(site);
}

}  // namespace

PatchPlan Planner::make() {
  for (const Found& found : find_functions()) plan_function(found);
  for (const CodeMap::Segment& segment : map_.code) look_between_functions(segment);
  return std::move(plan_);
}

/// Reads functions that may have sites for that and for branches at once: it takes most of a program's start.
std::vector<Planner::Found> Planner::find_functions() {
  struct Block {
    std::vector<Found> found;
    std::size_t other_bytes = 0;
  };
  const std::size_t count = map_.functions.size();
  std::vector<Block> blocks((count + functions_a_block - 1) / functions_a_block);
  read_in_blocks(count, functions_a_block, threads_, [&](std::size_t first, std::size_t last) {
    Block& block = blocks[first / functions_a_block];
    LookFinder look_finder(map_, shared_.pauses);
    for (std::size_t i = first; i < last; ++i) {
      const AddressRange& function = map_.functions[i];
      std::vector<SupposedLook> looks;
      if (shared_.hooks.look != nullptr) looks = look_finder.find(function);
      bool is_one = !looks.empty();
      if (is_one || may_hold_sites(function)) {
        const BranchTargets::Read read = targets_.read(i);
        is_one = is_one || read.has_sites || !read.is_whole;
      }
      if (is_one)
        block.found.push_back({i, std::move(looks)});
      else
        block.other_bytes += function.end - function.begin;
    }
  });
  std::vector<Found> all;
  for (Block& block : blocks) {
    plan_.read_bytes += block.other_bytes;
    std::move(block.found.begin(), block.found.end(), std::back_inserter(all));
  }
  return all;
}

/// Where no function is known instructions are read only to tell of sites there: what is taken for one may be
/// data, and where it is entered nobody knows. Filler of zeros between sections can shift the reading for
/// some instructions; at the end it then stops inside of the last.
void Planner::look_between_functions(const CodeMap::Segment& segment) {
  std::uintptr_t at = segment.begin;
  for (const AddressRange& function : map_.functions) {
    if (!segment.holds(function.begin)) continue;
    look_at({at, function.begin}, segment.holds_data);
    at = function.end;
  }
  look_at({at, segment.end}, segment.holds_data);
}

void Planner::look_at(const AddressRange& range, bool holds_data) {
  if (range.begin >= range.end || !may_hold_sites(range)) return;
  const Decoded decoded = holds_data ? Decoded{{}, range.begin} : decode(range);
  for (const Instruction& instruction : decoded.instructions) {
    if (instruction.site != SiteKind::none)
      plan_.untouched.push_back({instruction, "no unwind table tells of code there; it may be data"});
  }
  if (range.end - decoded.end > instruction_bytes_most) plan_.unread_bytes += range.end - decoded.end;
}

const BranchTargets& Planner::targets() {
  if (!has_targets_) targets_.finish(threads_);
  has_targets_ = true;
  return targets_;
}

void Planner::plan_function(const Found& found) {
  const AddressRange& function = map_.functions[found.index];
  Decoded decoded = decode(function);
  look_finder_.mark(found.looks, decoded.instructions);
  plan_.read_bytes += decoded.end - function.begin;
  if (decoded.end != function.end) {
    Instruction unreadable;
    unreadable.address = decoded.end;
    plan_.untouched.push_back({unreadable, "from here on the function holds bytes that are no instruction"});
  }
  // How far filler behind the function may be overwritten.
  std::uintptr_t limit = (function.end + function_alignment - 1) / function_alignment * function_alignment;
  if (found.index + 1 < map_.functions.size()) limit = std::min(limit, map_.functions[found.index + 1].begin);
  for (const AddressRange& segment : map_.code)
    if (segment.holds(function.begin)) limit = std::min(limit, segment.end);

  const std::vector<Instruction>& all = decoded.instructions;
  find_entries_inside(all);
  std::size_t first_free = 0;  // behind the run before
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (all[at].site == SiteKind::none || at < first_free) continue;
    plan_site(function, all, at, first_free, limit);
    if (!plan_.runs.empty())
      while (first_free < all.size() && all[first_free].address < plan_.runs.back().end) ++first_free;
    first_free = std::max(first_free, at + 1);
  }
}

/// Where branches lead into the middle of instructions: behind a lock that one thread can do without.
void Planner::find_entries_inside(const std::vector<Instruction>& all) {
  entries_inside_.clear();
  for (const Instruction& branch : all) {
    if (branch.target <= all.front().address || branch.target >= all.back().end()) continue;
    const auto at = std::lower_bound(
        all.begin(), all.end(), branch.target,
        [](const Instruction& each, std::uintptr_t address) { return each.address < address; });
    if (at == all.end() || at->address != branch.target) entries_inside_.push_back(branch.target);
  }
}

bool Planner::is_entered_inside(std::uintptr_t begin, std::uintptr_t end) const noexcept {
  return std::any_of(entries_inside_.begin(), entries_inside_.end(),
                     [=](std::uintptr_t entry) { return begin < entry && entry < end; });
}

void Planner::plan_site(const AddressRange& function, const std::vector<Instruction>& all, std::size_t at,
                        std::size_t first_free, std::uintptr_t limit) {
  const Instruction& instruction = all[at];
  const Site site = decode_site(instruction);
  if (instruction.site == SiteKind::atomic) find_load(all, at, site);
  if (site.problem != nullptr && instruction.site == SiteKind::atomic) {
    plan_.untouched.push_back({instruction, site.problem});
    return;
  }
  if (instruction.site == SiteKind::look && !instruction.is_movable) return;
  if (!SiteCode::can_jump(site)) {
    plan_.traps.push_back({instruction, "its operand is relative to gs"});
    return;
  }
  if (is_entered_inside(instruction.address, instruction.end())) {
    plan_.traps.push_back({instruction, "it is jumped into"});
    return;
  }
  if (instruction.length >= jump_bytes) {
    plan_.runs.push_back({{instruction}, instruction.end()});
    return;
  }
  if (targets().jumps_anywhere(function)) {
    plan_.traps.push_back(
        {instruction, "it is short, and its function may jump behind it: no table tells where to"});
    return;
  }
  for (std::size_t before = 0; before <= before_most && before <= at - first_free; ++before)
    if (try_run(function, all, at - before, at, limit)) return;
  plan_.traps.push_back({instruction, "it is short, and its neighbours cannot be moved or are jumped at"});
}

/// Compilers make of most operations a load, and a loop of what computes and a compare-exchange. Of those
/// that are put off nothing is stored.
void Planner::find_load(const std::vector<Instruction>& all, std::size_t at, const Site& site) {
  if (find_reduction(map_, site, shared_.barrier).way != Reduction::Way::none) return;
  for (std::size_t before = at; before-- > 0 && at - before <= load_before_most && all[before].goes_on();) {
    if (!loads_for(all[before], site)) continue;
    plan_.loads_to_store.push_back(all[before].address);
    return;
  }
}

/// A run that begins with instruction `first` and is no longer than it must be.
bool Planner::try_run(const AddressRange& function, const std::vector<Instruction>& all, std::size_t first,
                      std::size_t site, std::uintptr_t limit) {
  const std::uintptr_t begin = all[first].address;
  std::size_t last = first;
  for (;; ++last) {
    if (last == all.size()) return false;
    const Instruction& each = all[last];
    if (last != first && targets().is_target(each.address)) return false;
    if (is_entered_inside(each.address, each.end())) return false;
    if (each.site != SiteKind::atomic && each.site != SiteKind::flush && !each.is_movable) return false;
    if (each.site == SiteKind::atomic && !can_be_moved(decode_site(each))) return false;
    if (last < site && !each.goes_on()) return false;
    if (last >= site && each.end() - begin >= jump_bytes) break;
    if (last >= site && !each.goes_on() && each.end() == function.end) break;
  }
  Run run{
      {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last) + 1},
      all[last].end()};
  if (run.end - begin < jump_bytes) {
    if (begin + jump_bytes > limit || !is_filler({run.end, limit})) return false;
    run.end = begin + jump_bytes;
  }
  plan_.runs.push_back(std::move(run));
  return true;
}

}  // namespace craton::posix
